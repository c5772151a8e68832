"""A repository of the test's own, the real server over it by raw bytes and by the SDK's client, and foreign writers."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from tests.mcp.support import INITIALIZE, Era, Message, call, message

SERVER = [sys.executable, "-m", "chaoscore.cli.interaction_server"]
PATIENCE_SECONDS = 40.0
OPTIONS: list[dict[str, Any]] = [
    {"id": "full", "label": "Every gate", "description": "Slow.", "consequence": "Takes an hour.", "risk": "None."},
    {"id": "compact", "label": "Risky gates only", "consequence": "Takes a minute.", "risk": "May miss something."},
    {"id": "none", "label": "No gate", "risk": "Misses everything."},
]


@dataclass
class Repository:
    """A folder with a home beside it; nothing of the environment of the tests reaches the server."""

    place: Path
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in (self.path, self.place / "home"):
            folder.mkdir(exist_ok=True)

    @property
    def path(self) -> Path:
        return self.place / "repo"

    @property
    def root(self) -> Path:
        return self.path / ".chaos" / "interactions"

    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.place / "home"), **self.extra}

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The server's command to its end."""
        return subprocess.run(
            [*SERVER, *arguments], cwd=self.path, env=self.environ(), input=stdin, capture_output=True, text=True,
            timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip

    def files(self) -> dict[str, tuple[int, int, bytes]]:
        """Everything below the repository: mode, time of writing, content."""
        out = {}
        for path in sorted(self.path.rglob("*")):
            status = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            out[path.relative_to(self.path).as_posix()] = (status.st_mode, status.st_mtime_ns, data)
        return out

    def read(self, relative: str) -> Any:
        return json.loads((self.root / relative).read_text("utf-8"))

    def write(self, relative: str, value: object) -> None:
        """As another program does: whole, by rename."""
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.1.1.aa.tmp")
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
        temporary.rename(path)


class Wire:
    """The server on pipes, by raw lines; every read has a deadline."""

    def __init__(self, repository: Repository, arguments: Sequence[str], command: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [*command, "--log-level", "error", *arguments], cwd=repository.path, env=repository.environ(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._in, self._out, self._err = self.process.stdin, self.process.stdout, self.process.stderr
        self._buffer = b""
        self.heard: list[Message] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self.request(message("initialize", INITIALIZE, id="init"))
        self.send(message("notifications/initialized"))

    def write(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

    def send(self, *messages: Message) -> None:
        self.write(b"".join(json.dumps(item).encode() + b"\n" for item in messages))

    def receive(self) -> Message:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._buffer:
            assert self._selector.select(deadline - time.monotonic()), "the server did not answer in time"
            data = os.read(self._out.fileno(), 65_536)
            assert data, f"the server closed its output: {self._err.read().decode()}"
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        value: Message = json.loads(line)
        return value

    def request(self, body: Message) -> Message:
        """The answer; notifications that come before it are kept in ``heard``."""
        self.send(body)
        while "method" in (answer := self.receive()):
            self.heard.append(answer)
        return answer

    def tool(self, name: str, **arguments: object) -> Message:
        """The envelope, as the text of the result says it."""
        answer = self.request(call(name, arguments, id=name))
        envelope: Message = json.loads(answer["result"]["content"][0]["text"])
        return envelope

    def finish(self) -> tuple[int, str]:
        """End of input; exit code and standard error."""
        self._in.close()
        code = self.process.wait(PATIENCE_SECONDS)
        return code, self._err.read().decode()

    def close(self) -> None:
        self._selector.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        for stream in (self._in, self._out, self._err):
            stream.close()

    # What most tests begin with.

    def begin(self, command: str = "chaos:run", **more: object) -> str:
        envelope = self.tool("chaos_begin_command", sourceCommand=command, **more)
        assert envelope["status"] == "READY", envelope
        run: str = envelope["data"]["commandRunId"]
        return run

    def ask(self, run: str, title: str = "Which profile?", **more: object) -> str:
        arguments: Message = {"context": "Pick one.", "options": OPTIONS, **more}
        envelope = self.tool("chaos_create_decision", commandRunId=run, title=title, **arguments)
        assert envelope["status"] == "WAITING_FOR_USER_DECISION", envelope
        decision: str = envelope["data"]["decisionId"]
        return decision


@contextmanager
def wire(repository: Repository, *arguments: str, command: Sequence[str] = SERVER) -> Iterator[Wire]:
    server = Wire(repository, arguments, command)
    try:
        yield server
    finally:
        server.close()


@asynccontextmanager
async def sdk_client(repository: Repository, era: Era, **options: Any) -> AsyncIterator[Client]:
    """The SDK's client over real stdio."""
    server = StdioServerParameters(
        command=SERVER[0],
        args=[*SERVER[1:], "--log-level", "error"],
        env=repository.environ(),
        cwd=str(repository.path),
    )
    async with Client(server, mode=era, read_timeout_seconds=PATIENCE_SECONDS, **options) as client:
        yield client
