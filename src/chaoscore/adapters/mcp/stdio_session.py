"""One stdio connection between the wire and the SDK: what the SDK's stream seam leaves to its transport.

- Bytes that are no message are refused with the reason; the connection goes on.
- ``server/discover`` is answered on a connection of its own. The SDK lets the first request decide the era for good,
  but clients probe with a discover and then open the 2025 handshake: both must work.
- Reading stops while too many requests are unanswered.
- At the end of input, requests in flight get a bounded time to be answered before they are cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self

import anyio
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp.shared.message import SessionMessage
from mcp_types import (
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


class StdioSession:
    """The SDK's read stream and, as ``outbound``, its write stream."""

    def __init__(self, wire: MessageWire, answer_alone: AnswerAlone, unanswered_max: int, grace_seconds: float) -> None:
        self._wire = wire
        self._answer_alone = answer_alone
        self._unanswered_max = unanswered_max
        self._grace_seconds = grace_seconds
        self._unanswered: set[RequestId] = set()
        self._changed = asyncio.Event()
        self._alone: set[asyncio.Task[None]] = set()
        self._hurry = False
        self._stopping = False
        self.outbound = _Outbound(self)

    def client_gone(self) -> None:
        """Nobody reads answers any more: no grace."""
        self._hurry = True
        self._stop()

    def stop(self, grace_seconds: float) -> None:
        """The process was asked to stop: take no more requests, and wait no longer than this for answers."""
        self._grace_seconds = min(self._grace_seconds, grace_seconds)
        self._stop()

    def _stop(self) -> None:
        self._stopping = True
        self._wire.stop()
        self._changed.set()

    async def send(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._settle(message.id)
        await self._wire.send(message)

    async def receive(self) -> SessionMessage:
        while True:
            while len(self._unanswered) >= self._unanswered_max and not self._stopping:
                self._changed.clear()
                await self._changed.wait()
            message = await self._wire.receive()
            if message is None:
                await self._wait_for_answers()
                raise anyio.EndOfStream
            if isinstance(message, Refusal):
                await self._wire.send(message.to_message())
            elif isinstance(message, JSONRPCRequest):
                if message.method == "server/discover" and _has_envelope(message):
                    self._unanswered.add(coerce_request_id(message.id))
                    task = asyncio.create_task(self._discover(message))
                    self._alone.add(task)
                    task.add_done_callback(self._alone.discard)
                    continue
                # A listen stream is answered when it ends: nothing to wait for.
                if message.method != "subscriptions/listen":
                    self._unanswered.add(coerce_request_id(message.id))
                return SessionMessage(message)
            else:
                if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                    cancelled = as_request_id((message.params or {}).get("requestId"))
                    if cancelled is not None:
                        self._settle(cancelled)  # a cancelled request is never answered
                return SessionMessage(message)

    async def aclose(self) -> None:
        for task in self._alone:
            task.cancel()

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

    def _settle(self, request_id: RequestId) -> None:
        self._unanswered.discard(coerce_request_id(request_id))
        self._changed.set()

    async def _discover(self, request: JSONRPCRequest) -> None:
        try:
            answer = await self._answer_alone(request)
            await self.send(answer)
        except anyio.BrokenResourceError:
            pass

    async def _wait_for_answers(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._unanswered and not self._hurry:
            left = began + self._grace_seconds - loop.time()
            if left <= 0:
                return
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return


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
