"""Runs as tools and the terminal show them, and what a caller should do next in each case."""

from __future__ import annotations

from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.app.envelope import Envelope
from chaoscore.app.runs.book import RunReport
from chaoscore.domain.action import Action
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.json import Json, canonical_text
from chaoscore.domain.run import StepView

OUTPUT_BYTES_INLINE_MAX = 65_536
ARGUMENT_BYTES_SHOWN_MAX = 16_384
ITEMS_SHOWN_MAX = 50


def how_to_answer(copyable: Copyable = PLAIN) -> str:
    return (
        f"a person answers with '{copyable('decide', 'DECISION')}' at a terminal or in the Decision Center of "
        "'chaoscore serve'; then chaoscore_execute goes on. Never answer for them"
    )


def run_json(
    report: RunReport, output_bytes_max: int = OUTPUT_BYTES_INLINE_MAX, copyable: Copyable = PLAIN
) -> dict[str, Json]:
    """``steps`` in plan order, ``waiting`` and ``unknown`` the actions somebody must answer for."""
    run, state = report.run, report.state
    room = output_bytes_max
    steps: list[Json] = []
    for view in state.views():
        shown, used = _step_json(view, report, room)
        room -= used
        steps.append(shown)
    actions = list(state.actions())
    return {
        "run_id": report.credential or run.handle,
        "label": run.label,
        "plan": run.plan,
        "objective": report.plan.plan.objective,
        "status": "running" if report.in_motion else run.status,
        "in_motion": report.in_motion,
        "steps": steps,
        "waiting": [_action_json(a) for a in actions if a.state == "waiting-for-decision"],
        "unknown": [_action_json(a) for a in actions if a.state == "outcome-unknown"],
        "decisions": [decision_brief(d, copyable) for d in run.decisions if d.state == "waiting"],
        "evaluation": state.evaluate().to_json(),
        "created_at": run.created_at,
        "updated_at": run.updated_at,
    }


def decision_json(decision: RunDecision) -> dict[str, Json]:
    """A question of a run as every door shows it: in words, and exactly what each option approves."""
    question = decision.question
    return {
        "decision": decision.id,
        "run": decision.run,
        "kind": decision.kind,
        "state": decision.state,
        "title": question.title,
        "type": question.interaction_type,
        "options": [option.to_json() for option in question.options],
        "actions": [action.to_json() for action in decision.actions],
        "digest": decision.question_digest,
        "mode": decision.mode,
        "doors": list(decision.doors),
        "root": decision.root,
        "created_at": decision.created_at,
        "expires_at": decision.expires_at,
        "response": decision.response.to_json() if decision.response is not None else None,
    }


def decision_brief(decision: RunDecision, copyable: Copyable = PLAIN) -> dict[str, Json]:
    """What a calling agent is told of a question: enough to point a person at it."""
    return {
        "decision": decision.id,
        "kind": decision.kind,
        "title": decision.question.title,
        "options": [{"id": option.id, "label": option.label} for option in decision.question.options],
        "mode": decision.mode,
        "expires_at": decision.expires_at,
        "answer_with": copyable("decide", decision.id),
    }


def _step_json(view: StepView, report: RunReport, room: int) -> tuple[dict[str, Json], int]:
    shown: dict[str, Json] = {"id": view.step.id, "capability": view.step.capability, "state": view.state}
    used = 0
    if view.error is not None:
        shown["error"] = view.error.to_json()
    if view.checks:
        shown["checks"] = [{"passed": r.passed, "reason": r.reason} for r in view.checks]
    if view.items is not None:
        shown["items"] = view.items
        failed = [a for a in report.state.actions() if a.step == view.step.id and a.error is not None]
        if failed:
            errors: list[Json] = [{"item": a.item, **(a.error.to_json() if a.error else {})} for a in failed]
            shown["item_errors"] = errors[:ITEMS_SHOWN_MAX]
    else:
        action = report.state.action((view.step.id, None))
        if action is not None and action.verdict is not None:
            shown["verdict"] = action.verdict.to_json()
        if action is not None and action.started_at is not None and action.finished_at is not None:
            shown["seconds"] = round(action.finished_at - action.started_at, 6)
    if view.usable:
        size = len(canonical_text(view.output))
        if size <= room:
            shown["output"] = view.output
            used = size
        else:
            shown["output_omitted_bytes"] = size
            shown["how"] = "chaoscore_inspect with what=run, this run_id and step shows it"
    return shown, used


