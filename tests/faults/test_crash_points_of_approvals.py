"""A crash before and after every write between a question and its effect (R1 over the joined system).

A person answers each question the same way whenever it is put. Whatever was cut, an answer that was acknowledged is
never asked for again, what was approved happens once, what was denied never happens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoscore.adapters.sqlite import Stores
from chaoscore.app.approvals import Answer
from chaoscore.app.ports import HandlerContext, Processes, Provided
from chaoscore.bootstrap import open_kernel
from chaoscore.domain.approval import DENY, DENY_ALL
from chaoscore.domain.errors import Conflict
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json, JsonObject
from chaoscore.testing.fakes import FakeProcesses
from chaoscore.testing.faults import Crash
from tests.app.harness import Bench, World, run, settings_for, step, write_policy

STEPS = (
    step("s1", "test.append", {"text": "a"}),
    step("s2", "test.append", {"text": "never"}),
    step("s3", "test.note", {"text": {"$from": "s1", "path": "/text"}}),
    step("s4", "test.give", {"value": 1}, after=["s2"]),
    step("s5", "test.explode"),
)
WRITES = frozenset({"open_run", "claim", "renew", "commit", "release", "answer"})


class Mortal:
    """The process dies at its Nth write to the runs or their decisions, before or after it took effect."""

    def __init__(self, fail_at: int, after: bool) -> None:
        self.fail_at, self.after, self.count, self.dead = fail_at, after, 0, False

    def around(self, stores: Stores) -> Stores:
        return replace(stores, runs=_Stand(stores.runs, self), decisions=_Stand(stores.decisions, self))  # type: ignore[arg-type]


class _Stand:
    def __init__(self, target: object, mortal: Mortal) -> None:
        self._target, self._mortal = target, mortal

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method, mortal = getattr(self._target, name), self._mortal

        async def call(*arguments: Any, **named: Any) -> Any:
            if mortal.dead:
                raise Crash
            if name in WRITES:
                mortal.count += 1
                if mortal.count == mortal.fail_at:
                    mortal.dead = True
                    if mortal.after:
                        await method(*arguments, **named)
                    raise Crash
            return await method(*arguments, **named)

        return call


class MortalWorld(World):
    mortal: Mortal | None = None

    def provided(self) -> tuple[Provided, ...]:
        async def note(arguments: JsonObject, context: HandlerContext) -> Json:
            self.append(f"note {arguments['text']}")
            return {"text": arguments["text"]}

        asks = super().provided()
        append = next(item.capability for item in asks if item.capability.name == "test.append")
        return (*asks, Provided(replace(append, name="test.note"), note))

    def append(self, line: str) -> None:
        if self.mortal is not None and self.mortal.dead:
            raise Crash
        super().append(line)


@asynccontextmanager
async def process(directory: Path, processes: Processes, mortal: Mortal | None = None) -> AsyncIterator[Bench]:
    world = MortalWorld(directory)
    world.mortal = mortal
    around = mortal.around if mortal is not None else lambda stores: stores
    settings = settings_for(directory, root=directory / "interactions")
    async with open_kernel(settings, extra=world.provided(), processes=processes, around_stores=around) as kernel:
        yield Bench(kernel, world)


async def person(b: Bench, acknowledged: set[str]) -> None:
    """Approves all but what must never happen, and looks before saying what became of something."""
    found, _ = await b.kernel.services.approvals.waiting(None)
    for decision in found:
        digests = {action.digest for action in decision.actions}
        assert not digests & acknowledged, "asked again about what was answered"
        if decision.kind == "outcome":
            (asked,) = decision.actions
            line = {"s1": "a", "s3": "note a", "s5": "exploding"}[asked.step]
            options = ["happened" if line in b.world.effects() else "retry"]
        else:
            approved = [a.option for a in decision.actions if a.shown["arguments"] != {"text": "never"}]
            options = approved or [DENY if len(decision.actions) == 1 else DENY_ALL]
        choice = Choice(options[0] if len(options) == 1 else None, tuple(options) if len(options) > 1 else ())
        try:
            await b.kernel.services.approvals.answer(
                Answer(decision.id, choice, decision.question_digest, "terminal", "ada")
            )
        except Conflict:
            continue
        acknowledged |= digests


async def to_the_end(b: Bench, plan: str, acknowledged: set[str]) -> dict[str, Any]:
    for _ in range(12):
        answer = await b.execute(plan)
        assert answer["ok"], answer
        if answer["status"] not in ("NEEDS_ATTENTION", "WAITING_FOR_APPROVAL", "PAUSED"):
            return answer
        await person(b, acknowledged)
    raise AssertionError(f"the run never ended: {answer}")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_between_question_and_effect_loses_no_answer_and_repeats_no_effect(tmp_path: Path, after: bool) -> None:
    async def survive(point: int) -> bool:
        directory = tmp_path / str(point)
        directory.mkdir()
        write_policy(directory, requireConfirmationFor=["test.append", "test.note"])
        machine, mortal = FakeProcesses(), Mortal(point, after)
        acknowledged: set[str] = set()
        plan = ""
        try:
            async with process(directory, machine, mortal) as b:
                plan = await b.plan(*STEPS)
                await to_the_end(b, plan, acknowledged)
        except Crash:
            pass
        machine.bury(machine.current())
        async with process(directory, machine.another(200)) as b:
            answer = await to_the_end(b, plan, acknowledged)
            states = [s["state"] for s in answer["data"]["steps"]]
            # an effect that a person vouched for has no output, and so nothing for the next step to take
            lost = states[2] == "failed"
            assert states == ["succeeded", "denied", "failed" if lost else "succeeded", "skipped", "succeeded"], point
            assert sorted(b.world.effects()) == ["a", "exploding", *([] if lost else ["note a"])], point
            if lost:
                assert answer["data"]["steps"][2]["error"]["code"] == "REFERENCE_MISSING", point
            report = await b.kernel.stores.audit.verify()
            assert report.problem is None, (point, report)
        return mortal.dead

    async def campaign() -> None:
        point = 1
        while await survive(point):
            point += 1
        assert point > 10

    run(campaign())
