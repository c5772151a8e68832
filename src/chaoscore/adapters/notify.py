"""Telling people that something waits: the operator's own command, and the desktop's notifications.

``app.approvals`` stands above, programs of the operating system below. A notice is a convenience: the decision itself
is on the disk, so whatever fails here is a line in the log. Each program runs in a session of its own, without a shell,
with nothing of the environment that could be a secret, and is killed with what it started when its time is over.

Notices are delivered by a few threads and not by the event loop: a command that tells and ends (``chaoscore achieve``)
still delivers, because Python waits for these threads at its end.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Protocol

from chaoscore.app.approval_ports import Notice

log = logging.getLogger(__name__)

SECONDS_MAX = 10.0
AT_ONCE_MAX = 4
WAITING_MAX = 64
START_SECONDS_MAX = 20.0
"""Notices that could not begin by then are dropped: programs that hang must not hold a server's end up for minutes."""
TEXT_CHARS_MAX = 2_000
TITLE = "Chaos Core"
_HANDED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SYSTEMROOT"),
        *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"),
        *("XDG_SESSION_TYPE", "XDG_CURRENT_DESKTOP"),
    }
)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_APPLESCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


class NotifySettings(Protocol):
    """The part of ``Settings`` that this needs. An empty command is none."""

    @property
    def notify_command(self) -> Sequence[str]: ...

    @property
    def notify_desktop(self) -> bool: ...


def notifier(settings: NotifySettings, environ: Mapping[str, str] = os.environ) -> ProgramNotifier:
    """Tells in every way that the settings name, or in none. ``environ`` is what programs get a few variables of."""
    return ProgramNotifier(settings.notify_command, desktop=settings.notify_desktop, environ=environ)


@dataclass(frozen=True, slots=True)
class _Program:
    """One program to run: ``name`` for the log, which never shows arguments."""

    name: str
    arguments: tuple[str, ...]
    stdin: bytes
    environ: Mapping[str, str]


class ProgramNotifier:
    """``Notifier`` that runs programs. ``seconds_max`` bounds each of them."""

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        desktop: bool = False,
        environ: Mapping[str, str],
        platform: str = sys.platform,
        seconds_max: float = SECONDS_MAX,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = {name: value for name, value in environ.items() if name in _HANDED_ON or name.startswith("LC_")}
        self._command = tuple(command)
        self._platform = platform
        self._seconds_max = seconds_max
        self._monotonic = monotonic
        self._ways: list[Callable[[Notice], _Program | None]] = []
        if self._command:
            self._ways.append(self._own_command)
        if desktop:
            self._ways.append(self._on_the_desktop)
        self._lock = threading.Lock()
        self._waiting = 0
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self._no_desktop_told = False

    async def tell(self, notice: Notice) -> None:
        """Hands the notice to a thread. Never raises."""
        for way in self._ways:
            try:
                self._hand_over(way, notice)
            except Exception as error:
                log.warning("a notice about %s was not sent: %s", notice.decision, type(error).__name__)

    def close(self) -> None:
        """Wait for notices on their way, at most about half a minute. Later ones are dropped."""
        with self._lock:
            self._closed, threads = True, self._threads
        if threads is not None:
            threads.shutdown(wait=True)

    def _hand_over(self, way: Callable[[Notice], _Program | None], notice: Notice) -> None:
        with self._lock:
            full = self._waiting >= WAITING_MAX
            if not self._closed and not full:
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(AT_ONCE_MAX, "notify")
                self._threads.submit(self._deliver, way, notice, self._monotonic())
                self._waiting += 1
                return
        why = f"{WAITING_MAX} others wait already" if full else "the program is ending"
        log.warning("a notice about %s was dropped: %s", notice.decision, why)

    def _deliver(self, way: Callable[[Notice], _Program | None], notice: Notice, told_at: float) -> None:
        """In a thread of our own."""
        try:
            if self._monotonic() - told_at > START_SECONDS_MAX:
                log.warning("a notice about %s was dropped: those before it took too long", notice.decision)
                return
            program = way(notice)
            if program is not None:
                self._run(program, notice)
        except Exception as error:
            log.warning("a notice about %s was not sent: %s", notice.decision, type(error).__name__)
        finally:
            with self._lock:
                self._waiting -= 1

    def _run(self, program: _Program, notice: Notice) -> None:
        try:
            process = subprocess.Popen(
                program.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=program.environ,
                cwd=os.path.abspath(os.sep),  # the working directory can be somebody else's repository
                start_new_session=True,
            )
        except OSError as error:
            why = (error.strerror or "unknown error").lower()
            log.warning("%r could not be started for a notice about %s: %s", program.name, notice.decision, why)
            return
        try:
            process.communicate(program.stdin, timeout=self._seconds_max)
        except subprocess.TimeoutExpired:
            log.warning(
                "%r was killed after %g s with a notice about %s", program.name, self._seconds_max, notice.decision
            )
            return
        finally:
            if process.poll() is None:
                _kill(process)
        if process.returncode != 0:
            log.warning("%r ended with code %d for %s", program.name, process.returncode, notice.decision)

    # -- ways ------------------------------------------------------------------------------------------------

    def _own_command(self, notice: Notice) -> _Program:
        text, decision = _line(notice.text), _line(notice.decision)
        told = {
            "decision": decision,
            "run": _line(notice.run),
            "kind": _line(notice.kind),
            "text": text,
            "command": _line(notice.command),
            "url": None if notice.url is None else _line(notice.url),
        }
        environ = {**self._environ, "CHAOS_NOTICE_TEXT": text, "CHAOS_NOTICE_DECISION": decision}
        environ["CHAOS_NOTICE_COMMAND"] = _line(notice.command)
        if notice.url is not None:
            environ["CHAOS_NOTICE_URL"] = _line(notice.url)
        stdin = json.dumps(told, ensure_ascii=False).encode("utf-8") + b"\n"
        return _Program(os.path.basename(self._command[0]), self._command, stdin, environ)

    def _on_the_desktop(self, notice: Notice) -> _Program | None:
        from shutil import which

        name = "osascript" if self._platform == "darwin" else "notify-send"
        found = which(name, path=self._environ.get("PATH", os.defpath))
        if found is None:
            with self._lock:
                told, self._no_desktop_told = self._no_desktop_told, True
            if not told:
                log.warning("there are no desktop notifications: %r was not found; install it, or turn them off", name)
            return None
        body = f"{_line(notice.text)}\n{_line(notice.url or notice.command)}"
        if name == "osascript":
            script = tuple(part for line in _APPLESCRIPT for part in ("-e", line))
            return _Program(name, (found, *script, TITLE, body), b"", self._environ)
        # The body is markup there, and what follows -- is no option.
        return _Program(
            name, (found, f"--app-name={TITLE}", "--", TITLE, escape(body, quote=False)), b"", self._environ
        )


def _line(text: str) -> str:
    """One bounded line that any program can take: what does not show becomes a blank."""
    cut = text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"
    return "".join(" " if unicodedata.category(char) in _HIDDEN else char for char in cut)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The program and what it started, as long as that stayed in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    process.wait()
