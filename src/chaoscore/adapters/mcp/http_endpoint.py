"""One MCP server at one path: what stands between an HTTP request and the SDK's Streamable HTTP.

It reads the body within bounds, refuses what is no JSON-RPC in the same words as stdio, says who calls, keeps the
session rules, and notices when a client is gone. Protocol and streams are the SDK's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST, JSONRPCRequest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from chaoscore.adapters.mcp.definition import Caller, RequestContext, ServerDefinition
from chaoscore.adapters.mcp.http_guard import header, refuse, send_json
from chaoscore.adapters.mcp.http_negotiation import EventsToJson, negotiate
from chaoscore.adapters.mcp.http_sessions import Sessions
from chaoscore.adapters.mcp.jsonrpc import Refusal, is_initialize, parse, too_large
from chaoscore.adapters.mcp.server import build_server
from chaoscore.app.ports import Clock, Ids
from chaoscore.domain.principal import Principal

_CALLER = "chaoscore.caller"


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """``body_seconds`` is what a client may take to send a request, ``stop_seconds`` what calls get after SIGTERM."""

    request_bytes_max: int = 4_194_304
    body_seconds: float = 30.0
    sessions_max: int = 1_000
    session_idle_seconds: float = 1_800.0
    connections_max: int = 1_000
    stop_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Resumption:
    """Lets a 2025-era client whose stream broke ask for what it missed; a broken stream is then no cancellation."""

    events: EventStore
    retry_milliseconds: int | None = None


class McpEndpoint:
    """ASGI. ``identify`` tells the principal of a request that passed authentication."""

    def __init__(
        self,
        definition: ServerDefinition,
        identify: Callable[[Scope], Principal],
        clock: Clock,
        ids: Ids,
        limits: HttpLimits,
        resumption: Resumption | None = None,
    ) -> None:
        self._identify = identify
        self._limits = limits
        self._resumable = resumption is not None
        self._sessions = Sessions(clock, ids, limits.sessions_max, limits.session_idle_seconds)
        self._built = build_server(definition, _caller_of)
        self._stopping = asyncio.Event()
        self._manager = StreamableHTTPSessionManager(
            self._built.sdk,
            event_store=resumption.events if resumption else None,
            retry_interval=resumption.retry_milliseconds if resumption else None,
            max_request_body_size=limits.request_bytes_max,
            max_sessions=limits.sessions_max,
            session_idle_timeout=limits.session_idle_seconds,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve until left; sessions end with it. Once only."""
        async with self._manager.run():
            try:
                yield
            finally:
                self._sessions.close_all()

    def close_streams(self) -> None:
        """End the streams that only wait for news, and what users are asked; calls in flight go on."""
        self._stopping.set()
        self._built.close_streams()
        self._built.withdraw_questions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(self._stopping, scope, receive, send)
        if scope["method"] == "POST" and not await self._read_message(exchange):
            return
        principal = self._identify(scope)
        if _is_modern(scope):
            await self._serve(exchange, Caller(self._sessions.stateless(principal)), None, None)
            return
        session_id = header(scope, b"mcp-session-id")
        if session_id is None:
            if not exchange.initializes:
                await _refuse_rpc(send, 400, "no Mcp-Session-Id: send initialize first, and then its session id")
                return
            await self._serve(exchange, Caller(self._sessions.stateless(principal)), None, principal)
            return
        session = self._sessions.find(session_id, principal)
        if session is None:
            await _refuse_rpc(send, 404, "unknown or expired session; send initialize to open another")
            return
        if not exchange.take_id(session.asked):
            await _refuse_rpc(send, 400, "the id belongs to a call in flight; use another")
            return
        try:
            with self._sessions.using(session_id, session):
                await self._serve(exchange, Caller(session.peer, not self._resumable), session_id, None)
        finally:
            exchange.let_go_of_id()

    async def _serve(
        self, exchange: _Exchange, caller: Caller, session_id: str | None, opening: Principal | None
    ) -> None:
        scope = exchange.scope
        scope[_CALLER] = caller
        send = exchange.send

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope["method"], message, session_id, opening)
                exchange.unfinished = True
            elif not message.get("more_body", False):
                exchange.unfinished = False
                exchange.let_go_of_id()
            await send(message)

        if scope["method"] == "POST":
            send = negotiate(scope)(exchange.send)
            caller.hears_questions = not isinstance(send, EventsToJson)
            if caller.may_vanish:
                exchange.on_gone = caller.vanished
        await self._manager.handle_request(scope, exchange.receive, watched)
        if exchange.unfinished and self._stopping.is_set():
            await watched({"type": "http.response.body", "body": b""})

    def _note(self, method: str, start: Message, session_id: str | None, opening: Principal | None) -> None:
        """Keep the registry in step with what the SDK answered."""
        status = start["status"]
        if opening is not None and status == 200:
            opened = dict(start["headers"]).get(b"mcp-session-id")
            if opened is not None:
                self._sessions.open(opened.decode("ascii"), opening)
        elif session_id is not None and (status == 404 or (method == "DELETE" and status == 200)):
            self._sessions.close(session_id)

    async def _read_message(self, exchange: _Exchange) -> bool:
        """Read and check the body; whether there is a message to serve."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.body_seconds):
                body = await exchange.read_body(limits.request_bytes_max)
        except TimeoutError:
            await refuse(exchange.send, 408, f"the request took longer than {limits.body_seconds} seconds to arrive")
            return False
        if body is None:
            await _refuse_rpc(exchange.send, 413, too_large(limits.request_bytes_max).message)
            return False
        if exchange.gone:
            return False
        message = parse(body)
        if isinstance(message, Refusal):
            await send_json(exchange.send, 400, message.to_bytes())
            return False
        exchange.initializes = is_initialize(message)
        exchange.asks = str(message.id) if isinstance(message, JSONRPCRequest) else None
        return True


class _Exchange:
    """One HTTP request: its body once read, and whether its client is still there."""

    def __init__(self, stopping: asyncio.Event, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope: Scope = dict(scope)
        self.send = send
        self.initializes = False
        self.asks: str | None = None
        self.gone = False
        self.unfinished = False
        self.on_gone: Callable[[], object] | None = None
        self._stopping = stopping
        self._receive = receive
        self._body: bytes | None = None
        self._taken: set[str] | None = None

    def take_id(self, taken: set[str]) -> bool:
        """Whether this request's id was free among those of its session in flight; it is taken until let go."""
        if self.asks is None:
            return True
        if self.asks in taken:
            return False
        taken.add(self.asks)
        self._taken = taken
        return True

    def let_go_of_id(self) -> None:
        """Before the end of the answer leaves: whoever has read it may use the id again."""
        if self._taken is not None and self.asks is not None:
            self._taken.discard(self.asks)
        self._taken = None

    async def read_body(self, bytes_max: int) -> bytes | None:
        """The whole body, ``None`` when it is larger than ``bytes_max``."""
        chunks = bytearray()
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                self.gone = True
                return b""
            chunks += message.get("body", b"")
            if len(chunks) > bytes_max:
                return None
            if not message.get("more_body", False):
                self._body = bytes(chunks)
                return self._body

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        message = await (self._receive() if self.asks is not None else self._receive_or_stop())
        if message["type"] == "http.disconnect":
            self.gone = True
            if self.on_gone is not None:
                self.on_gone()
        return message

    async def _receive_or_stop(self) -> Message:
        """A standing stream ends when the server stops; to the SDK that is a client that went away."""
        receiving = asyncio.ensure_future(self._receive())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return receiving.result() if receiving.done() else {"type": "http.disconnect"}
        finally:
            receiving.cancel()
            stopping.cancel()


def _caller_of(ctx: RequestContext) -> Caller:
    """The SDK hands every request's scope through to its handler."""
    if ctx.request is None:
        raise RuntimeError("the SDK no longer hands the HTTP request to handlers")
    caller: Caller = ctx.request.scope[_CALLER]
    return caller


def _is_modern(scope: Scope) -> bool:
    """The SDK's own rule: whatever names no handshake revision goes to the stateless era, which then judges it."""
    version = header(scope, b"mcp-protocol-version")
    return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS


async def _refuse_rpc(send: Send, status: int, message: str) -> None:
    await send_json(send, status, Refusal(INVALID_REQUEST, message).to_bytes())
