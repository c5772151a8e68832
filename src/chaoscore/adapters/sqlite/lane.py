"""A thread that does blocking work for an event loop: jobs go in without waiting, results come back as futures.

``database`` has two, one for everything that writes and one for everything that reads, so that a read never waits for
another process's write. A job that could not begin within ``wait_seconds`` fails, however long the thread itself is
stuck in the kernel; a job that began is always told to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from chaoscore.domain.errors import ChaosError, StorageError

A = TypeVar("A")
W = TypeVar("W", bound=Callable[..., object])

JOBS_PER_TURN_MAX = 64
CLOSE_SECONDS = 5.0

UNANSWERED = object()
_QUEUED, _BEGUN, _ENDED = range(3)


class Job(Generic[W]):
    """One piece of work and where its answer goes. The thread sets ``result`` or ``error``."""

    __slots__ = ("deadline", "error", "future", "loop", "result", "state", "work")

    def __init__(self, work: W, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], deadline: float) -> None:
        self.work = work
        self.loop = loop
        self.future = future
        self.deadline = deadline
        self.state = _QUEUED
        self.result: object = UNANSWERED
        self.error: BaseException | None = None


class Lane(Generic[W]):
    """``serve`` runs in the thread: given the first job at hand, it calls ``begin`` once it is ready to work and does
    what that returns, leaving each job's ``result`` or ``error``. ``overdue`` makes the error of a job that could not
    begin in time, ``finish`` ends the thread."""

    def __init__(
        self,
        name: str,
        serve: Callable[[Job[W]], None],
        finish: Callable[[], None],
        overdue: Callable[[], ChaosError],
        wait_seconds: float,
    ) -> None:
        self._name = name
        self._serve = serve
        self._finish = finish
        self._overdue = overdue
        self._wait_seconds = wait_seconds
        self._queue: SimpleQueue[Job[W] | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._waiting: deque[Job[W]] = deque()
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None
        self._begun: list[Job[W]] = []
        self._thread: threading.Thread | None = None
        self._ended: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._closed = False

    # -- in the event loop's thread --------------------------------------------------------------------------

    def submit(self, work: W) -> asyncio.Future[Any]:
        """Hand a job over. Jobs begin in the order they were handed over."""
        if self._closed:
            raise StorageError("the store is closed; open it again to use it", code="IO_ERROR")
        loop = asyncio.get_running_loop()
        job = Job(work, loop, loop.create_future(), loop.time() + self._wait_seconds)
        waiting = self._waiting
        while waiting and waiting[0].state == _ENDED:
            waiting.popleft()
        waiting.append(job)
        if self._timer is None or self._timer[0] is not loop:
            self._timer = (loop, loop.call_at(job.deadline, self._look, loop))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._queue.put(job)
        return job.future

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up what has waited too long; look again when the next job may be due, if there is one."""
        self._timer = None
        now = loop.time()
        overdue: list[Job[W]] = []
        with self._guard:
            for job in self._waiting:
                if job.state == _QUEUED and job.deadline <= now:
                    job.state = _ENDED
                    overdue.append(job)
            left = [job for job in self._waiting if job.state != _ENDED]
        self._waiting = deque(left)
        for job in overdue:
            if not job.future.done():
                job.future.set_exception(self._overdue())
        queued = [job.deadline for job in left if job.state == _QUEUED]
        if left:
            when = min(queued, default=now + self._wait_seconds)
            self._timer = (loop, loop.call_at(max(when, now + 0.001), self._look, loop))

    async def close(self) -> None:
        """Do what was handed over, then end the thread. A thread stuck in the kernel is left behind."""
        self._closed = True
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        thread, self._thread = self._thread, None
        if thread is None:
            self._finish()
            return
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        self._ended = (loop, ended)
        self._queue.put(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(ended)
            thread.join(CLOSE_SECONDS)  # nothing is left for it to do

    # -- in the thread ---------------------------------------------------------------------------------------

    def begin(self, first: Job[W]) -> list[Job[W]]:
        """``first`` and what came meanwhile, without what was given up: from here on they are told to the end."""
        jobs = [first]
        while len(jobs) < JOBS_PER_TURN_MAX and not self._queue.empty():
            job = self._queue.get()
            if job is None:
                self._queue.put(None)  # closing: nothing can come after it
                break
            jobs.append(job)
        with self._guard:
            for job in jobs:
                job.state = _BEGUN if job.state == _QUEUED and not job.future.cancelled() else _ENDED
        self._begun = [job for job in jobs if job.state == _BEGUN]
        return self._begun

    def _run(self) -> None:
        get = self._queue.get
        while (job := get()) is not None:
            self._begun = []
            try:
                self._serve(job)
            except BaseException as error:  # the thread outlives whatever a job did
                for begun in self._begun or self.begin(job):
                    if begun.result is UNANSWERED and begun.error is None:
                        begun.error = error
            for begun in self._begun:
                begun.state = _ENDED
            if self._begun:
                _deliver(self._begun)
        try:
            self._finish()
        finally:
            assert self._ended is not None
            loop, ended = self._ended
            _call(loop, ended.set_result, None)


def _deliver(jobs: list[Job[W]]) -> None:
    loop = jobs[0].loop
    if len(jobs) == 1 or all(job.loop is loop for job in jobs):
        _call(loop, _tell, jobs)
    else:
        for job in jobs:
            _call(job.loop, _tell, [job])


def _tell(jobs: list[Job[W]]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is None:
            job.future.set_result(job.result)
        else:
            job.future.set_exception(job.error)
        job.result = UNANSWERED  # the queue of jobs that waited may still hold this one


def _call(loop: asyncio.AbstractEventLoop, what: Callable[[A], None], argument: A) -> None:
    # When the loop has ended nobody is left to be told, and what was written stays written.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what, argument)
