"""The machine that the schedules run on: time that only moves when nobody can go on, and blocking work done in turn.

Everything runs in one thread. What the product hands to threads (SQLite, files) is done here after a delay that the
dice chose, in the order in which each thread would have done it, so that one seed is one schedule. SQLite itself, its
transactions, the lock files and the folder are the real ones.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import random
import selectors
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Protocol
from unittest.mock import patch

from chaoscore import bootstrap_interaction
from chaoscore.adapters.capabilities import entry_points
from chaoscore.adapters.sqlite import database
from chaoscore.adapters.sqlite.lane import Job, Lane, _tell
from chaoscore.domain.errors import StorageError
from chaoscore.testing.fakes import FakeClock
from chaoscore.testing.faults import Crash

DELAYS = (0.0, 0.0, 0.001, 0.004, 0.03)
TURNS_MAX = 400_000


class Stuck(Exception):
    """Nothing can happen any more, or it never ends."""


class _InTime(selectors.SelectSelector):
    """Never waits: where the loop would, its time moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.skip: Callable[[float | None], None] = lambda seconds: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.skip(timeout)
        return []


class SimLoop(asyncio.SelectorEventLoop):
    """``turns`` counts how often it looked; the clock of the machine moves with its time and may jump ahead of it."""

    def __init__(self, clock: FakeClock, dice: random.Random) -> None:
        self.clock = clock
        self.turns = 0
        self._passed = 0.0
        self._dice = dice
        self._not_before: dict[object, float] = {}
        selector = _InTime()
        super().__init__(selector)
        selector.skip = self._skip

    def time(self) -> float:
        return self._passed

    def delay(self) -> float:
        return self._dice.choice(DELAYS)

    def _skip(self, seconds: float | None) -> None:
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise Stuck(f"it did not end in {TURNS_MAX} turns")
        if seconds is None:
            raise Stuck("everybody waits and nobody is left to go on")
        if seconds > 0:
            self._passed += seconds
            self.clock.advance(seconds)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Blocking work of a thread, done in the loop's own, in the order of that thread."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.done():
                return
            try:
                result = func(*args)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        when = max(self.time() + self.delay(), self._not_before.get(executor, 0.0) + 1e-6)
        self._not_before[executor] = when
        self.call_at(when, work)
        return future


class Owner(Protocol):
    """The process that a lane belongs to."""

    dead: bool

    def before_job(self, writes: bool) -> bool:
        """Whether the process still lives to do it."""

    def after_job(self, writes: bool) -> bool:
        """Whether it lives to hear of it."""


OWNER: ContextVar[Owner] = ContextVar("owner")


class SimLane(Lane[Any]):
    """A lane whose thread is the loop: jobs are done one after the other, after a while, and told after a while.

    What gathers while it is busy is done together, as the thread does it.
    """

    def __init__(self, name: str, *rest: Any) -> None:
        super().__init__(name, *rest)
        self._owner = OWNER.get()
        self._writes = name == "chaoscore-write"
        self._line: deque[Job[Any]] = deque()
        self._busy_now = False

    def submit(self, work: Any) -> asyncio.Future[Any]:
        if self._owner.dead:
            raise Crash
        if self._closed:
            raise StorageError("the store is closed; open it again to use it", code="IO_ERROR")
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        job = Job(work, loop, loop.create_future(), float("inf"))
        self._line.append(job)
        if not self._busy_now:
            self._busy_now = True
            loop.call_later(loop.delay(), self._do, loop)
        return job.future

    def _do(self, loop: SimLoop) -> None:
        jobs = list(self._line)
        self._line.clear()
        if self._owner.dead or not self._owner.before_job(self._writes):
            self._bury(jobs)
            return
        for job in jobs[1:]:
            self._queue.put(job)
        self._begun = []
        try:
            self._serve(jobs[0])
        except BaseException as error:
            for begun in self._begun or self.begin(jobs[0]):
                begun.error = error
        if not self._owner.after_job(self._writes):
            self._bury(jobs)
            return
        loop.call_later(loop.delay(), self._told, loop, jobs)

    def _told(self, loop: SimLoop, jobs: list[Job[Any]]) -> None:
        if self._owner.dead:
            self._bury(jobs)
            return
        _tell(jobs)
        if self._line:
            loop.call_later(loop.delay(), self._do, loop)
        else:
            self._busy_now = False

    def _bury(self, jobs: list[Job[Any]]) -> None:
        for job in (*jobs, *self._line):
            if not job.future.done():
                job.future.set_exception(Crash())
        self._line.clear()

    async def close(self) -> None:
        self._closed = True
        while not self._owner.dead and self._busy_now:  # noqa: ASYNC110 - what was handed over is done first
            await asyncio.sleep(0.01)
        self._finish()


@cache
def _installed(group: str) -> importlib.metadata.EntryPoints:
    return importlib.metadata.entry_points(group=group)


@contextmanager
def on_this_machine(clock: FakeClock, dice: random.Random) -> Iterator[None]:
    """Stores opened meanwhile do their work in the loop, folders have the machine's time, and what packages are
    installed is looked up once."""
    with (
        patch.object(entry_points, "entry_points", _installed),
        patch.object(database, "Lane", SimLane),
        patch.object(bootstrap_interaction, "SystemClock", lambda: clock),
        patch.object(bootstrap_interaction, "random_hex", lambda digits: f"{dice.getrandbits(4 * digits):0{digits}x}"),
    ):
        yield
