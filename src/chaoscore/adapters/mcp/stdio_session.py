"""One stdio connection between the wire and the SDK: what the SDK's stream seam leaves to its transport.

- Bytes that are no message are refused with the reason; the connection goes on.
- ``server/discover`` is answered on a connection of its own. The SDK lets the first request decide the era for good,
  but clients probe with a discover and then open the 2025 handshake: both must work.
- While too many requests are unanswered, further ones are held back; what must overtake them (a cancellation, the
  client's answer to a question, the end of input) still gets through.
- At the end of input, nothing that users were asked can be answered any more, and requests in flight get a bounded
  time to be answered before they are cancelled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from chaoscore.adapters.mcp.jsonrpc import Refusal


class MessageWire(Protocol):
    """Messages in and out."""

    async def receive(self) -> JSONRPCMessage | Refusal | None:
        """The next message, or why there is none in what arrived; ``None`` for good at the end."""
        ...

    async def send(self, message: JSONRPCMessage) -> None:
        """Raises ``anyio.BrokenResourceError`` when nobody reads any more."""
        ...

    def stop(self) -> None:
        """Take nothing more from the client: the end comes next."""
        ...


AnswerAlone = Callable[[JSONRPCRequest], Awaitable[JSONRPCMessage]]
"""Answers one request on a connection of its own."""


OPENING_MAX = 8
"""Messages before the first request that are kept for it; a bare ``notifications/initialized`` is the usual one."""

_WRONG_ERA = "this connection opened with the 2025 handshake; send no 2026-07-28 envelope on it"


class Woken(Enum):
    """Not a message: an answer was sent meanwhile."""

    BY_CHANGE = "change"


class StdioSession:
    """The SDK's read stream and, as ``outbound``, its write stream."""

    def __init__(
        self,
        wire: MessageWire,
        answer_alone: AnswerAlone,
        unanswered_max: int,
        grace_seconds: float,
        on_input_end: Callable[[], None],
    ) -> None:
        self._wire = wire
        self._answer_alone = answer_alone
        self._unanswered_max = unanswered_max
        self._grace_seconds = grace_seconds
        self._on_input_end = on_input_end
        self._unanswered: set[RequestId] = set()
        self._held: deque[JSONRPCRequest] = deque()
        self._opening: deque[SessionMessage] = deque()
        self._handshake_era = False
        self._changed = asyncio.Event()
        self._receiving: asyncio.Task[JSONRPCMessage | Refusal | None] | None = None
        self._alone: set[asyncio.Task[None]] = set()
        self._ended_at: float | None = None
        self.outbound = _Outbound(self)

    def client_gone(self) -> None:
        """Nobody reads answers any more: no grace."""
        self.stop(0)

    def stop(self, grace_seconds: float) -> None:
        """Take no more requests, and wait no longer than this for answers."""
        self._grace_seconds = min(self._grace_seconds, grace_seconds)
        self._wire.stop()
        self._changed.set()

    async def send(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._settle(message.id)
        await self._wire.send(message)

    async def opens_stateless(self) -> bool:
        """Wait for the first request, which decides the era for good. It is given by ``receive`` all the same."""
        request = None
        while request is None:
            try:
                item = await self._take()
            except anyio.EndOfStream:
                return False
            if isinstance(item.message, JSONRPCRequest):
                request = item.message
            elif len(self._opening) >= OPENING_MAX:
                self._opening.popleft()
            self._opening.append(item)
        self._handshake_era = request.method == "initialize" or not _has_envelope(request)
        return not self._handshake_era

    async def receive(self) -> SessionMessage:
        return self._opening.popleft() if self._opening else await self._take()

    async def _take(self) -> SessionMessage:
        while True:
            if self._held and len(self._unanswered) < self._unanswered_max:
                return self._deliver(self._held.popleft())
            if self._ended_at is not None:
                await self._wait_for_answers(self._ended_at)
                continue
            message = await self._next()
            if isinstance(message, Woken):
                continue
            if message is None:
                self._ended_at = asyncio.get_running_loop().time()
                self._on_input_end()
            elif isinstance(message, Refusal):
                await self._refuse(message)
            elif not isinstance(message, JSONRPCRequest):
                if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                    self._forget_cancelled(message)
                return SessionMessage(message)
            elif message.method == "server/discover" and _has_envelope(message):
                self._discover(message)
            elif self._handshake_era and message.method != "initialize" and _has_envelope(message):
                await self._refuse(Refusal(INVALID_REQUEST, _WRONG_ERA, message.id))
            elif len(self._unanswered) < self._unanswered_max and not self._held:
                return self._deliver(message)
            else:
                self._held.append(message)

    async def _refuse(self, refusal: Refusal) -> None:
        with suppress(anyio.BrokenResourceError):  # who sent this is gone
            await self._wire.send(refusal.to_message())

    async def _next(self) -> JSONRPCMessage | Refusal | Woken | None:
        """What arrives next. While requests are held back, an answer that makes room for one comes first."""
        if self._receiving is None and not self._held:
            return await self._wire.receive()
        if self._receiving is None and len(self._held) < self._unanswered_max:
            self._receiving = asyncio.create_task(self._wire.receive())
        self._changed.clear()
        change = asyncio.create_task(self._changed.wait())
        waiting: set[asyncio.Task[Any]] = {change} if self._receiving is None else {change, self._receiving}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            change.cancel()
        if self._receiving is None or not self._receiving.done():
            return Woken.BY_CHANGE
        received, self._receiving = self._receiving.result(), None
        return received

    def _deliver(self, request: JSONRPCRequest) -> SessionMessage:
        # A listen stream is answered when it ends: nothing to wait for.
        if request.method != "subscriptions/listen":
            self._unanswered.add(coerce_request_id(request.id))
        return SessionMessage(request)

    async def _wait_for_answers(self, since: float) -> None:
        """Return when something changed. Raises ``EndOfStream`` when all is answered or the grace is over."""
        left = since + self._grace_seconds - asyncio.get_running_loop().time()
        if left <= 0 or not (self._unanswered or self._held):
            raise anyio.EndOfStream
        self._changed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), left)

    def _forget_cancelled(self, message: JSONRPCNotification) -> None:
        """A cancelled request is never answered."""
        cancelled = as_request_id((message.params or {}).get("requestId"))
        if cancelled is not None:
            key = coerce_request_id(cancelled)
            self._held = deque(item for item in self._held if coerce_request_id(item.id) != key)
            self._settle(cancelled)

    def _settle(self, request_id: RequestId) -> None:
        self._unanswered.discard(coerce_request_id(request_id))
        self._changed.set()

    def _discover(self, request: JSONRPCRequest) -> None:
        async def answer() -> None:
            with suppress(anyio.BrokenResourceError):
                await self.send(await self._answer_alone(request))

        self._unanswered.add(coerce_request_id(request.id))
        task = asyncio.create_task(answer())
        self._alone.add(task)
        task.add_done_callback(self._alone.discard)

    async def aclose(self) -> None:
        for task in self._alone:
            task.cancel()
        if self._receiving is not None:
            self._receiving.cancel()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()


class _Outbound:
    """The SDK's write stream. Closing it is the transport's business."""

    def __init__(self, session: StdioSession) -> None:
        self._session = session

    async def send(self, item: SessionMessage, /) -> None:
        await self._session.send(item.message)

    async def aclose(self) -> None:
        """The wire is closed by whoever opened it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aclose()


def _has_envelope(request: JSONRPCRequest) -> bool:
    meta = (request.params or {}).get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
