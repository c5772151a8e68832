"""Clients for the tests of the wire: raw bytes over pipes and sockets, and the SDK's own client on every transport."""

from __future__ import annotations

import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from mcp import Client, StdioServerParameters

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_SECONDS = 20.0
_NUMBERS = count()
FIXTURE = "tests.mcp.fixture_server"
Message = dict[str, Any]
Era = Literal["legacy", "auto", "2026-07-28"]
Transport = Literal["stdio", "http"]

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def message(method: str, params: object = None, id: object = None) -> Message:
    out: Message = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        out["id"] = id
    if params is not None:
        out["params"] = params
    return out


def call(name: object, arguments: object = None, id: object = 1, **meta: object) -> Message:
    params: Message = {"name": name}
    if arguments is not None:
        params["arguments"] = arguments
    if meta:
        params["_meta"] = meta
    return message("tools/call", params, id)


class RawStdio:
    """A fixture server on pipes; every read has a deadline."""

    def __init__(self, limits: Message | None = None, module: str = FIXTURE) -> None:
        command = [sys.executable, "-m", module, "stdio"]
        if limits is not None:
            command.append(json.dumps(limits))
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._in, self._out, self._err = self.process.stdin, self.process.stdout, self.process.stderr
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)

    def write(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

    def send(self, *messages: Message) -> None:
        self.write(b"".join(json.dumps(item).encode() + b"\n" for item in messages))

    def receive(self) -> Message:
        line = self.receive_line()
        assert line is not None, f"the server closed its output: {self._err.read().decode()}"
        value: Message = json.loads(line)
        return value

    def receive_line(self) -> bytes | None:
        """The next line, ``None`` when the server closed its output."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._buffer:
            if not self._selector.select(deadline - time.monotonic()):
                raise AssertionError("the server did not answer in time")
            data = os.read(self._out.fileno(), 65_536)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    def request(self, *messages: Message) -> Message:
        self.send(*messages)
        return self.receive()

    def initialize(self, **params: object) -> Message:
        answer = self.request(message("initialize", {**INITIALIZE, **params}, id="init"))
        self.send(message("notifications/initialized"))
        return answer

    def tool(self, name: object, arguments: object = None) -> Message:
        """The structured content of one call."""
        answer = self.request(call(name, arguments, id=f"tool-{name}"))
        content: Message = answer["result"]["structuredContent"]
        return content

    def wait_for(self, holds: Callable[[Message], bool]) -> Message:
        """Ask for the fixture's state until ``holds``."""
        return until(lambda: self.tool("state")["data"], holds)

    def end_input(self) -> None:
        self._in.close()

    def finish(self) -> tuple[int, list[Message], str]:
        """Exit code, what was still written, and standard error."""
        rest = []
        while (line := self.receive_line()) is not None:
            rest.append(json.loads(line))
        code = self.process.wait(PATIENCE_SECONDS)
        return code, rest, self._err.read().decode()

    def close(self) -> None:
        self._selector.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        for stream in (self._in, self._out, self._err):
            stream.close()


@contextmanager
def raw_stdio(limits: Message | None = None, *, handshake: bool = True, module: str = FIXTURE) -> Iterator[RawStdio]:
    server = RawStdio(limits, module)
    try:
        if handshake:
            server.initialize()
        yield server
    finally:
        server.close()


def until(ask: Callable[[], Message], holds: Callable[[Message], bool]) -> Message:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        state = ask()
        if holds(state):
            return state
    raise AssertionError(f"never held; last seen {state}")


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def messages(self) -> list[Message]:
        """The JSON-RPC messages of the body, whichever form it has."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = self.body.replace(b"\r\n", b"\n").split(b"\n")
            return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ") and line[6:].strip()]
        return [json.loads(self.body)]


class HttpServer:
    """A fixture server on a loopback port."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, started_with: str) -> None:
        self.process = process
        self.started_with = started_with
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"

    def send(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        """One request, read to its end."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def post(self, body: object, session: str | None = None, path: str = "/mcp", **headers: str) -> Answer:
        given = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        if session is not None:
            given["mcp-session-id"] = session
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send("POST", path, body, {name: value for name, value in given.items() if value})

    def modern(self, body: Message, **headers: str) -> Answer:
        """A 2026-07-28 request with its envelope and headers."""
        params = {**body.get("params", {}), "_meta": {**ENVELOPE, **body.get("params", {}).get("_meta", {})}}
        named = {"mcp_name": str(params["name"])} if "name" in params else {}
        named |= {"mcp_name": str(params["uri"])} if "uri" in params else {}
        return self.post(
            {**body, "params": params},
            mcp_protocol_version="2026-07-28",
            mcp_method=str(body["method"]),
            **(named | headers),
        )

    def open_session(self, capabilities: Message | None = None, **headers: str) -> str:
        params = {**INITIALIZE, "capabilities": capabilities or {}}
        answer = self.post(message("initialize", params, id=0), **headers)
        assert answer.status == 200, answer
        session = answer.headers["mcp-session-id"]
        assert self.post(message("notifications/initialized"), session, **headers).status == 202
        return session

    def tool(self, session: str, name: str, arguments: object = None, **headers: str) -> Message:
        # An id of its own: two requests in flight in one session must not share one.
        answer = self.post(call(name, arguments, id=f"tool-{next(_NUMBERS)}"), session, **headers)
        assert answer.status == 200, answer
        content: Message = answer.messages()[-1]["result"]["structuredContent"]
        return content

    def wait_for(self, session: str, holds: Callable[[Message], bool]) -> Message:
        return until(lambda: self.tool(session, "state")["data"], holds)

    def start(self, body: Message, session: str | None = None, **headers: str) -> socket.socket:
        """Send a request and leave its answer unread."""
        data = json.dumps(body).encode()
        lines = {
            "host": f"127.0.0.1:{self.port}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "content-length": str(len(data)),
            **({"mcp-session-id": session} if session else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_SECONDS)
        connection.sendall(head.encode() + data)
        return connection

    def terminate(self) -> tuple[int, str]:
        """SIGTERM; exit code and standard error."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr is not None
        rest = self.process.stderr.read().decode()
        return self.process.wait(PATIENCE_SECONDS), rest


@contextmanager
def http_server(options: Message | None = None, module: str = FIXTURE) -> Iterator[HttpServer]:
    command = [sys.executable, "-m", module, "http", "0", json.dumps(options or {})]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        port, log = None, b""
        for line in process.stderr:
            log += line
            if line.startswith(b"ready "):
                port = int(line.split()[1])
                break
        assert port is not None, "the server did not start"
        yield HttpServer(process, port, log.decode())
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()
        process.stderr.close()


@asynccontextmanager
async def sdk_client(target: str | None, era: Era, **options: Any) -> AsyncIterator[Client]:
    """The SDK's client: over stdio when ``target`` is ``None``, else over HTTP to that URL."""
    server: Any = target
    if target is None:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "tests.mcp.fixture_server", "stdio"], cwd=str(ROOT)
        )
    async with Client(server, mode=era, read_timeout_seconds=PATIENCE_SECONDS, **options) as client:
        yield client
