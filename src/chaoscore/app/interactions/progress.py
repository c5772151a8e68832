"""Going on and coming to an end: consume, resume, complete, cancel, and the capsule a caller writes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chaoscore.app.envelope import Envelope
from chaoscore.app.interaction_ports import InteractionUnit
from chaoscore.app.interactions.deciding import refuse_kernel, required_decision, required_session
from chaoscore.app.interactions.heal import follow_capsule, release_locks
from chaoscore.app.interactions.results import success
from chaoscore.domain.interaction.capsule import CapsuleOverrides, built
from chaoscore.domain.interaction.errors import ChangeLocked, MalformedState, SessionNotResumable
from chaoscore.domain.interaction.event import Event
from chaoscore.domain.interaction.marks import marked
from chaoscore.domain.interaction.names import capsule_path
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json, JsonObject


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Why a run ends; kept in the session and in the audit."""

    command_run_id: str
    reason: str | None = None
    completion_mode: str | None = None
    metadata: JsonObject | None = None


def mark_consumed(unit: InteractionUnit, name: str, run: str | None, metadata: JsonObject | None) -> Envelope:
    decision = required_decision(unit, name)
    refuse_kernel(decision.command_run_id)
    before = decision.state
    consumed = decision.becoming("consumed")
    warnings = []
    if run is not None and run != decision.command_run_id:
        warnings.append(f"commandRunId {run[:80]!r} does not own the decision; {decision.command_run_id!r} does")
    data: dict[str, Json] = {"metadata": metadata} if metadata else {}
    noted = marked(consumed.metadata, consumed={"at": unit.now, **data})
    unit.put_decision(replace(consumed, metadata=noted) if metadata else consumed)
    session = unit.session(decision.command_run_id)
    if session is not None:
        session = session.consumed(name, unit.now)
        unit.put_session(session)
        follow_capsule(unit, session)
    unit.record(
        Event(
            "decision-consumed",
            f"Decision {name} consumed.",
            run=decision.command_run_id,
            decision=name,
            change=decision.change_id,
            data=data,
        )
    )
    return success(
        "CONSUMED",
        f"decision {name} is consumed",
        {
            "decisionId": name,
            "commandRunId": decision.command_run_id,
            "previousState": before,
            "nextState": "consumed",
        },
        next_action="Go on with the command; complete it with chaos_complete_command when it is done.",
        warnings=warnings,
    )


def resume(unit: InteractionUnit, run: str) -> Envelope:
    session = required_session(unit, run)
    warnings: list[str] = []
    if session.state == "running":
        warnings.append(
            "the run was already running: another agent may have resumed it; make sure that it is yours before going on"
        )
    elif session.state == "resumed":
        unit.put_session(session.becoming("running", unit.now))
    elif session.state == "ready-to-resume":
        _require_change_free(unit, session)
        warnings += _disclosures(unit, session)
        running = session.resumed(unit.now)
        unit.put_session(running)
        follow_capsule(unit, running)
        unit.record(Event("auto-resume-started", f"{run} resumed.", run=run, change=session.change_id))
    else:
        raise SessionNotResumable(f"command run {run!r} is {session.state}; only one that is ready-to-resume resumes")
    return success(
        "RESUMED",
        f"command run {run} is running",
        {"commandRunId": run, "sessionState": "running"},
        warnings=warnings,
    )


def _require_change_free(unit: InteractionUnit, session: Session) -> None:
    """The lock's owner must be this run. An unreadable lock table raises ``MalformedState``: block and ask."""
    held = unit.locks().on_change(session.change_id) if session.change_id else ()
    mine = any(lock.run == session.command_run_id for lock in held)
    other = next((lock for lock in held if lock.run != session.command_run_id), None)
    if other is not None and not mine:
        raise ChangeLocked(
            f"the change {session.change_id!r} is held by {other.command!r} (command run {other.run!r}); "
            f"{session.command_run_id!r} cannot resume until the human has cancelled or completed it"
        )
    if other is not None:
        unit.warnings.append(f"command run {other.run!r} holds a second lock on {session.change_id!r}; ask the human")


def _disclosures(unit: InteractionUnit, session: Session) -> list[str]:
    """What the resuming agent must know: missing artifacts, answers that do not belong."""
    out = []
    try:
        capsule = unit.capsule(session.command_run_id)
    except MalformedState as error:
        return [error.message]
    if capsule is not None:
        missing = [path for path in capsule.required_artifacts if not unit.artifact_exists(path)]
        if missing:
            out.append(f"required artifacts are missing: {', '.join(missing[:20])}")
    for name in session.answered_decision_ids:
        try:
            response = unit.response(name)
        except MalformedState as error:
            out.append(error.message)
            continue
        if response is None:
            out.append(f"the answer to {name} is missing; ask the human again")
        elif response.decision_id != name or response.command_run_id != session.command_run_id:
            out.append(f"the answer to {name} names another decision or run; do not use it")
    return out


