"""A run as a timeline: its steps in plan order with what became of each, from recorded facts."""

from __future__ import annotations

from dataclasses import dataclass

from chaoscore.app.runs.book import RunReport
from chaoscore.domain.action import Action
from chaoscore.domain.evaluation import Evaluation
from chaoscore.domain.json import Json, canonical_text
from chaoscore.domain.records import RUN_FINISHED

ITEMS_SHOWN_MAX = 50
VALUE_CHARS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class ActionLine:
    """One recorded action. ``arguments`` and ``output`` are ``None`` where there are none or they are too long to show;
    then ``omitted`` says so."""

    item: int | None
    state: str
    attempt: int
    effect: str
    rule: str
    reasons: tuple[str, ...]
    error: str
    arguments: Json
    started_at: float | None
    finished_at: float | None
    evidence: Json

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class StepLine:
    """``begin`` and ``length`` place it on the run's time, in thousandths. Times are seconds since the epoch."""

    id: str
    capability: str
    why: str
    state: str
    error: str
    checks: tuple[tuple[bool, str], ...]
    has_output: bool
    output: Json
    output_chars: int
    items: int | None
    actions: tuple[ActionLine, ...]
    hidden_actions: int
    started_at: float | None
    finished_at: float | None
    begin: int | None
    length: int | None

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class RunView:
    label: str
    plan: str
    objective: str
    owner: str
    status: str
    in_motion: bool
    finished: bool
    created_at: float
    updated_at: float
    steps: tuple[StepLine, ...]
    evaluation: Evaluation
    decisions: tuple[tuple[str, str, str], ...]
    """Id, title and state of every question it asked."""
    notes: tuple[str, ...]


def run_view(report: RunReport, now: float) -> RunView:
    """``now`` is where actions that still run end on the picture."""
    run, state = report.run, report.state
    by_step: dict[str, list[Action]] = {}
    for action in state.actions():
        by_step.setdefault(action.step, []).append(action)
    starts = [a.started_at for a in state.actions() if a.started_at is not None]
    ends = [a.finished_at or now for a in state.actions() if a.started_at is not None]
    first, last = min(starts, default=0.0), max(ends, default=0.0)
    span = max(last - first, 1e-6)
    steps = []
    for view in state.views():
        actions = by_step.get(view.step.id, [])
        began = min((a.started_at for a in actions if a.started_at is not None), default=None)
        running = any(a.state == "running" for a in actions)
        ended = None if running else max((a.finished_at for a in actions if a.finished_at is not None), default=None)
        size = len(canonical_text(view.output)) if view.usable else 0
        until = ended if ended is not None else (now if running else began)
        steps.append(
            StepLine(
                id=view.step.id,
                capability=view.step.capability,
                why=view.step.why or "",
                state=view.state,
                error=f"{view.error.code}: {view.error.message}" if view.error is not None else "",
                checks=tuple((check.passed, check.reason) for check in view.checks),
                has_output=view.usable,
                output=view.output if view.usable and size <= VALUE_CHARS_MAX else None,
                output_chars=size,
                items=view.items,
                actions=tuple(_line(a) for a in actions[:ITEMS_SHOWN_MAX]),
                hidden_actions=max(0, len(actions) - ITEMS_SHOWN_MAX),
                started_at=began,
                finished_at=ended,
                begin=None if began is None else round((began - first) / span * 1000),
                length=None if began is None or until is None else max(6, round((until - began) / span * 1000)),
            )
        )
    return RunView(
        label=run.label,
        plan=run.plan,
        objective=report.plan.plan.objective,
        owner=run.owner,
        status="running" if report.in_motion else run.status,
        in_motion=report.in_motion,
        finished=run.status in RUN_FINISHED,
        created_at=run.created_at,
        updated_at=run.updated_at,
        steps=tuple(steps),
        evaluation=state.evaluate(),
        decisions=tuple((d.id, d.question.title, "expired" if d.has_expired(now) else d.state) for d in run.decisions),
        notes=report.notes,
    )


def _line(action: Action) -> ActionLine:
    verdict = action.verdict
    small = action.arguments is not None and len(canonical_text(action.arguments)) <= VALUE_CHARS_MAX
    return ActionLine(
        item=action.item,
        state=action.state,
        attempt=action.attempt,
        effect=verdict.effect if verdict is not None else "",
        rule=verdict.rule if verdict is not None else "",
        reasons=verdict.reasons if verdict is not None else (),
        error=f"{action.error.code}: {action.error.message}" if action.error is not None else "",
        arguments=action.arguments if small else None,
        started_at=action.started_at,
        finished_at=action.finished_at,
        evidence=action.evidence,
    )
