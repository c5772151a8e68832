"""What carries a stdio connection's messages: two file descriptors, or the SDK's own stdio where need be."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, JSONRPCMessage
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from chaoscore.adapters.mcp.jsonrpc import Refusal, parse, too_large
from chaoscore.adapters.mcp.stdio_fds import WireFds, give_back
from chaoscore.adapters.mcp.stdio_session import MessageWire
from chaoscore.adapters.mcp.stdio_wire import FrameWriter, Line, LineReader

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StdioLimits:
    """``grace_seconds`` is what calls in flight get after the end of input, ``stop_seconds`` after SIGTERM."""

    message_bytes_max: int = 4_194_304
    unanswered_max: int = 1_024
    grace_seconds: float = 10.0
    stop_seconds: float = 3.0
    flush_seconds: float = 2.0


@asynccontextmanager
async def open_wire(
    fds: WireFds | None, limits: StdioLimits, on_broken: Callable[[], None], lone_surrogates: bool = False
) -> AsyncIterator[MessageWire]:
    """The wire over ``fds``; the SDK's when there are none or asyncio cannot watch them (Windows, a regular file)."""
    if fds is not None:
        try:
            reader = LineReader(fds.read, limits.message_bytes_max, limits.message_bytes_max)
        except ConnectionError:
            give_back(fds)
        else:
            writer = FrameWriter(fds.write, on_broken)
            try:
                yield FdWire(reader, writer, limits.message_bytes_max, lone_surrogates)
                with suppress(TimeoutError):
                    async with asyncio.timeout(limits.flush_seconds):
                        await writer.drain()
            finally:
                reader.end()
                writer.close()
            return
    try:
        async with _sdk_wire() as wire:
            yield wire
    except* OSError as errors:
        log.error("answers cannot be written any more: %s", errors.exceptions[0])


@asynccontextmanager
async def _sdk_wire() -> AsyncIterator[SdkWire]:
    from mcp.server.stdio import stdio_server

    into, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with stdio_server() as (source, sink), into, inbox, anyio.create_task_group() as pumping:

        async def pump() -> None:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for item in source:
                    await into.send(item)
            into.close()

        pumping.start_soon(pump)
        async with sink:
            yield SdkWire(inbox, sink.send, into.close)
        pumping.cancel_scope.cancel()


class FdWire:
    """Messages over two file descriptors."""

    def __init__(self, reader: LineReader, writer: FrameWriter, bytes_max: int, lone_surrogates: bool = False) -> None:
        self._reader = reader
        self._writer = writer
        self._bytes_max = bytes_max
        self._lone_surrogates = lone_surrogates

    async def receive(self) -> JSONRPCMessage | Refusal | None:
        line = await self._reader.next()
        if isinstance(line, bytes):
            return parse(line, self._lone_surrogates)
        return too_large(self._bytes_max) if line is Line.TOO_LONG else None

    async def send(self, message: JSONRPCMessage) -> None:
        self._writer.write(_frame(message))
        if self._writer.broken:
            raise anyio.BrokenResourceError
        await self._writer.room()

    def stop(self) -> None:
        self._reader.end()


def _frame(message: JSONRPCMessage) -> bytes:
    """One line. What UTF-8 cannot carry (a lone surrogate that came in as an id, say) goes out as it came, escaped."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except PydanticSerializationError:
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode() + b"\n"


class SdkWire:
    """Messages over the SDK's own stdio, which reads in a thread and parses for itself."""

    def __init__(
        self,
        inbox: MemoryObjectReceiveStream[SessionMessage | Exception],
        send: Callable[[SessionMessage], Awaitable[None]],
        stop: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._send = send
        self._stop = stop

    async def receive(self) -> JSONRPCMessage | Refusal | None:
        try:
            item = await self._inbox.receive()
        except anyio.EndOfStream:
            return None
        return item.message if isinstance(item, SessionMessage) else _refusal(item)

    async def send(self, message: JSONRPCMessage) -> None:
        await self._send(SessionMessage(message))

    def stop(self) -> None:
        self._stop()


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, ValidationError) and error.errors(include_url=False, include_input=False)[0]["type"] != (
        "json_invalid"
    ):
        return Refusal(INVALID_REQUEST, "the line is no JSON-RPC message")
    return Refusal(PARSE_ERROR, "not JSON")
