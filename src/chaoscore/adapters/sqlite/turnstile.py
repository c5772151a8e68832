"""A fair lock between processes for the writers of one database.

SQLite's own lock is polled with growing pauses: under load a process that has just written takes it again before those
that sleep wake up, and somebody starves (measured with eight writers: 4.5 s for one write). Here waiters block in the
kernel, and in two places one after the other: whoever waits at the ``turn`` is let through by whoever got the ``gate``,
so a process that just let go has to pass the waiting one first.

Nothing about correctness rests on it: SQLite's lock still guards the data against programs that do not know this one.
"""

from __future__ import annotations

from pathlib import Path

from chaoscore.adapters.sqlite.disk import Disk


class Turnstile:
    """Two lock files in the data directory. Not reentrant; one thread of a process uses it at a time."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._paths = (directory / "write.turn", directory / "write.gate")
        self._files: tuple[int, int] | None = None

    def enter(self) -> None:
        """Wait until this process may write. Blocks for as long as another one writes; raises ``OSError``."""
        turn, gate = self._files or self._open()
        self._disk.lock(turn)
        try:
            self._disk.lock(gate)
        finally:
            self._disk.unlock(turn)

    def leave(self) -> None:
        if self._files is not None:
            self._disk.unlock(self._files[1])

    def close(self) -> None:
        files, self._files = self._files, None
        for file in files or ():
            self._disk.close(file)

    def _open(self) -> tuple[int, int]:
        turn = self._disk.open(self._paths[0], create=True)
        try:
            gate = self._disk.open(self._paths[1], create=True)
        except BaseException:
            self._disk.close(turn)
            raise
        self._files = (turn, gate)
        return self._files
