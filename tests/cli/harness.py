"""The installed command in a process of its own, with a home, a working folder and a data directory of the test's."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(sys.executable).parent
CHAOSCORE = str(SCRIPTS / "chaoscore")
SERVER = str(SCRIPTS / "chaos-core-mcp")
ROOT = Path(__file__).resolve().parents[2]
INDEX_PLAN = ROOT / "examples" / "index-docs.json"
PATIENCE_SECONDS = 60.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class Ended:
    """A process that ended: what it wrote and its exit code."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


@dataclass
class Desk:
    """Where a test works: ``home`` of the user, ``work`` the current folder, ``data`` the data directory."""

    place: Path
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in (self.home, self.work):
            folder.mkdir(exist_ok=True)

    @property
    def home(self) -> Path:
        return self.place / "home"

    @property
    def work(self) -> Path:
        return self.place / "work"

    @property
    def data(self) -> Path:
        return self.place / "data"

    def environ(self) -> dict[str, str]:
        """Nothing of the environment that the tests run in but what a process needs to start."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
        return {**kept, "HOME": str(self.home), "CHAOS_CORE_DATA_DIR": str(self.data), **self.extra}

    def run(
        self,
        *arguments: str,
        stdin: str | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        program: str = CHAOSCORE,
        around: Sequence[str] = (),
    ) -> Ended:
        """``around`` is a command that runs it."""
        done = subprocess.run(
            [*around, program, *arguments],
            input="" if stdin is None else stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=self.environ() if environ is None else dict(environ),
            cwd=cwd or self.work,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    def policy(self, **changes: object) -> Path:
        """A policy file of the test's own, for ``--policy``."""
        rules: dict[str, object] = {
            "allowedCapabilities": [],
            "deniedCapabilities": [],
            "requireConfirmationFor": [],
            "httpAllowedDomains": [],
            **changes,
        }
        path = self.place / "policy.json"
        path.write_text(json.dumps(rules), encoding="utf-8")
        return path

    def documents(self, **texts: str) -> None:
        """Markdown documents under ``docs`` of the working directory."""
        (self.work / "docs").mkdir(exist_ok=True)
        for name, text in (texts or {"one": "# One\nhello\n", "two": "# Two\nx\ny\n"}).items():
            (self.work / "docs" / f"{name}.md").write_text(text, encoding="utf-8")

    def plan(self, *steps: Mapping[str, object], name: str = "plan.json") -> str:
        path = self.place / name
        path.write_text(json.dumps({"objective": "a test", "steps": list(steps)}), encoding="utf-8")
        return str(path)


def only_read(directory: Path) -> list[str]:
    """Runs a command where ``directory`` is mounted so that nobody may write in it."""
    return mounted(f'mount --bind {directory} {directory}; mount -o remount,bind,ro {directory}; "$@"')


def mounted(shell: str) -> list[str]:
    """Runs a command in a mount namespace of its own, in which ``shell`` was run; ``"$@"`` is the command."""
    return ["unshare", "--map-root-user", "--mount", "sh", "-ec", shell, "sh"]


def without_powers() -> list[str]:
    """Runs a command for which file modes mean something, also where the tests run as root."""
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []


def _runs(command: Sequence[str]) -> bool:
    try:
        return subprocess.run([*command, "true"], capture_output=True, timeout=20, check=False).returncode == 0
    except OSError:
        return False


needs_mount = pytest.mark.skipif(
    not _runs(only_read(Path(tempfile.gettempdir()))), reason="mounting needs user namespaces"
)
needs_modes = pytest.mark.skipif(not _runs(without_powers() or ["true"]), reason="root may write everything")


class Session:
    """The command at a terminal of its own: what it draws is read, what a person types is written."""

    def __init__(self, desk: Desk, arguments: Sequence[str], columns: int = 120, around: Sequence[str] = ()) -> None:
        environ = {**desk.environ(), "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "50"}
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            os.chdir(desk.work)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever started the tests in the background ignores it
            command = [*around, *arguments] if around else [CHAOSCORE, *arguments]
            os.execve(command[0], command, environ)
        self._raw = b""
        self._seen = 0
        self._code: int | None = None

    @property
    def raw(self) -> str:
        return self._raw.decode("utf-8", errors="replace")

    @property
    def screen(self) -> str:
        """Everything drawn so far, without colours and cursor moves."""
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    def until(self, text: str) -> str:
        """Read until ``text`` is drawn after what was waited for before; what was drawn since then."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.screen[self._seen :]:
            assert self._read(deadline - time.monotonic()), f"{text!r} never came:\n{self.screen}"
        drawn = self.screen[self._seen :]
        self._seen += drawn.index(text) + len(text)
        return drawn

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def end(self) -> int:
        """Read to the end; the exit code."""
        if self._code is None:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while self._read(deadline - time.monotonic()):
                pass
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert "Traceback" not in self.screen, self.screen
        return self._code

    def close(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._file)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._file], [], [], max(0.0, seconds))
        try:
            data = os.read(self._file, 65_536) if ready else b""
        except OSError:  # the other end is gone
            data = b""
        self._raw += data
        return bool(data)


@contextmanager
def at_a_terminal(desk: Desk, *arguments: str, around: Sequence[str] = ()) -> Iterator[Session]:
    """``around`` is another program, which is run in its place."""
    session = Session(desk, arguments, around=around)
    try:
        yield session
    finally:
        session.close()
