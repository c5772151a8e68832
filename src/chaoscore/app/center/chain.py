"""Verifying the audit chain when somebody asks, one walk at a time, and what the last walk found."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from chaoscore.app.ports import AuditStore, Clock
from chaoscore.domain.audit import ChainReport
from chaoscore.domain.errors import ChaosError

log = logging.getLogger(__name__)

TELL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """``running`` since ``started_at``: ``done`` of the ``expected`` events that were there then. ``report`` or
    ``error`` is the last result, of a walk that took ``seconds`` and ended at ``finished_at`` (since the epoch)."""

    running: bool = False
    started_at: float | None = None
    done: int = 0
    expected: int = 0
    finished_at: float | None = None
    seconds: float = 0.0
    report: ChainReport | None = None
    error: str | None = None


class _Stopped(Exception):
    """The server stops: the walk is not finished."""


class ChainCheck:
    def __init__(self, audit: AuditStore, clock: Clock, changed: Callable[[], None]) -> None:
        self._audit = audit
        self._clock = clock
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.status = ChainStatus()

    async def start(self) -> None:
        """Begin a walk, unless one is under way."""
        if self.status.running:
            return
        self.status = replace(self.status, running=True, started_at=self._clock.now(), done=0, expected=0)
        self._task = asyncio.create_task(self._walk())

    async def close(self) -> None:
        """End the walk that is under way."""
        self._stopping = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _walk(self) -> None:
        began = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        told = began

        def progress(done: int) -> None:
            nonlocal told
            if self._stopping:
                raise _Stopped
            if self._clock.monotonic() - told >= TELL_SECONDS:
                told = self._clock.monotonic()
                loop.call_soon_threadsafe(self._told, done)

        report, error = None, None
        try:
            newest = await self._audit.tail(None, None, 1, None)
            self.status = replace(self.status, expected=newest[0][0] if newest else 0)
            report = await self._audit.verify(progress)
        except ChaosError as problem:
            error = problem.message
        except _Stopped:
            error = "it was not finished, because the server stopped"
        except Exception:
            log.exception("the audit chain could not be verified")
            error = "it failed unexpectedly; the server's log tells why"
        took = self._clock.monotonic() - began
        self.status = replace(
            self.status, running=False, finished_at=self._clock.now(), seconds=took, report=report, error=error
        )
        self._changed()

    def _told(self, done: int) -> None:
        if self.status.running:
            self.status = replace(self.status, done=done)
            self._changed()
