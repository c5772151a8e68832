"""What a tool is to every transport: a name, words, schemas, hints and a handler. One list of these is the surface.

Transports are built from the list and add nothing to it; argument errors are answered here, in the envelope.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from chaoscore.app.client_model import ClientModel, RedactedClientModel
from chaoscore.app.elicitation import Elicitor, RedactedElicitor
from chaoscore.app.envelope import Envelope, failure
from chaoscore.app.ports import Progress
from chaoscore.domain.capability import Annotations
from chaoscore.domain.errors import ChaosError, InvalidInput
from chaoscore.domain.json import JsonObject
from chaoscore.domain.principal import Principal
from chaoscore.domain.redaction import Redactor

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Connection:
    """One MCP connection, if the transport has such a thing. ``working`` is its working memory, newest last.

    ``id`` is safe for logs and audit: it names the connection and grants nothing.
    """

    id: str
    stateful: bool = True
    working: list[JsonObject] = field(default_factory=list)


async def no_progress(_: JsonObject) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls, over which connection, and where progress goes.

    ``progress`` takes ``{"progress": n, "total": n | None, "message": text}``. ``binding`` is what an anonymous plan is
    bound to until a run exists (the legacy session id), ``None`` when the transport has none. ``elicitor`` asks the
    user in place, ``None`` when the client cannot. ``client_model`` is the client's own model, ``None`` when it has
    none or the operator does not allow it.
    """

    principal: Principal
    connection: Connection
    progress: Progress = no_progress
    binding: str | None = None
    elicitor: Elicitor | None = None
    client_model: ClientModel | None = None


ToolHandler = Callable[[JsonObject, CallContext], Awaitable[Envelope]]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """``input_schema`` is JSON Schema 2020-12 with descriptions and bounds; ``output_schema`` is the envelope's."""

    name: str
    title: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject
    annotations: Annotations
    handler: ToolHandler


class ToolSet:
    """The list of tool specs and the one way to call one of them.

    What leaves through it passes ``redactor`` (law 10); without one nothing is known to be secret.
    """

    def __init__(self, specs: Sequence[ToolSpec], redactor: Redactor | None = None) -> None:
        self.specs = tuple(specs)
        self._redactor = redactor
        self._by_name: Mapping[str, ToolSpec] = {spec.name: spec for spec in specs}
        if len(self._by_name) != len(self.specs):
            raise ValueError("two tools have one name")

    def get(self, name: str) -> ToolSpec | None:
        return self._by_name.get(name)

    def refused(self, error: ChaosError) -> Envelope:
        """How this surface words a failure; transports use it too, for calls that name no tool."""
        return failure(error)

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> Envelope:
        """Validate and run. Every error becomes an envelope; only cancellation passes through."""
        if self._redactor is None:
            return await self._call(name, arguments, context)
        if context.elicitor is not None:
            context = replace(context, elicitor=RedactedElicitor(context.elicitor, self._redactor))
        if context.client_model is not None:
            context = replace(context, client_model=RedactedClientModel(context.client_model, self._redactor))
        return (await self._call(name, arguments, context)).redacted(self._redactor)

    async def _call(self, name: str, arguments: JsonObject, context: CallContext) -> Envelope:
        spec = self._by_name.get(name)
        if spec is None:
            known = ", ".join(sorted(self._by_name))
            return self.refused(InvalidInput(f"unknown tool {name[:80]!r}; there are {known}", key="name"))
        try:
            from chaoscore.domain.schema import require_valid

            require_valid(arguments, spec.input_schema)
            return await spec.handler(arguments, context)
        except ChaosError as error:
            return self.refused(error)
        except Exception:
            log.exception("tool %s failed unexpectedly", name)
            unexpected = f"{name} failed unexpectedly; the server's log tells why"
            return self.refused(ChaosError(unexpected, code="INTERNAL_ERROR"))
