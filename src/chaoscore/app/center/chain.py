"""Verifying the audit chain when somebody asks, one walk at a time, and what the last walk found."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from chaoscore.app.ports import AuditStore, Clock
from chaoscore.domain.audit import ChainReport
from chaoscore.domain.errors import ChaosError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """``running`` since ``started_at``; ``expected`` events were there then. ``report`` or ``error`` is the last
    result, of ``finished_at``. Seconds since the epoch."""

    running: bool = False
    started_at: float | None = None
    finished_at: float | None = None
    expected: int = 0
    report: ChainReport | None = None
    error: str | None = None


class ChainCheck:
    def __init__(self, audit: AuditStore, clock: Clock, changed: Callable[[], None]) -> None:
        self._audit = audit
        self._clock = clock
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self.status = ChainStatus()

    async def start(self) -> None:
        """Begin a walk, unless one is under way."""
        if self.status.running:
            return
        last = self.status
        self.status = ChainStatus(True, self._clock.now(), last.finished_at, 0, last.report, last.error)
        try:
            newest = await self._audit.tail(None, None, 1, None)
        except ChaosError:
            newest = ()
        expected = newest[0][0] if newest else 0
        self.status = ChainStatus(True, self.status.started_at, last.finished_at, expected, last.report, last.error)
        self._task = asyncio.create_task(self._walk())

    async def _walk(self) -> None:
        report, error = None, None
        try:
            report = await self._audit.verify()
        except ChaosError as problem:
            error = problem.message
        except Exception:
            log.exception("the audit chain could not be verified")
            error = "it failed unexpectedly; the server's log tells why"
        finally:
            begun = self.status
            self.status = ChainStatus(False, begun.started_at, self._clock.now(), begun.expected, report, error)
            self._changed()

    async def close(self) -> None:
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