def complete(unit: InteractionUnit, request: EndRequest) -> Envelope:
    session = required_session(unit, request.command_run_id)
    run = session.command_run_id
    warnings: list[str] = []
    mode = request.completion_mode or "normal-resumed-execution"
    if session.state == "ready-to-resume" and mode != "manual":
        mode = "administrative-terminalization"
        warnings.append("the run was never resumed after its answer: it was ended administratively")
    ended = session.becoming("completed", unit.now)
    released = _end(unit, session, ended, request, mode)
    unit.record(
        Event(
            "command-completed",
            f"{run} completed.",
            run=run,
            change=session.change_id,
            data={"releasedLockIds": list(released), **_why(request)},
        )
    )
    return success(
        "COMPLETED",
        f"command run {run} is completed",
        {"commandRunId": run, "completionMode": mode, "reason": request.reason, "releasedLocks": list(released)},
        next_action="Nothing remains to be done for this run.",
        warnings=warnings,
    )


def cancel(unit: InteractionUnit, request: EndRequest) -> Envelope:
    session = required_session(unit, request.command_run_id)
    run = session.command_run_id
    ended = session.becoming("cancelled", unit.now)
    waiting = [decision for decision in unit.decisions_of(run) if decision.state == "waiting"]
    released = _end(unit, session, ended, request, None)
    for decision in waiting:
        unit.put_decision(decision.becoming("cancelled"))
        unit.record(
            Event(
                "decision-cancelled",
                f"Decision {decision.decision_id} cancelled.",
                run=run,
                decision=decision.decision_id,
                change=decision.change_id,
            )
        )
    names: list[Json] = [decision.decision_id for decision in waiting]
    unit.record(
        Event(
            "command-cancelled",
            f"{run} cancelled.",
            run=run,
            change=session.change_id,
            data={"releasedLockIds": list(released), "cancelledDecisionIds": names, **_why(request)},
        )
    )
    return success(
        "CANCELLED",
        f"command run {run} is cancelled",
        {
            "commandRunId": run,
            "reason": request.reason,
            "releasedLocks": list(released),
            "cancelledDecisionIds": names,
        },
        next_action="Stop working on this run; begin a new command if the human asks for it.",
    )


def _end(
    unit: InteractionUnit, before: Session, ended: Session, request: EndRequest, mode: str | None
) -> tuple[str, ...]:
    """The session first: it decides. The locks last: one that is left of a run that is over tells others to heal."""
    why = _why(request)
    if why and not before.is_terminal:
        facts: dict[str, Json] = {**why, "at": unit.now, **({"completionMode": mode} if mode is not None else {})}
        ended = replace(ended, metadata=marked(ended.metadata, ended=facts))
    unit.put_session(ended)
    follow_capsule(unit, ended)
    released = release_locks(unit, ended.command_run_id)
    return tuple(lock.lock_id for lock in released)


def _why(request: EndRequest) -> dict[str, Json]:
    out: dict[str, Json] = {}
    if request.reason is not None:
        out["reason"] = request.reason
    if request.metadata:
        out["metadata"] = request.metadata
    return out


def write_capsule(unit: InteractionUnit, run: str, overrides: CapsuleOverrides) -> Envelope:
    session = required_session(unit, run)
    path = capsule_path(run)
    capsule = built(session, unit.now, overrides, unit.capsule(run))
    unit.put_capsule(capsule)
    unit.put_session(replace(session, resume_capsule_path=path, last_seen_at=unit.now))
    unit.record(
        Event("capsule-created", f"Capsule of {run} written.", run=run, change=session.change_id, data={"path": path})
    )
    shown = capsule.pick(
        "commandRunId", "sourceCommand", "changeId", "state", "lastCompletedStep", "nextStep", "answeredDecisionIds",
        "consumedDecisionIds", "requiredArtifacts", "confidence", "knowledgeType", "updatedAt",
    )  # fmt: skip
    return success(
        "CAPSULE_CREATED",
        f"capsule of {run} is written",
        {"commandRunId": run, "capsulePath": path, "capsule": shown},
        next_action="Whoever resumes this run reads the capsule first.",
    )
