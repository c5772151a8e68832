"""A fair lock between processes for the writers of one database.

SQLite's own lock is polled with growing pauses: under load a process that has just written takes it again before those
that sleep wake up, and somebody starves (measured with eight writers: 4.5 s for one write). Here waiters block in the
kernel, and in two places one after the other: whoever waits at the ``turn`` is let through by whoever got the ``gate``,
so a process that just let go has to pass the waiting one first.

Nothing about correctness rests on it: SQLite's lock still guards the data against programs that do not know this one.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from chaoscore.adapters.sqlite.disk import Disk


class Turnstile:
    """Two lock files in the data directory. Not reentrant; one thread of a process uses it at a time."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._paths = (directory / "write.turn", directory / "write.gate")
        self._files: list[int] = []
        self._unsure = False

    def enter(self) -> None:
        """Wait until this process may write. Blocks for as long as another one writes; raises ``OSError``."""
        if self._unsure:
            self.close()
        try:
            while len(self._files) < len(self._paths):
                self._files.append(self._disk.open(self._paths[len(self._files)], create=True))
            turn, gate = self._files
            self._disk.lock(turn)
            self._disk.lock(gate)
            self._disk.unlock(turn)
        except BaseException:
            self._unsure = True
            with contextlib.suppress(OSError):
                self.close()
            raise

    def leave(self) -> None:
        """Let the next one in. What fails here is made good by the next ``enter`` at the latest."""
        try:
            self._disk.unlock(self._files[1])
        except OSError:
            self._unsure = True
            with contextlib.suppress(OSError):
                self.close()

    def close(self) -> None:
        """Let go of everything: the kernel drops a lock with its file. A file that could not be closed stays known."""
        while self._files:
            self._disk.close(self._files[-1])
            self._files.pop()
        self._unsure = False
