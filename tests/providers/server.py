"""A real HTTP server on loopback whose behaviour is a script: one ``Reaction`` per request, in order.

It runs in a thread with a loop of its own, so that what it sees of a client (bytes taken, a connection closed) is seen
from outside the client's loop.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from chaoscore.domain.json import Json, JsonObject, is_object

WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: Mapping[str, str]
    body: JsonObject


class Reaction(Protocol):
    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. ``body`` that is not bytes is sent as JSON."""

    body: Json | bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        content = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(content)), **self.headers}
        writer.write(_head(self.status, headers) + content)
        await writer.drain()


@dataclass(slots=True)
class Hang:
    """Never answers; ``left`` is set once the client has closed the connection, ``asked`` once it has asked."""

    asked: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.set()
        try:
            while await reader.read(1024):
                pass
        finally:
            self.left.set()


@dataclass(frozen=True, slots=True)
class Drip:
    """Answers one byte at a time, for ever, so that no single read ever times out."""

    every_seconds: float = 0.02

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, {"content-type": "application/json", "content-length": "1000000"}))
        while not writer.transport.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(self.every_seconds)


@dataclass(slots=True)
class Huge:
    """``size`` bytes of JSON text; ``sent`` is how many of them the client's socket took."""

    size: int
    announced: bool
    sent: int = 0

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = {"content-length": str(self.size)} if self.announced else {"transfer-encoding": "chunked"}
        writer.write(_head(200, {"content-type": "application/json", **length}))
        block = b'"' + b"x" * 65_534 + b'"'
        try:
            while self.sent < self.size:
                writer.write(block if self.announced else b"%x\r\n%b\r\n" % (len(block), block))
                await writer.drain()
                self.sent += len(block)
        except ConnectionError:
            pass


@dataclass(frozen=True, slots=True)
class Reset:
    """Half an answer, then the connection is reset."""

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, {"content-type": "application/json", "content-length": "5000"}) + b'{"half": ')
        await writer.drain()
        raw = writer.get_extra_info("socket")
        # A lingering time of 0 turns the close into a reset.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        writer.transport.abort()


class ScriptedServer:
    """``with ScriptedServer(Answer(…), Hang()) as server``: ``server.url``, ``server.requests``."""

    def __init__(self, *script: Reaction) -> None:
        self._script: list[Reaction] = list(script)
        self.requests: list[Request] = []
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(WAIT_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def bodies(self) -> Sequence[JsonObject]:
        return [request.body for request in self.requests]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(server.wait_closed())
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        assert is_object(body)
        self.requests.append(Request(first.split()[1], headers, body))
        reaction = self._script.pop(0) if self._script else Answer({"error": {"message": "the script ended"}}, 418)
        await reaction.play(reader, writer)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
