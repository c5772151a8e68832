"""A crash before and after every write of a run, and what the next process makes of it (R1 for runs, laws 4 and 5).

The journal of effects is outside the store, so it tells what really happened: nothing may be in it twice, nothing that
the run calls succeeded may be missing from it, and a run whose unknown outcomes were answered truthfully must end well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoscore.adapters.sqlite import Stores
from chaoscore.app.ports import Processes
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.bootstrap import open_kernel
from chaoscore.domain.action import Event
from chaoscore.domain.errors import StorageError
from chaoscore.testing.fakes import FakeProcesses
from chaoscore.testing.faults import Crash
from tests.app.harness import Bench, World, run, settings_for, step, write_policy

STEPS = (
    step("s1", "test.give", {"value": ["b", "c"]}),
    step("s2", "test.append", {"text": "a"}),
    step("s3", "test.append", {"text": {"$item": ""}}, for_each={"$from": "s1", "path": "/value", "max": 5}),
    step("s4", "test.append", {"text": "d"}, after=["s3"]),
)
EFFECTS = ["a", "b", "c", "d"]
WRITES = ("open_run", "claim", "renew", "commit", "release")


class FailingWrites:
    """A run store whose Nth write fails, before or after it took effect; after a crash nothing takes effect."""

    def __init__(self, fail_at: int, after: bool, fault: Callable[[], BaseException], lasting: bool) -> None:
        self.fail_at = fail_at
        self.after = after
        self.fault = fault
        self.lasting = lasting
        self.count = 0
        self.dead = False
        self.target: Any = None

    def around(self, stores: Stores) -> Stores:
        self.target = stores.runs
        return replace(stores, runs=self)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self.target, name)

        async def call(*arguments: Any) -> Any:
            if self.dead and self.lasting:
                raise self.fault()
            if name not in WRITES:
                return await method(*arguments)
            self.count += 1
            if self.count != self.fail_at:
                return await method(*arguments)
            self.dead = True
            if self.after:
                await method(*arguments)
            raise self.fault()

        return call


class MortalWorld(World):
    """Its effects end with the process."""

    failing: FailingWrites | None = None

    def append(self, line: str) -> None:
        if self.failing is not None and self.failing.dead and self.failing.lasting:
            raise Crash
        super().append(line)


@asynccontextmanager
async def process(directory: Path, processes: Processes, failing: FailingWrites | None = None) -> AsyncIterator[Bench]:
    world = MortalWorld(directory)
    world.failing = failing
    around = failing.around if failing is not None else lambda stores: stores
    async with open_kernel(
        settings_for(directory), extra=world.provided(), processes=processes, around_stores=around
    ) as kernel:
        yield Bench(kernel, world)


async def heal(b: Bench, plan: str) -> dict[str, Any]:
    """What an operator does afterwards: look at the journal, say what really happened, approve, go on."""
    for _ in range(20):
        answer = await b.execute(plan, confirmed=True)
        if not answer["ok"]:
            assert answer["error"]["code"] in ("NO_SPACE", "READ_ONLY", "IO_ERROR"), answer
            continue
        if answer["status"] not in ("NEEDS_ATTENTION", "WAITING_FOR_APPROVAL", "PAUSED"):
            return answer
        for unknown in answer["data"]["unknown"]:
            happened = unknown["arguments"]["text"] in b.world.effects()
            word: Event = "happened" if happened else "retry"
            request = ExecuteRequest(plan=plan)
            await b.kernel.services.runs.resolve(request, unknown["step"], unknown["item"], word, b.context())
    raise AssertionError(f"the run never ended: {answer}")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("approval", [[], ["test.append"]], ids=["allowed", "approved"])
def test_a_crash_at_any_write_loses_nothing_and_repeats_nothing(
    tmp_path: Path, after: bool, approval: list[str]
) -> None:
    async def survive(point: int) -> bool:
        directory = tmp_path / str(point)
        directory.mkdir()
        write_policy(directory, requireConfirmationFor=list(approval))
        machine = FakeProcesses()
        failing = FailingWrites(point, after, Crash, lasting=True)
        plan = ""
        try:
            async with process(directory, machine, failing) as b:
                plan = await b.plan(*STEPS)
                await b.execute(plan, confirmed=True)
                await b.execute(plan, confirmed=True)
                await b.execute(plan, confirmed=True)
        except Crash:
            pass
        machine.bury(machine.current())
        async with process(directory, machine.another(200)) as b:
            before = b.world.effects()
            assert before == EFFECTS[: len(before)]
            answer = await heal(b, plan)
            assert answer["status"] == "ACHIEVED", (point, answer)
            effects = b.world.effects()
            assert sorted(effects) == EFFECTS, point  # each once; siblings of an unknown one may have gone ahead
            assert effects.index("d") > max(effects.index("b"), effects.index("c"))
            report = await b.kernel.stores.audit.verify()
            assert report.problem is None, (point, report)
        return failing.dead

    async def campaign() -> None:
        point = 1
        while await survive(point):
            point += 1
        assert point > 8  # the run really was cut at many places

    run(campaign())


@pytest.mark.parametrize("code", ["NO_SPACE", "READ_ONLY", "IO_ERROR"])
def test_a_store_that_fails_once_at_any_write_loses_nothing(tmp_path: Path, code: str) -> None:
    async def survive(point: int) -> bool:
        directory = tmp_path / str(point)
        directory.mkdir()
        write_policy(directory)
        failing = FailingWrites(point, False, lambda: StorageError("the disk is full", code=code), lasting=False)
        async with process(directory, FakeProcesses(), failing) as b:
            plan = await b.plan(*STEPS)
            answer = await b.execute(plan)
            if not answer["ok"]:
                assert answer["error"]["code"] == code
            answer = await heal(b, plan)
            assert answer["status"] == "ACHIEVED", (point, answer)
            assert b.world.effects() == EFFECTS, point
        return failing.dead

    async def campaign() -> None:
        point = 1
        while await survive(point):
            point += 1
        assert point > 5

    run(campaign())


def test_a_store_that_stays_broken_keeps_the_old_state_and_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        write_policy(tmp_path)
        failing = FailingWrites(4, False, lambda: StorageError("the disk is full", code="NO_SPACE"), lasting=True)
        machine = FakeProcesses()
        async with process(tmp_path, machine, failing) as b:
            plan = await b.plan(*STEPS)
            answer = await asyncio.wait_for(b.execute(plan), 30)
            assert (answer["ok"], answer["error"]["code"]) == (False, "NO_SPACE")
        machine.bury(machine.current())
        async with process(tmp_path, machine.another(200)) as b:
            assert (await heal(b, plan))["status"] == "ACHIEVED"
            assert b.world.effects() == EFFECTS

    run(work())
