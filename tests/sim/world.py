"""The machine that the simulation runs on: a clock that jumps, a disk that fails, processes that die and come back.

Everything that happens comes from one ``random.Random``, so that a run is its seed.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from chaoscore.adapters.files.interaction import FileInteractionStore, FolderSettings
from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.app.interactions.service import InteractionService
from chaoscore.testing.faults import Crash, FaultInjector

T = TypeVar("T")


class VirtualClock:
    """Wall time may jump; monotonic time moves a little each time somebody looks, so that every wait ends."""

    def __init__(self) -> None:
        self.seconds = 1_900_000_000.0
        self._steady = 0.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        self._steady += 0.02
        return self._steady


class Disk(FileOps):
    """What one process sees of the disk: ``fault`` fails or kills it, ``meanwhile`` runs between two of its changes."""

    def __init__(self) -> None:
        self.fault: FaultInjector | None = None
        self.torn = False
        self.meanwhile: Callable[[int], None] | None = None
        self.changes = 0
        self._open: set[int] = set()

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        if not flags & os.O_CREAT:
            return self._kept(super().open(path, flags, mode))
        return self._change(f"open {path}", lambda: self._kept(super(Disk, self).open(path, flags, mode)))

    def close(self, fd: int) -> None:
        self._open.discard(fd)
        super().close(fd)

    def write(self, fd: int, data: bytes) -> int:
        def half_if_it_fails_here() -> int:
            short = self.torn and self.fault is not None and self.fault.fired
            return super(Disk, self).write(fd, data[: len(data) // 2] if short else data)

        return self._change("write", half_if_it_fails_here)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return self._change("pwrite", lambda: super(Disk, self).pwrite(fd, data, offset))

    def fsync(self, fd: int) -> None:
        """Counted, not done: no power is cut here (``tests/interaction/test_power_cuts.py`` does that)."""
        self._change("fsync", lambda: None)

    def fdatasync(self, fd: int) -> None:
        self._change("fdatasync", lambda: None)

    def rename(self, source: str, target: str) -> None:
        self._change(f"rename {target}", lambda: super(Disk, self).rename(source, target))

    def link(self, source: str, target: str) -> None:
        self._change(f"link {target}", lambda: super(Disk, self).link(source, target))

    def unlink(self, path: str) -> None:
        self._change(f"unlink {path}", lambda: super(Disk, self).unlink(path))

    def mkdir(self, path: str) -> None:
        self._change(f"mkdir {path}", lambda: super(Disk, self).mkdir(path))

    def rmdir(self, path: str) -> None:
        self._change(f"rmdir {path}", lambda: super(Disk, self).rmdir(path))

    def let_go(self) -> None:
        """What the kernel does for a dead process."""
        for fd in self._open:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._open.clear()

    def _kept(self, fd: int) -> int:
        self._open.add(fd)
        return fd

    def _change(self, name: str, work: Callable[[], T]) -> T:
        self.changes += 1
        if self.meanwhile is not None:
            self.meanwhile(self.changes)
        if self.fault is None:
            return work()
        result: T = self.fault.call(name, work)
        return result


class Process:
    """A process of ours on the folder, started again after it died."""

    def __init__(self, name: str, repository: Path, clock: VirtualClock, dice: random.Random, cached: bool) -> None:
        self.name = name
        self.disk = Disk()
        self._dice = dice
        self._clock = clock
        self._settings = FolderSettings(
            repository / ".chaos/interactions",
            repository,
            repository / ".chaos/interactions/schema",
            cache_dir=repository / f"cache-{name}" if cached else None,
            lock_wait_seconds=0.1,
            settle_seconds=0.0,
        )
        self.service = self._started()

    def _started(self) -> InteractionService:
        store = FileInteractionStore(self._settings, self._clock, self._hex, self.disk)
        store.start()
        return InteractionService(store)

    def _hex(self, digits: int) -> str:
        return f"{self._dice.getrandbits(4 * digits):0{digits}x}"

    async def died(self) -> None:
        """Gone without a word, then started again."""
        with contextlib.suppress(Crash):
            await self.service.close()
        self.disk.let_go()
        self.disk.fault = None
        self.disk.meanwhile = None
        self.service = self._started()

    async def stop(self) -> None:
        self.disk.fault = None
        await self.service.close()
