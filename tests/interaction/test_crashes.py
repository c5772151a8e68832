"""A process dies at every point at which an operation touches the disk: what was acknowledged stands, the rest heals.

The process is real: a child that ends without running anything further, inside its Nth system call.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.system import SystemClock
from chaoscore.app.envelope import Envelope
from chaoscore.app.interactions.service import InteractionService
from tests.interaction.steps import OPERATIONS, Operation, answer, faults, prepared
from tests.interaction.support import Bench

T = TypeVar("T")
POINTS_MAX = 400
DIED = 9


class MortalOps(FileOps):
    """Ends the process before, in the middle of, or right after its Nth change of the disk."""

    def __init__(self, point: int, half: bool) -> None:
        self.left = point
        self.half = half

    def _reached(self) -> bool:
        self.left -= 1
        return self.left == 0

    def write(self, fd: int, data: bytes) -> int:
        if self._reached():
            if self.half:
                os.write(fd, data[: len(data) // 2])
            os._exit(DIED)
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        self._around(lambda: super(MortalOps, self).fsync(fd))

    def fdatasync(self, fd: int) -> None:
        self._around(lambda: super(MortalOps, self).fdatasync(fd))

    def rename(self, source: str, target: str) -> None:
        self._around(lambda: super(MortalOps, self).rename(source, target))

    def link(self, source: str, target: str) -> None:
        self._around(lambda: super(MortalOps, self).link(source, target))

    def unlink(self, path: str) -> None:
        self._around(lambda: super(MortalOps, self).unlink(path))

    def mkdir(self, path: str) -> None:
        self._around(lambda: super(MortalOps, self).mkdir(path))

    def _around(self, action: Callable[[], None]) -> None:
        dies = self._reached()
        if dies and not self.half:
            os._exit(DIED)
        action()
        if dies:
            os._exit(DIED)


def in_child(repository: Path, ops: FileOps, work: Callable[[InteractionService], Awaitable[Envelope]]) -> int:
    """Run ``work`` in a process of its own: 0 when it ended well, ``DIED`` when it died."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            service = bench(repository, ops).service()
            code = 0 if asyncio.run(_awaited(work(service))).ok else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def _awaited(envelope: Awaitable[Envelope]) -> Envelope:
    return await envelope


def bench(repository: Path, ops: FileOps | None = None) -> Bench:
    """With an index, as the server has it: one that outlives the crash and must not believe what did not happen."""
    return Bench(repository, clock=SystemClock(), ops=ops or FileOps(), cache_dir=repository / "cache")


async def told(repository: Path, work: Callable[[InteractionService], Awaitable[T]]) -> T:
    service = bench(repository).service()
    try:
        return await work(service)
    finally:
        await service.close()


@pytest.mark.parametrize("half", [False, pytest.param(True, marks=pytest.mark.campaign)], ids=["before", "halfway"])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation.name))
def test_a_crash_at_any_point_heals_by_itself(tmp_path: Path, operation: Operation, half: bool) -> None:
    for point in range(1, POINTS_MAX):
        repository = tmp_path / str(point)
        repository.mkdir()
        if crashed_and_healed(repository, operation, point, half) == 0:
            assert point > 3, "the operation never touched the disk"
            return
    raise AssertionError("the operation never ran to its end")


def crashed_and_healed(repository: Path, operation: Operation, point: int, half: bool) -> int:
    root = repository / ".chaos/interactions"
    decision = asyncio.run(told(repository, lambda service: prepared(service, *operation.before)))
    code = in_child(repository, MortalOps(point, half), lambda service: operation.do(service, decision))
    assert code in (0, DIED)
    happened = operation.happened(root, decision)
    assert happened or code == DIED
    assert asyncio.run(told(repository, lambda service: service.active_decision())).ok
    assert faults(root) == [], f"after point {point}"
    assert operation.happened(root, decision) == happened, "healing neither undoes nor invents an operation"
    repeated = asyncio.run(told(repository, lambda service: operation.do(service, decision)))
    assert repeated.ok or happened, repeated
    assert operation.happened(root, decision)
    assert faults(root) == [], f"after point {point} and once more"
    assert not (root / ".runtime.lock").exists()
    return code


def test_an_answer_given_before_a_crash_is_never_overwritten(tmp_path: Path) -> None:
    for point in range(1, POINTS_MAX):
        repository = tmp_path / str(point)
        repository.mkdir()
        if answered_twice(repository, point) == 0:
            return
    raise AssertionError("the operation never ran to its end")


def answered_twice(repository: Path, point: int) -> int:
    decision = asyncio.run(told(repository, lambda service: prepared(service, "begin", "ask")))
    code = in_child(repository, MortalOps(point, False), lambda service: answer(service, decision, "a"))
    response = repository / f".chaos/interactions/decisions/{decision}/response.json"
    before = response.read_bytes() if response.exists() else None
    second = asyncio.run(told(repository, lambda service: answer(service, decision, "b")))
    assert second.ok == (before is None), second
    assert before is None or response.read_bytes() == before
    return code
