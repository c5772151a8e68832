"""``FileInteractionStore``: units of work over the folder, one at a time per process, one at a time among all.

Blocking work runs in one thread of its own; waiting for the lock is done by the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from chaoscore.adapters.files.interaction import schemas, upkeep
from chaoscore.adapters.files.interaction.catalog import FallbackCatalog
from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.lock_cache import LockCache
from chaoscore.adapters.files.interaction.settings import FolderSettings
from chaoscore.adapters.files.interaction.unit import FileUnit
from chaoscore.adapters.files.interaction.write_lock import Waiting, WriteLock, process_started_ms
from chaoscore.adapters.files.interaction.writer import LockLost, Writer
from chaoscore.app.interaction_ports import Work
from chaoscore.app.ports import Clock
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.errors import RuntimeBusy

T = TypeVar("T")
_POLL_SECONDS = (0.001, 0.002, 0.003, 0.005)
_RESTARTS_MAX = 20


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    value: T


class FileInteractionStore:
    """``hex_digits(n)`` gives randomness as lower-case hex; ``ops`` is the seam for faults."""

    def __init__(
        self,
        settings: FolderSettings,
        clock: Clock,
        hex_digits: Callable[[int], str],
        ops: FileOps | None = None,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._hex = hex_digits
        self._ops = ops or FileOps()
        self.folder = Folder(settings.root, self._ops, settings.limits.document_bytes_max)
        self._locks = LockCache(self.folder)
        self._catalog = FallbackCatalog(self.folder, settings.cache_dir)
        self._schemas = schemas.Schemas(settings.schema_dir, settings.validate)
        self._lock = WriteLock(
            self.folder.root, self._ops, clock.monotonic, self._now_ms, process_started_ms, os.getpid(),
            lambda: hex_digits(8),
        )  # fmt: skip
        self._writer = Writer(
            settings, self.folder, self._catalog, self._locks, self._schemas, self._lock, clock, hex_digits
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="interactions")
        self._turn = asyncio.Lock()
        self.start_warnings: tuple[str, ...] = ()

    def start(self) -> tuple[str, ...]:
        """What every peer does when it starts: seed schemas into a folder that has none, sweep old temporary files.

        Blocking; a folder that cannot be written gives warnings, never an error. Nothing is created without a root.
        """
        self.start_warnings = tuple(upkeep.start(self.settings, self.folder, self._clock.now()))
        return self.start_warnings

    async def read(self, work: Work[T]) -> T:
        return await self._in_thread(lambda: self._read(work))

    async def change(self, work: Work[T], before: Work[None] | None = None) -> T:
        async with self._turn:
            deadline = self._clock.monotonic() + self.settings.lock_wait_seconds
            attempt = 0
            while True:
                outcome = await self._in_thread(lambda: self._change(work, before))
                if isinstance(outcome, _Done):
                    return outcome.value
                if self._clock.monotonic() >= deadline:
                    raise RuntimeBusy(
                        f"{outcome.holder} has held the write lock for {self.settings.lock_wait_seconds:g} seconds; "
                        f"nothing was changed: wait for it, then call again"
                    )
                await asyncio.sleep(_POLL_SECONDS[min(attempt, len(_POLL_SECONDS) - 1)])
                attempt += 1

    async def change_token(self) -> str:
        return await self._in_thread(lambda: upkeep.change_token(self.folder))

    async def health(self) -> tuple[str, ...]:
        notes = list(self.start_warnings)
        if not self._lock.has_flock:
            notes.append("this file system has no flock: processes of ours exclude each other by the lock file alone")
        if not self._lock.has_links:
            notes.append("this file system has no hard links: the lock file is created in place")
        notes.extend(self._catalog.notes())
        return tuple(notes)

    async def close(self) -> None:
        await self._in_thread(self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        with contextlib.suppress(ChaosError):
            if self.folder.exists():
                unit = self._unit()
                unit.catch_up()
                self._writer.write_lagging_index(unit)
        self._catalog.close()

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        """Cancellation waits for the thread: an operation never goes on behind its caller's back."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await future
            raise

    def _unit(self) -> FileUnit:
        return FileUnit(
            self.folder, self._catalog, self._locks, self._schemas, str(self.settings.repository), self._now_ms(),
            self._hex, self.settings.limits.document_bytes_max,
        )  # fmt: skip

    def _read(self, work: Work[T]) -> T:
        return work(self._unit())

    def _change(self, work: Work[T], before: Work[None] | None) -> _Done[T] | Waiting:
        if not self.folder.exists():
            unit = self._unit()
            if before is not None:
                before(unit)
            if not unit.is_dirty:
                value = work(unit)
                if not unit.is_dirty:
                    return _Done(value)
            self._writer.make_root()
        self._catalog.prepare()
        self._locks.prepare()
        waiting = self._lock.try_acquire()
        if waiting is not None:
            return waiting
        if self._lock.found_dead:
            self._lock.found_dead = False
            self._catalog.doubt()
        try:
            for _ in range(_RESTARTS_MAX):
                with contextlib.suppress(LockLost):
                    return _Done(self._attempt(work, before))
                waiting = self._lock.republish()
                if waiting is not None:
                    return waiting
            return Waiting("a process that keeps taking the lock away")
        finally:
            self._lock.release()

    def _attempt(self, work: Work[T], before: Work[None] | None) -> T:
        unit = self._unit()
        unit.catch_up()  # under the lock: what the catalog is told of our writes must follow what others did
        if before is not None:
            before(unit)
            if unit.is_dirty:
                self._writer.write(unit)
        self._writer.prune_locks(unit)
        value = work(unit)
        if unit.is_dirty:
            self._writer.write(unit)
        return value
