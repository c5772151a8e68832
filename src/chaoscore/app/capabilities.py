"""The registry: what there is, as facts. Handlers are not here; they are behind the gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from chaoscore.domain.capability import Capability
from chaoscore.domain.errors import ConfigurationInvalid


class Registry(Mapping[str, Capability]):
    """Capabilities by name, in the order of registration. Two of one name refuse to start."""

    def __init__(self, capabilities: Iterable[Capability]) -> None:
        self._by_name: dict[str, Capability] = {}
        for capability in capabilities:
            if capability.name in self._by_name:
                raise ConfigurationInvalid(
                    f"two capabilities are named {capability.name!r}; uninstall or rename one of them",
                    capability=capability.name,
                )
            self._by_name[capability.name] = capability
        self._digests = {name: item.definition_digest() for name, item in self._by_name.items()}

    def __getitem__(self, name: str) -> Capability:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def definition_digest(self, name: str) -> str:
        """Raises ``KeyError`` for an unknown name."""
        return self._digests[name]

    def nearest(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Registered names that look like ``name``, best first."""
        return tuple(get_close_matches(name, self._by_name, n=count, cutoff=0.4))
