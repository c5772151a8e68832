"""Calling a capability as the gate does: its handler with arguments and a context."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from chaoscore.adapters.capabilities import builtin_capabilities
from chaoscore.adapters.capabilities.fs.options import FsOptions
from chaoscore.adapters.capabilities.http.options import HttpOptions
from chaoscore.adapters.capabilities.http.resolve import Resolver, system_resolver
from chaoscore.adapters.capabilities.query.options import QueryOptions
from chaoscore.app.ports import AIProvider, HandlerContext, Provided
from chaoscore.domain.errors import CapabilityError, NotPerformed
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.schema import schema_faults


class CountingIds:
    """Ids that tests can predict."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def credential(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):032d}"

    def label(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers)}"


@dataclass
class Desk:
    """The built-in capabilities and the context their handlers get. ``asked`` records what was put to the policy."""

    provided: tuple[Provided, ...]
    denied_words: tuple[str, ...] = ()
    private_hosts: tuple[str, ...] = ()
    deadline_seconds: float = 30.0
    asked: list[str] = field(default_factory=list)

    def capability(self, name: str) -> Provided:
        return next(item for item in self.provided if item.capability.name == name)

    def _authorize(self, arguments: JsonObject) -> None:
        url = str(arguments["url"])
        self.asked.append(url)
        if any(word in url for word in self.denied_words):
            raise NotPerformed(f"policy answers DENY for {url!r}", code="DENIED_BY_POLICY")

    async def start(self, name: str, arguments: JsonObject) -> Json:
        """The handler's output, after checking both sides against the declared schemas."""
        item = self.capability(name)
        assert schema_faults(arguments, item.capability.input_schema) == []
        context = HandlerContext(self._authorize, "key", self.deadline_seconds, self.private_hosts)
        output = await item.handler(arguments, context)
        assert schema_faults(output, item.capability.output_schema) == []
        return output

    def call(self, name: str, **arguments: Json) -> JsonObject:
        output = asyncio.run(self.start(name, arguments))
        assert is_object(output)
        return output

    def outcome(self, name: str, **arguments: Json) -> JsonObject | CapabilityError:
        """Output or error, for properties where either is right."""
        try:
            return self.call(name, **arguments)
        except CapabilityError as error:
            return error

    def failure(self, name: str, **arguments: Json) -> CapabilityError:
        """The error of a call that must fail."""
        output = self.outcome(name, **arguments)
        assert isinstance(output, CapabilityError), f"{name} succeeded with {output!r}"
        return output

    def refusal(self, name: str, **arguments: Json) -> NotPerformed:
        """The error of a call that must fail without having done anything."""
        error = self.failure(name, **arguments)
        assert isinstance(error, NotPerformed), error
        return error


def desk(
    *,
    roots: Iterable[object] = (),
    protected: Iterable[object] = (),
    provider: AIProvider | None = None,
    fs: FsOptions | None = None,
    http: HttpOptions | None = None,
    query: QueryOptions | None = None,
    resolver: Resolver = system_resolver,
    denied_words: tuple[str, ...] = (),
    private_hosts: tuple[str, ...] = (),
) -> Desk:
    provided = builtin_capabilities(
        ids=CountingIds(),
        roots=[str(root) for root in roots],
        protected=[str(path) for path in protected],
        provider=provider,
        fs=fs,
        http=http,
        query=query,
        resolver=resolver,
    )
    return Desk(provided, denied_words, private_hosts)


def names(found: Sequence[JsonObject] | Json, key: str = "path") -> list[Json]:
    assert isinstance(found, list)
    return [item[key] for item in found]
