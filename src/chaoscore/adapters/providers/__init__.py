"""Models behind the ``AIProvider`` port. Importing this package loads no SDK; using a provider does.

``registry`` names them; ``openai`` and ``anthropic`` each know one vendor's API; ``conversation`` holds what is the
same for all (tries, deadlines, validation, the repair turn); ``exchange`` the values between the two; ``sdk``,
``transport`` and ``schemas`` what the vendors' SDKs have in common.
"""

from chaoscore.adapters.providers.conversation import ModelProvider, Probed, Tries
from chaoscore.adapters.providers.registry import PROVIDERS, make_provider

__all__ = ["PROVIDERS", "ModelProvider", "Probed", "Tries", "make_provider"]
