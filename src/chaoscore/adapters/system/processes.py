"""Which process this is, and whether another one is certainly dead.

A run's owner that died is replaced at once, without waiting for its lease to run out; a wrong "dead" would let two
processes drive one run, so everything uncertain answers "not dead" and the lease decides.
"""

from __future__ import annotations

import os
import platform
import secrets
from dataclasses import dataclass
from pathlib import Path

from chaoscore.domain.records import ProcessIdentity

_GONE_STATES = frozenset("ZXx")
"""Zombie and dead: no thread of it runs any more, only its parent has not looked yet."""


class LinuxProcesses:
    """``Processes`` over ``/proc``: boot id, pid namespace, pid and start time name one process for ever.

    Where there is no ``/proc`` (macOS), the host's name stands in for the boot and the start time is unknown; a process
    is then dead only when its pid is free. ``nonce`` tells two owners within one process apart.
    """

    def __init__(self, nonce: str | None = None, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._nonce = nonce if nonce is not None else secrets.token_hex(8)
        self._identity: ProcessIdentity | None = None

    def current(self) -> ProcessIdentity:
        """This process; a fork is another one."""
        pid = os.getpid()
        if self._identity is None or self._identity.pid != pid:
            boot, namespace = self._place()
            known = self._state(pid)
            self._identity = ProcessIdentity(boot, namespace, pid, known.started if known else "", self._nonce)
        return self._identity

    def is_dead(self, process: ProcessIdentity) -> bool:
        here = self.current()
        if (process.boot, process.namespace) != (here.boot, here.namespace) or process.pid <= 0:
            return False
        known = self._state(process.pid) if here.started else None
        if known is None:
            # /proc may be missing, or hide other users' processes; the kernel itself tells whether a pid is taken.
            return _pid_is_free(process.pid)
        if known.state in _GONE_STATES:
            return True
        return process.started not in ("", known.started)

    def _place(self) -> tuple[str, str]:
        try:
            boot = (self._proc / "sys/kernel/random/boot_id").read_text("ascii").strip()
            return boot, os.readlink(self._proc / "self/ns/pid")
        except OSError:
            return f"host:{platform.node()}", ""

    def _state(self, pid: int) -> _Stat | None:
        """What ``/proc`` says about ``pid``; ``None`` when it knows no such process, or cannot say."""
        try:
            stat = (self._proc / str(pid) / "stat").read_text("utf-8", "replace")
        except OSError:
            return None
        # The name, in parentheses, may itself hold blanks and parentheses; what follows the last one is ours.
        fields = stat[stat.rfind(")") + 2 :].split()
        return _Stat(fields[0], fields[19]) if len(fields) > 19 else None


@dataclass(frozen=True, slots=True)
class _Stat:
    """``started`` counts clock ticks between boot and start."""

    state: str
    started: str


def _pid_is_free(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
