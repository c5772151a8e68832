"""The pen of one run: whoever holds it owns the run, and nothing is written once the fence has moved on.

It keeps the lease alive by a heartbeat that no handler can delay, and it is the only thing that can vouch that an
intent is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from chaoscore.app.ports import Clock, RunStore
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import ChaosError, LeaseLost
from chaoscore.domain.records import Changes, Claim

log = logging.getLogger(__name__)


class Recorder:
    """Writes under one claim. ``lost`` is set once another process has taken the run over."""

    def __init__(self, store: RunStore, claim: Claim, clock: Clock, lease_seconds: float) -> None:
        self._store = store
        self._claim = claim
        self._clock = clock
        self._lease_seconds = lease_seconds
        self.lost = asyncio.Event()
        self._heartbeat = asyncio.get_running_loop().create_task(self._beat())

    async def commit(self, changes: Changes, events: Sequence[AuditEvent]) -> None:
        """One durable transaction. Raises ``LeaseLost`` and remembers it."""
        try:
            await self._store.commit(self._claim, changes, events)
        except LeaseLost:
            self.lost.set()
            raise

    async def release(self, changes: Changes, events: Sequence[AuditEvent]) -> None:
        """The last write; gives the lease up. The heartbeat ends whatever happens."""
        await self.stop()
        await self._store.release(self._claim, changes, events)

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
                self.lost.set()
                return
            except ChaosError as error:
                log.warning("could not renew the lease of %s: %s", self._claim.run, error)
