"""What MCP clients see of the human-decision runtime: its 14 tools, its resources, and the order calls take effect in.

Transports stand above and are built from this; ``app.interactions``, which decides everything, stands below. It is a
package of its own because the wording of a surface changes for other reasons than the rules behind it.
"""

from chaoscore.app.interaction_surface.order import InOrder
from chaoscore.app.interaction_surface.resources import InteractionResources
from chaoscore.app.interaction_surface.tools import INSTRUCTIONS, InteractionTools

__all__ = ["INSTRUCTIONS", "InOrder", "InteractionResources", "InteractionTools"]
