"""What an MCP server is, as data, and who is calling it.

Above: bootstrap, which writes a definition. Below: ``server``, which builds the SDK's server from it, and the
transports, which say who calls. The same definition is served by every transport; none of them adds to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerMiddleware, ServerRequestContext
from mcp_types import CallToolRequestParams, CallToolResult, InputRequiredResult, Tool
from pydantic import BaseModel

from chaoscore.adapters.mcp.request_state import StateSeal
from chaoscore.app.resources import ResourceProvider
from chaoscore.app.tools import Connection, ToolSet
from chaoscore.domain.json import JsonObject
from chaoscore.domain.principal import Principal

RequestContext = ServerRequestContext[Any, Any]
"""The SDK's context of one request. It never leaves this package."""

ResultText = Callable[[JsonObject], str]
"""The text content of a result, from the envelope as JSON. Must be valid Unicode."""


@dataclass(frozen=True, slots=True)
class RawTool:
    """A tool that speaks MCP itself: content that is no envelope, or a question put to the client mid-call.

    Nothing is validated or mapped for it. Ordinary tools are ``ToolSpec``s.
    """

    tool: Tool
    handler: Callable[[RequestContext, CallToolRequestParams], Awaitable[CallToolResult | InputRequiredResult]]


@dataclass(frozen=True, slots=True)
class RawHandler:
    """A request method beyond tools and resources (prompts, completion, an extension's own)."""

    method: str
    params: type[BaseModel]
    handler: Callable[[RequestContext, Any], Awaitable[BaseModel | dict[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class ServerDefinition:
    """Everything a client can see of one server.

    ``result_text`` writes the text of a tool result from its envelope (default: outcome, what to do, data compactly).
    ``lone_surrogates`` takes text that JavaScript can hold and UTF-8 cannot, over stdio; otherwise it is refused.
    ``tools_change`` announces that tools may come and go. ``fixed_resources``: the list of resources never changes, so
    a 2025-era connection costs the provider nothing until it subscribes to something.
    ``seal`` lets tools ask the users of 2026-era clients in place; without it those are never asked. ``client_model``
    lets tools ask the models of clients that declare one.
    ``middleware`` runs around every message, inside the layer that maps errors to the wire (the place for the SDK's
    ``requestState`` boundary, if raw tools or handlers need one).
    """

    name: str
    title: str
    version: str
    instructions: str
    tools: ToolSet
    resources: ResourceProvider | None = None
    result_text: ResultText | None = None
    lone_surrogates: bool = False
    tools_change: bool = False
    fixed_resources: bool = False
    seal: StateSeal | None = None
    client_model: bool = False
    raw_tools: Sequence[RawTool] = ()
    raw_handlers: Sequence[RawHandler] = ()
    middleware: Sequence[ServerMiddleware[Any]] = ()


@dataclass(slots=True, eq=False)
class Peer:
    """Who is at the other end of one connection, for as long as it lasts.

    ``closers`` run once when the connection ends; ``subscriptions`` are the URIs a 2025-era client asked to be told of.
    """

    principal: Principal
    connection: Connection
    binding: str | None = None
    subscriptions: set[str] = field(default_factory=set)
    watching: bool = False
    closers: list[Callable[[], None]] = field(default_factory=list)

    def close(self) -> None:
        self.subscriptions.clear()
        while self.closers:
            self.closers.pop()()


@dataclass(slots=True, eq=False)
class Caller:
    """One request and its peer.

    ``may_vanish``: the client of a 2025-era HTTP request can be gone without a word, before its call has begun or while
    it runs; the transport then says ``vanished``. All other ways of cancelling are the SDK's own. ``hears_questions``:
    what is sent before the answer reaches the client.
    """

    peer: Peer
    may_vanish: bool = False
    hears_questions: bool = True
    gone: bool = False
    on_gone: Callable[[], None] | None = None

    def vanished(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()


Identify = Callable[[RequestContext], Caller]
"""How a transport tells the server who calls."""
