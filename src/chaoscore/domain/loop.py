"""The cognitive loop as ``step(state, event) -> (state, effects)``: objective → context → planning → policy and
execution → evaluation → memory → result, re-planning a bounded number of times (spec §1, §2).

Pure: the application interprets the effects and feeds back what happened. Nothing here knows a model, a store or a
clock, and nothing a model says decides how the loop goes on: only recorded run statuses and outcomes do (law 6).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from chaoscore.domain.errors import IllegalTransition
from chaoscore.domain.evaluation import Outcome
from chaoscore.domain.json import JsonObject
from chaoscore.domain.records import RunStatus

Phase = Literal["ready", "context", "planning", "executing", "remembering", "finished"]
Ending = Literal["achieved", "partial", "failed", "blocked", "waiting", "attention", "running", "needs-plan", "refused"]


@dataclass(frozen=True, slots=True)
class LoopState:
    """``plan`` is the label of the newest plan, ``feedback`` what the planner is told about it: never values."""

    phase: Phase = "ready"
    replans_left: int = 0
    plan: str | None = None
    feedback: JsonObject | None = None
    ending: Ending | None = None


# -- events: what happened ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """The caller's goal is accepted; at most ``replans`` plans may follow the first."""

    replans: int


@dataclass(frozen=True, slots=True)
class ContextGathered:
    pass


@dataclass(frozen=True, slots=True)
class Planned:
    plan: str


@dataclass(frozen=True, slots=True)
class PlanMissing:
    """No plan could be made: ``needs-plan`` (the caller may write it) or ``refused`` (a typed failure)."""

    ending: Literal["needs-plan", "refused"]


@dataclass(frozen=True, slots=True)
class RunRested:
    """The run stands still, or the time to wait is over (``status`` running)."""

    status: RunStatus
    outcome: Outcome
    replannable: bool
    feedback: JsonObject


@dataclass(frozen=True, slots=True)
class Remembered:
    pass


LoopEvent: TypeAlias = Begun | ContextGathered | Planned | PlanMissing | RunRested | Remembered

# -- effects: what to do next ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GatherContext:
    pass


@dataclass(frozen=True, slots=True)
class MakePlan:
    predecessor: str | None
    feedback: JsonObject | None


@dataclass(frozen=True, slots=True)
class Execute:
    plan: str


@dataclass(frozen=True, slots=True)
class RememberOutcome:
    ending: Ending


@dataclass(frozen=True, slots=True)
class Finish:
    ending: Ending


LoopEffect: TypeAlias = GatherContext | MakePlan | Execute | RememberOutcome | Finish

_ENDINGS: dict[RunStatus, Ending] = {
    "waiting-for-decision": "waiting",
    "needs-attention": "attention",
    "running": "running",
    "cancelled": "failed",
}


def step(state: LoopState, event: LoopEvent) -> tuple[LoopState, tuple[LoopEffect, ...]]:
    """The next state and what to do. Raises ``IllegalTransition`` for an event the phase does not expect."""
    match state.phase, event:
        case "ready", Begun(replans=replans):
            return replace(state, phase="context", replans_left=replans), (GatherContext(),)
        case "context", ContextGathered():
            return replace(state, phase="planning"), (MakePlan(None, None),)
        case "planning", Planned(plan=plan):
            return replace(state, phase="executing", plan=plan), (Execute(plan),)
        case "planning", PlanMissing(ending=ending):
            # A failed re-plan leaves the last run's outcome as the result.
            return _remember(state, "failed" if state.plan is not None else ending)
        case "executing", RunRested() as rested:
            return _rested(state, rested)
        case "remembering", Remembered():
            assert state.ending is not None
            return replace(state, phase="finished"), (Finish(state.ending),)
    raise IllegalTransition(
        f"the loop in phase {state.phase!r} does not expect {type(event).__name__}", state=state.phase
    )


def _rested(state: LoopState, rested: RunRested) -> tuple[LoopState, tuple[LoopEffect, ...]]:
    ending = _ENDINGS.get(rested.status)
    if ending is None:
        ending = rested.outcome
        if ending == "failed" and rested.replannable and state.replans_left > 0:
            again = replace(state, phase="planning", replans_left=state.replans_left - 1, feedback=rested.feedback)
            return again, (MakePlan(state.plan, rested.feedback),)
    return _remember(state, ending)


def _remember(state: LoopState, ending: Ending) -> tuple[LoopState, tuple[LoopEffect, ...]]:
    return replace(state, phase="remembering", ending=ending), (RememberOutcome(ending),)