def _action_json(action: Action) -> dict[str, Json]:
    shown: dict[str, Json] = {
        "step": action.step,
        "item": action.item,
        "capability": action.capability,
        "attempt": action.attempt,
        "digest": action.digest,
    }
    if action.arguments is not None:
        size = len(canonical_text(action.arguments))
        if size <= ARGUMENT_BYTES_SHOWN_MAX:
            shown["arguments"] = action.arguments
        else:
            shown["arguments_preview"] = canonical_text(action.arguments)[:ARGUMENT_BYTES_SHOWN_MAX]
            shown["arguments_bytes"] = size
    if action.verdict is not None:
        shown["verdict"] = action.verdict.to_json()
    if action.error is not None:
        shown["error"] = action.error.to_json()
    if action.state == "outcome-unknown":
        shown["started_at"] = action.started_at
        shown["evidence"] = action.evidence
    return shown


def run_envelope(report: RunReport, extra: dict[str, Json] | None = None, copyable: Copyable = PLAIN) -> Envelope:
    """The answer of execute and achieve for a run as it stands. ``copyable`` makes the commands that it suggests."""
    data = {**run_json(report, copyable=copyable), **(extra or {})}
    warnings = report.notes
    status = report.run.status
    if report.in_motion:
        return Envelope(
            "RUNNING",
            "the run goes on; this call's time to wait is over",
            data,
            warnings=warnings,
            next_action=f"call chaoscore_execute with this {_id(report)} to wait for it, or with cancel: true to end",
        )
    match status:
        case "waiting-for-decision":
            return _waiting(report, data, copyable)
        case "needs-attention":
            return Envelope(
                "NEEDS_ATTENTION",
                "an action's outcome is unknown: it may or may not have happened",
                data,
                must_stop=True,
                warnings=warnings,
                next_action="stop; a person must find out what happened and say so: "
                f"`{copyable('decide')}` shows the question, `{copyable('resolve', report.run.label)}` takes retry, "
                "happened or give-up",
            )
        case "running":
            return Envelope(
                "PAUSED",
                "the run stands still with steps left",
                data,
                warnings=warnings,
                next_action=f"call chaoscore_execute with this {_id(report)} to go on",
            )
        case "cancelled":
            return Envelope("CANCELLED", "the run was cancelled", data, warnings=warnings)
        case _:
            pass
    outcome = report.state.evaluate().outcome
    words = {
        "achieved": "every step succeeded",
        "partial": "some steps succeeded, some did not; evaluation tells which and why",
        "failed": "the run failed; evaluation tells where and why",
        "blocked": "policy does not allow a step; evaluation names it and the rule",
    }
    following = {
        "failed": "read evaluation.reasons, then make a new plan with chaoscore_plan",
        "blocked": "do not retry: only the operator can change the policy",
    }
    return Envelope(outcome.upper(), words[outcome], data, warnings=warnings, next_action=following.get(outcome))


def _id(report: RunReport) -> str:
    """Which id the caller holds: an anonymous caller that joined by its plan is never told the run's."""
    return "run_id" if (report.credential or report.run.handle) else "plan_id"


def _answering(report: RunReport, copyable: Copyable) -> str:
    """The command that answers: names the question, where there is only one."""
    waiting = [decision.id for decision in report.run.decisions if decision.state == "waiting"]
    return copyable("decide", *(waiting if len(waiting) == 1 else ()))


def _waiting(report: RunReport, data: dict[str, Json], copyable: Copyable) -> Envelope:
    waiting = [a for a in report.state.actions() if a.state == "waiting-for-decision"]
    count = len(waiting)
    what = f"{count} action{'s wait' if count != 1 else ' waits'} for approval"
    modes = {a.verdict.mode for a in waiting if a.verdict is not None}
    if modes == {"human"}:
        return Envelope(
            "WAITING_FOR_APPROVAL",
            f"{what} by a person",
            data,
            must_stop=True,
            warnings=report.notes,
            next_action="stop; the policy's approvalMode is human: a person answers outside this conversation, with "
            f"`{_answering(report, copyable)}` or in the Decision Center. Then call chaoscore_execute with this "
            f"{_id(report)} again",
        )
    return Envelope(
        "WAITING_FOR_APPROVAL",
        what,
        data,
        must_stop=True,
        warnings=report.notes,
        next_action="stop and show your user data.waiting (capability and arguments). Only after they agree, call "
        f"chaoscore_execute with this {_id(report)} and confirmed: true; if not, with cancel: true. They can also "
        f"answer themselves: {_answering(report, copyable)}",
    )
