"""The cognitive loop as a table: what follows what, and that nothing else does."""

from __future__ import annotations

import itertools

import pytest

from chaoscore.domain import loop
from chaoscore.domain.errors import IllegalTransition
from chaoscore.domain.evaluation import Outcome
from chaoscore.domain.records import RunStatus


def rested(status: RunStatus, outcome: Outcome, replannable: bool = True) -> loop.RunRested:
    return loop.RunRested(status, outcome, replannable, {"steps": []})


def play(*events: loop.LoopEvent) -> tuple[loop.LoopState, tuple[loop.LoopEffect, ...]]:
    state = loop.LoopState()
    effects: tuple[loop.LoopEffect, ...] = ()
    for event in events:
        state, effects = loop.step(state, event)
    return state, effects


PLANNED = (loop.Begun(1), loop.ContextGathered(), loop.Planned("p-1"))


def test_a_goal_goes_from_context_to_plan_to_run_to_memory_to_result() -> None:
    state, effects = play(*PLANNED)
    assert effects == (loop.Execute("p-1"),)
    state, effects = loop.step(state, rested("completed", "achieved"))
    assert effects == (loop.RememberOutcome("achieved"),)
    state, effects = loop.step(state, loop.Remembered())
    assert effects == (loop.Finish("achieved"),)


def test_a_failed_run_is_planned_again_a_bounded_number_of_times() -> None:
    state, effects = play(*PLANNED, rested("failed", "failed"))
    assert effects == (loop.MakePlan("p-1", {"steps": []}),)
    state, _ = loop.step(state, loop.Planned("p-2"))
    state, effects = loop.step(state, rested("failed", "failed"))
    assert effects == (loop.RememberOutcome("failed"),)


@pytest.mark.parametrize(
    ("status", "outcome", "ending"),
    [
        ("waiting-for-decision", "blocked", "waiting"),
        ("needs-attention", "blocked", "attention"),
        ("running", "blocked", "running"),
        ("cancelled", "failed", "failed"),
        ("completed", "partial", "partial"),
        ("failed", "blocked", "blocked"),
    ],
)
def test_only_a_failed_run_is_planned_again(status: RunStatus, outcome: Outcome, ending: loop.Ending) -> None:
    assert play(*PLANNED, rested(status, outcome))[1] == (loop.RememberOutcome(ending),)


def test_a_run_that_nobody_can_replan_is_the_result() -> None:
    assert play(*PLANNED, rested("failed", "failed", replannable=False))[1] == (loop.RememberOutcome("failed"),)


def test_without_a_plan_nothing_runs() -> None:
    for ending in ("needs-plan", "refused"):
        _state, effects = play(loop.Begun(1), loop.ContextGathered(), loop.PlanMissing(ending))
        assert effects == (loop.RememberOutcome(ending),)


def test_an_event_that_the_phase_does_not_expect_is_refused() -> None:
    events: list[loop.LoopEvent] = [
        loop.Begun(1),
        loop.ContextGathered(),
        loop.Planned("p"),
        loop.PlanMissing("refused"),
        rested("completed", "achieved"),
        loop.Remembered(),
    ]
    expected: dict[str, set[type]] = {
        "ready": {loop.Begun},
        "context": {loop.ContextGathered},
        "planning": {loop.Planned, loop.PlanMissing},
        "executing": {loop.RunRested},
        "remembering": {loop.Remembered},
        "finished": set(),
    }
    for (phase, allowed), event in itertools.product(expected.items(), events):
        state = loop.LoopState(phase=phase, plan="p", ending="achieved")  # type: ignore[arg-type]
        if type(event) in allowed:
            loop.step(state, event)
        else:
            with pytest.raises(IllegalTransition):
                loop.step(state, event)
