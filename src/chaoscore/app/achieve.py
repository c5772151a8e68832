"""The whole loop from goal to result: interprets the effects of ``domain.loop`` through the services (spec §1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoscore.app.capabilities import Registry
from chaoscore.app.memories import MemoryService, Recalled
from chaoscore.app.planning import Budget, NeedsPlan
from chaoscore.app.plans import NewPlan, PlanReport, PlanService
from chaoscore.app.runs.book import ExecuteRequest, RunReport
from chaoscore.app.runs.driver import Listener
from chaoscore.app.runs.service import RunService
from chaoscore.app.tools import CallContext
from chaoscore.domain import loop
from chaoscore.domain.capability import Capability
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits


@dataclass(frozen=True, slots=True)
class Goal:
    """What ``chaoscore_achieve`` is asked: a goal in words, or steps the caller wrote, or both."""

    new_plan: NewPlan
    confirmed: bool = False
    wait_seconds: float | None = None
    stop_at_approval: bool = True


@dataclass(slots=True)
class Achievement:
    """How far it came. ``failure`` is the typed error that ended it, where one did."""

    ending: loop.Ending
    plan: PlanReport | None = None
    run: RunReport | None = None
    needs_plan: NeedsPlan | None = None
    failure: ChaosError | None = None
    replanned: int = 0


@dataclass(slots=True)
class _Progress:
    recalled: Recalled | None = None
    plan: PlanReport | None = None
    run: RunReport | None = None
    needs_plan: NeedsPlan | None = None
    failure: ChaosError | None = None
    plans: int = 0
    labels: dict[str, PlanReport] = field(default_factory=dict)


class Achiever:
    def __init__(
        self, plans: PlanService, runs: RunService, memories: MemoryService, registry: Registry, limits: Limits
    ) -> None:
        self._plans = plans
        self._runs = runs
        self._memories = memories
        self._registry = registry
        self._limits = limits

    async def achieve(self, goal: Goal, context: CallContext, listener: Listener | None = None) -> Achievement:
        """Never raises for a plan that cannot be made or a run that fails; storage and lease errors pass through."""
        budget = Budget(self._limits)
        made = _Progress()
        state = loop.LoopState()
        state, effects = loop.step(state, loop.Begun(self._limits.replans_max))
        while True:
            effect = effects[0]
            match effect:
                case loop.GatherContext():
                    if goal.new_plan.steps is None and goal.new_plan.objective:
                        made.recalled = await self._memories.context_for(goal.new_plan.objective, context)
                    event: loop.LoopEvent = loop.ContextGathered()
                case loop.MakePlan():
                    event = await self._plan(goal, effect, context, budget, made)
                    if listener is not None and made.plan is not None:
                        listener({"kind": "plan", "plan": made.plan.plan.plan.label, "message": "plan ready"})
                case loop.Execute():
                    event = await self._execute(goal, context, listener, made)
                case loop.RememberOutcome():
                    self._remember(goal, effect.ending, context, made)
                    event = loop.Remembered()
                case loop.Finish():
                    return Achievement(
                        effect.ending, made.plan, made.run, made.needs_plan, made.failure, max(0, made.plans - 1)
                    )
            state, effects = loop.step(state, event)

    async def _plan(
        self, goal: Goal, effect: loop.MakePlan, context: CallContext, budget: Budget, made: _Progress
    ) -> loop.LoopEvent:
        again = effect.predecessor is not None
        new = goal.new_plan
        request = NewPlan(
            objective=new.objective or (made.plan.plan.plan.objective if made.plan else None),
            intent=new.intent,
            steps=None if again else new.steps,
            constraints=new.constraints,
            change_id=new.change_id,
            predecessor=effect.predecessor or new.predecessor,
            feedback=effect.feedback,
        )
        try:
            report = await self._plans.make(request, context, budget, made.recalled)
        except ChaosError as error:
            made.failure = error
            return loop.PlanMissing("refused")
        if isinstance(report, NeedsPlan):
            made.needs_plan = report
            return loop.PlanMissing("needs-plan")
        made.plan = report
        made.plans += 1
        return loop.Planned(report.plan.plan.label)

    async def _execute(
        self, goal: Goal, context: CallContext, listener: Listener | None, made: _Progress
    ) -> loop.LoopEvent:
        assert made.plan is not None
        request = ExecuteRequest(
            plan=made.plan.credential,
            confirmed=goal.confirmed,
            wait_seconds=goal.wait_seconds,
            stop_at_approval=goal.stop_at_approval,
        )
        made.run = await self._runs.execute(request, context, listener)
        status = "running" if made.run.in_motion else made.run.run.status
        outcome = made.run.state.evaluate().outcome
        replannable = self._plans.can_replan and made.plan.plan.plan.author.source == "provider"
        return loop.RunRested(status, outcome, replannable, feedback(made.run, self._registry))

    def _remember(self, goal: Goal, ending: loop.Ending, context: CallContext, made: _Progress) -> None:
        entry: dict[str, Json] = {
            "objective": made.plan.plan.plan.objective if made.plan else goal.new_plan.objective,
            "verdict": ending,
            "plan_id": made.plan.credential if made.plan else None,
            "plan_provider": _plan_provider(made.plan),
            "run_id": made.run.credential if made.run else None,
        }
        self._memories.note(context.connection, entry)


def _plan_provider(plan: PlanReport | None) -> str | None:
    """Who wrote it: the provider's id where a configured model did, else the kind of author."""
    if plan is None:
        return None
    author = plan.plan.plan.author
    return author.provider if author.source == "provider" and author.provider else author.source


def feedback(report: RunReport, registry: Registry) -> JsonObject:
    """What a planner may know of a failed run: statuses, error codes and schemas, never a value (law 8)."""
    steps: list[Json] = []
    for view in report.state.views():
        capability: Capability | None = registry.get(view.step.capability)
        steps.append(
            {
                "id": view.step.id,
                "capability": view.step.capability,
                "state": view.state,
                "error": view.error.code if view.error else None,
                "output_schema": capability.output_schema if capability else None,
            }
        )
    return {"steps": steps}
