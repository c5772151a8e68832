"""The pen of one run: whoever holds it owns the run, and nothing is written once the fence has moved on.

It keeps the lease alive by a heartbeat that no handler can delay, and it is the only thing that can vouch that an
intent is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from chaoscore.app.ports import Clock, RunStore
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import ChaosError, LeaseLost, StorageError
from chaoscore.domain.records import Changes, Claim

log = logging.getLogger(__name__)

RETRY_SECONDS = (0.1, 0.4, 1.6)
"""A store that cannot write now (a full disk, a busy lock) is asked again; a result must not be lost over it."""

Write = Callable[[Claim, Changes, Sequence[AuditEvent]], Awaitable[None]]


class Recorder:
    """Writes under one claim. ``lost`` is set once another process has taken the run over."""

    def __init__(self, store: RunStore, claim: Claim, clock: Clock, lease_seconds: float) -> None:
        self._store = store
        self._claim = claim
        self._clock = clock
        self._lease_seconds = lease_seconds
        self.lost = asyncio.Event()
        self._told: list[Callable[[], None]] = []
        self._heartbeat = asyncio.get_running_loop().create_task(self._beat())

    def on_lost(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` once another process has taken the run over."""
        self._told.append(tell)

    def _lose(self) -> None:
        self.lost.set()
        for tell in self._told:
            tell()

    async def commit(self, changes: Changes, events: Sequence[AuditEvent]) -> None:
        """One durable transaction. Raises ``LeaseLost`` and remembers it, ``StorageError`` after trying for a while."""
        await self._write(self._store.commit, changes, events)

    async def finish(self, changes: Changes, events: Sequence[AuditEvent]) -> None:
        """``release`` that leaves the pen in hand when it raises ``Conflict``: then nothing was written."""
        await self._write(self._store.release, changes, events)
        await self.stop()

    async def release(self, changes: Changes, events: Sequence[AuditEvent]) -> None:
        """The last write; gives the lease up. The heartbeat ends whatever happens."""
        try:
            await self._write(self._store.release, changes, events)
        finally:
            await self.stop()

    async def _write(self, write: Write, changes: Changes, events: Sequence[AuditEvent]) -> None:
        for pause in (*RETRY_SECONDS, None):
            try:
                await write(self._claim, changes, events)
                return
            except LeaseLost:
                self._lose()
                raise
            except StorageError as error:
                if pause is None:
                    raise
                log.warning("run %s: %s; trying again in %g s", self._claim.run, error, pause)
                await asyncio.sleep(pause)

    async def stop(self) -> None:
        self._heartbeat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._heartbeat

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._lease_seconds / 3)
            try:
                await self._store.renew(self._claim, self._clock.now() + self._lease_seconds)
            except LeaseLost:
                self._lose()
                return
            except ChaosError as error:
                log.warning("could not renew the lease of %s: %s", self._claim.run, error)
