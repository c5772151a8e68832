"""Which providers there are, by the name that ``CHAOS_CORE_PROVIDER`` gives. Importing this loads no SDK."""

from __future__ import annotations

from chaoscore.adapters.providers.anthropic import anthropic_provider
from chaoscore.adapters.providers.conversation import ModelProvider, Tries
from chaoscore.adapters.providers.openai import openai_provider
from chaoscore.domain.errors import ConfigurationInvalid

PROVIDERS = ("openai", "anthropic", "none")


def make_provider(
    name: str,
    *,
    api_key: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    tries: Tries = Tries(),
    ca_file: str | None = None,
) -> ModelProvider | None:
    """The provider of that name, ``None`` for ``none``; whether it is configured, it says itself.

    ``ca_file`` names certificate authorities (PEM) trusted besides the system's.

    Raises ``ConfigurationInvalid`` for another name, listing the valid ones, and for a bad base URL.
    """
    match name:
        case "openai":
            return openai_provider(api_key=api_key, model=model, base_url=base_url, tries=tries, ca_file=ca_file)
        case "anthropic":
            return anthropic_provider(api_key=api_key, model=model, base_url=base_url, tries=tries, ca_file=ca_file)
        case "none":
            return None
    raise ConfigurationInvalid(
        f"there is no provider {name[:80]!r}; CHAOS_CORE_PROVIDER is one of {', '.join(PROVIDERS)}",
        key="CHAOS_CORE_PROVIDER",
    )
