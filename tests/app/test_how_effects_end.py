"""How the gate tells the end of an effect: once, whatever the handler does, and apart from every other effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import cast

import pytest

from chaoscore.adapters.files.policy_file import PolicyFile
from chaoscore.adapters.system import SystemClock
from chaoscore.app.capabilities import Registry
from chaoscore.app.gate import Checks, Gate, Outcome, Subject
from chaoscore.app.ports import Handler, HandlerContext
from chaoscore.domain.action import ActionError
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.plan import Step
from chaoscore.domain.run import Propose
from tests.app.harness import bench, run, step, until, write_policy

SUBJECT = Subject("r-1", "local:1")
ANY: JsonObject = {"type": "object"}
READ = Annotations(read_only=True, idempotent=True, destructive=False, open_world=False)
ACT = Annotations()


def all_held(output: Json) -> ActionError | None:
    return None


def begun(
    directory: Path,
    handler: Handler,
    annotations: Annotations,
    seconds: float = 10.0,
    checks: Checks = all_held,
    told: list[str] | None = None,
) -> asyncio.Future[Outcome]:
    """The effect of ``handler``, put to a real gate and under way."""
    capability = Capability("test.it", "for tests", "low", ANY, ANY, annotations, builtin=True)
    clock = SystemClock()
    policy = PolicyFile(write_policy(directory), {"test.it"}, clock)
    gate = Gate(Registry([capability]), {"test.it": handler}, policy, clock, Limits(step_seconds=seconds))
    admission = gate.admit(SUBJECT, Propose(Step("s1", "test.it", {}), None, {}, 1), ())
    return gate.perform(SUBJECT, admission, checks, None if told is None else lambda: told.append("now"))


def test_an_effect_tells_its_end_once_and_the_size_of_what_it_gave(tmp_path: Path) -> None:
    async def give(arguments: JsonObject, context: HandlerContext) -> Json:
        return {"text": "grüß"}

    async def work() -> None:
        told: list[str] = []
        outcome = await begun(tmp_path, give, ACT, told=told)
        assert (outcome.event, outcome.output, outcome.size) == ("succeed", {"text": "grüß"}, len(b'{"text":""}') + 6)
        assert told == ["now"]

    run(work())


def test_a_read_that_does_not_end_when_it_is_cancelled_is_given_up(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def stubborn(arguments: JsonObject, context: HandlerContext) -> Json:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async def work() -> None:
        told: list[str] = []
        outcome = await begun(tmp_path, stubborn, READ, seconds=0.01, told=told)
        assert (outcome.event, outcome.error and outcome.error.code) == ("fail", "TIMED_OUT")
        go_on.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)
        assert told == ["now"]

    run(work())


def test_a_read_that_ends_when_it_is_cancelled_has_timed_out(tmp_path: Path) -> None:
    async def wait(arguments: JsonObject, context: HandlerContext) -> Json:
        return await asyncio.Event().wait()

    async def work() -> None:
        outcome = await begun(tmp_path, wait, READ, seconds=0.01)
        assert (outcome.event, outcome.error and outcome.error.code) == ("fail", "TIMED_OUT")
        assert len(asyncio.all_tasks()) == 1

    run(work())


@pytest.mark.parametrize(("annotations", "event"), [(READ, "fail"), (ACT, "lose")])
def test_a_handler_that_is_cancelled_from_outside_leaves_an_outcome(
    tmp_path: Path, annotations: Annotations, event: str
) -> None:
    async def wait(arguments: JsonObject, context: HandlerContext) -> Json:
        return await asyncio.Event().wait()

    async def work() -> None:
        effect = begun(tmp_path, wait, annotations)
        for task in asyncio.all_tasks() - {cast("asyncio.Task[None]", asyncio.current_task())}:
            task.cancel()  # before it has run at all
        outcome = await effect
        assert (outcome.event, outcome.error and outcome.error.code) == (event, "CANCELLED")

    run(work())


def test_a_handler_that_gives_nothing_to_wait_for_has_failed_and_says_so(tmp_path: Path) -> None:
    def wrong(arguments: JsonObject, context: HandlerContext) -> Awaitable[Json]:
        return cast("Awaitable[Json]", "done")

    async def work() -> None:
        outcome = await begun(tmp_path, wrong, ACT)
        assert (outcome.event, outcome.error and outcome.error.code) == ("lose", "CAPABILITY_FAILED")

    run(work())


def test_an_error_in_judging_a_result_is_raised_where_the_outcome_is_awaited(tmp_path: Path) -> None:
    async def give(arguments: JsonObject, context: HandlerContext) -> Json:
        return {}

    def broken(output: Json) -> ActionError | None:
        raise ZeroDivisionError

    async def work() -> None:
        told: list[str] = []
        with pytest.raises(ZeroDivisionError):
            await begun(tmp_path, give, ACT, checks=broken, told=told)
        assert told == ["now"]

    run(work())


def test_a_run_whose_time_is_up_says_so_once_and_starts_nothing_more(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, limits=Limits(run_seconds=0.02)) as b:
            plan = await b.plan(
                step("s1", "test.hold", {"text": "a"}), step("s2", "test.append", {"text": "b"}, after=["s1"])
            )
            answer = await b.execute(plan, wait_seconds=0.2)
            assert answer["status"] == "RUNNING"
            assert json.dumps(answer).count("paused after 0.02 s") == 1
            b.world.holds["a"].set()
            await until(lambda: b.world.effects() == ["begin a", "end a"])

    run(work())
