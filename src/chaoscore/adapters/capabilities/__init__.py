"""What the system can do: the built-in capabilities, and those of installed packages.

Only bootstrap imports it. Each capability is facts (for the registry) and a handler (for the gate); see
``docs/capabilities.md``.
"""

from chaoscore.adapters.capabilities.builtin import builtin_capabilities
from chaoscore.adapters.capabilities.entry_points import declared_names, entry_point_capabilities

__all__ = ["builtin_capabilities", "declared_names", "entry_point_capabilities"]
