"""Going on with runs whose question was answered, without anybody calling again.

Only ``chaoscore serve`` has one. Waiting costs nothing: there is one loop for all runs, it looks at the store only when
somebody wrote to it or a poke came, and it does only what a caller had asked to execute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from chaoscore.app.ports import Clock, DecisionStore
from chaoscore.app.runs.service import RunService
from chaoscore.app.tools import CallContext
from chaoscore.domain.errors import Busy, ChaosError

log = logging.getLogger(__name__)

POLL_SECONDS = 0.05
"""How often the store is asked whether anybody wrote to it; that question reads no row."""
LOOK_SECONDS = 5.0
"""How often it looks although nobody wrote: time runs out for questions, and owners die."""
RETRY_SECONDS = 5.0
AT_ONCE_MAX = 8


class Worker:
    """``changed`` answers cheaply, without waiting, something that differs after any write by any process."""

    def __init__(
        self,
        runs: RunService,
        decisions: DecisionStore,
        clock: Clock,
        context: Callable[[], CallContext],
        changed: Callable[[], object],
    ) -> None:
        self._runs = runs
        self._decisions = decisions
        self._clock = clock
        self._context = context
        self._changed = changed
        self._poke = asyncio.Event()
        self._going: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}

    def poke(self) -> None:
        """Look now."""
        self._poke.set()

    async def run(self) -> None:
        """Until cancelled. What goes on then is paused by the run service."""
        seen: object = None
        looked = float("-inf")
        try:
            while True:
                now = self._clock.monotonic()
                current = self._changed()
                if self._poke.is_set() or current != seen or now - looked >= LOOK_SECONDS:
                    self._poke.clear()
                    seen, looked = current, now
                    await self._look()
                try:
                    # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with a poke.
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._poke.wait()
                except TimeoutError:
                    continue
        finally:
            for task in self._going.values():
                task.cancel()
            await asyncio.gather(*self._going.values(), return_exceptions=True)

    async def _look(self) -> None:
        room = AT_ONCE_MAX - len(self._going)
        if room <= 0:
            return
        now = self._clock.monotonic()
        self._not_before = {label: at for label, at in self._not_before.items() if at > now}
        try:
            ready = await self._decisions.ready_runs(self._clock.now(), AT_ONCE_MAX + len(self._not_before))
        except ChaosError as error:
            log.warning("could not look for runs that can go on: %s", error.message)
            return
        for label in [name for name in ready if name not in self._going and name not in self._not_before][:room]:
            task = asyncio.create_task(self._go_on(label))
            self._going[label] = task
            task.add_done_callback(lambda _, label=label: self._ended(label))  # type: ignore[misc]

    def _ended(self, label: str) -> None:
        self._going.pop(label, None)
        self.poke()

    async def _go_on(self, label: str) -> None:
        try:
            status = await self._runs.go_on(label, self._context())
            log.info("run %s went on: %s", label, status)
        except Busy:
            self._not_before[label] = self._clock.monotonic() + RETRY_SECONDS
        except ChaosError as error:
            log.warning("run %s could not go on: %s", label, error.message)
            self._not_before[label] = self._clock.monotonic() + RETRY_SECONDS
        except Exception:
            log.exception("run %s could not go on", label)
            self._not_before[label] = self._clock.monotonic() + RETRY_SECONDS * 12
