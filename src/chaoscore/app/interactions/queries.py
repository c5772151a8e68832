"""Reading: the tools that only look, and the bodies of the six resources. Nothing here is ever written."""

from __future__ import annotations

from collections.abc import Sequence

from chaoscore.app.envelope import Envelope
from chaoscore.app.interaction_ports import DocumentKind, InteractionUnit, SessionFilter, SessionPage
from chaoscore.app.interactions.deciding import required_decision
from chaoscore.app.interactions.heal import readable_session
from chaoscore.app.interactions.results import stop, success
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.interaction.capsule import Capsule, following
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.derived import NO_ACTIVE, active_pointer
from chaoscore.domain.interaction.digest import verify_content
from chaoscore.domain.interaction.errors import MalformedState
from chaoscore.domain.interaction.lock import Lock, stale_reason
from chaoscore.domain.interaction.names import capsule_path, command_token, is_id, response_path
from chaoscore.domain.interaction.response import Response
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json, JsonObject

_CAPSULE_KEYS = (
    "commandRunId", "sourceCommand", "changeId", "state", "lastCompletedStep", "nextStep", "answeredDecisionIds",
    "consumedDecisionIds", "requiredArtifacts", "confidence", "updatedAt",
)  # fmt: skip
_CAPSULES_SHOWN_MAX = 50


def active_decision(unit: InteractionUnit, change: str | None, run: str | None) -> Envelope:
    found = [
        decision
        for decision in unit.waiting_decisions()
        if (not run or decision.command_run_id == run) and (change is None or (decision.change_id or "") == change)
    ]
    if not found:
        return success(
            "NO_ACTIVE_DECISION", "no decision waits for a human", {}, next_action="Go on; nothing has to be answered."
        )
    if len(found) == 1:
        return stop(
            "ACTIVE_DECISION",
            f"decision {found[0].decision_id} waits for a human",
            {"decision": found[0].question()},
        )
    questions: list[Json] = [decision.question() for decision in found]
    return stop("MULTIPLE_ACTIVE_DECISIONS", f"{len(found)} decisions wait for a human", {"decisions": questions})


def decision_response(unit: InteractionUnit, name: str) -> Envelope:
    decision = required_decision(unit, name)
    data: dict[str, Json] = {"decisionId": name, "changeId": decision.change_id}
    if decision.state in ("created", "waiting"):
        return stop("NO_RESPONSE_YET", f"decision {name} waits for a human", data)
    if decision.state in ("answered", "consumed"):
        response = unit.response(name)
        session = readable_session(unit, decision.command_run_id)
        return success(
            decision.state.upper(),
            f"decision {name} is {decision.state}",
            _response_data(decision, response, session),
            next_action=(
                "Follow the answer, then call chaos_mark_decision_consumed."
                if decision.state == "answered"
                else "The answer was already used; go on with the command."
            ),
        )
    return stop(
        decision.state.upper(),
        f"decision {name} is {decision.state}",
        data,
        next_action="Stop. No answer will come; ask the human again with chaos_create_decision if it still matters.",
        warnings=[f"decision {name} was {decision.state} without an answer"],
    )


def _response_data(decision: Decision, response: Response | None, session: Session | None) -> dict[str, Json]:
    return {
        "decisionId": decision.decision_id,
        "commandRunId": decision.command_run_id,
        "changeId": decision.change_id,
        "selectedOptionId": response.selected_option_id if response else None,
        "selectedOptionIds": list(response.selected_option_ids) if response else [],
        "freeformValue": response.freeform_value if response else None,
        "rationale": response.rationale if response else None,
        "selectedBy": response.selected_by if response else None,
        "selectedAt": response.selected_at if response else None,
        "source": response.source if response else None,
        "responsePath": response_path(decision.decision_id) if response else None,
        "resumeCapsulePath": session.resume_capsule_path if session else None,
    }


def resume_capsule(unit: InteractionUnit, run: str | None, change: str | None, latest: bool) -> Envelope:
    if run:
        capsule = unit.capsule(run) if is_id(run) else None
        return _found(unit, capsule) if capsule is not None else _no_capsule()
    found = unit.find_capsules(change or None, _CAPSULES_SHOWN_MAX)
    if not found:
        return _no_capsule()
    if len(found) == 1 or latest:
        return _found(unit, found[0])
    shown: list[Json] = [
        {**_current(unit, item).pick(*_CAPSULE_KEYS), "capsulePath": capsule_path(item.run)} for item in found
    ]
    return stop(
        "MULTIPLE_FOUND",
        f"{len(found)} capsules fit",
        {"capsules": shown},
        next_action="Stop. Ask the human which run to resume, or call again with its commandRunId.",
    )


def _no_capsule() -> Envelope:
    return success("NOT_FOUND", "there is no such resume capsule", {})


def _current(unit: InteractionUnit, capsule: Capsule) -> Capsule:
    """As its session stands: peers that end a run leave its capsule as it was."""
    session = readable_session(unit, capsule.run)
    return (following(capsule, session, unit.now) if session is not None else None) or capsule


def _found(unit: InteractionUnit, capsule: Capsule) -> Envelope:
    warnings = []
    if verify_content(capsule.document) == "tampered":
        warnings.append("the capsule was changed by hand after it was sealed: do not trust it without asking the human")
    return success(
        "FOUND",
        f"capsule of {capsule.run}",
        {"capsulePath": capsule_path(capsule.run), "capsule": _current(unit, capsule).document},
        next_action="Read it, then call chaos_resume_command.",
        warnings=warnings,
    )


def resume_candidates(
    unit: InteractionUnit, change: str | None, run: str | None, command: str | None, latest: bool
) -> Envelope:
    ready = [
        session
        for session in unit.unfinished_sessions()
        if session.state == "ready-to-resume"
        and (not run or session.command_run_id == run)
        and (not change or session.change_id == change)
        and (not command or session.command == command_token(command))
    ]
    # Equal instants come out in reverse enumeration order, as in every peer.
    ready.reverse()
    ready.sort(key=lambda session: session.last_seen_at, reverse=True)
    candidates: list[Json] = [_candidate(unit, session) for session in (ready[:1] if latest else ready)]
    data: JsonObject = {"candidates": candidates}
    if not candidates:
        return success("NOT_FOUND", "no session is ready to resume", data, next_action="Begin a new command.")
    if len(candidates) == 1:
        return success(
            "FOUND",
            "one session is ready to resume",
            data,
            next_action="Read its capsule, then call chaos_resume_command.",
        )
    return stop(
        "MULTIPLE_FOUND",
        f"{len(candidates)} sessions are ready to resume",
        data,
        next_action="Stop. Ask the human which one to resume.",
    )


def _candidate(unit: InteractionUnit, session: Session) -> dict[str, Json]:
    run = session.command_run_id
    try:
        capsule = unit.capsule(run)
    except MalformedState as error:
        unit.warnings.append(error.message)
        capsule = None
    next_step = capsule.next_step if capsule is not None else None
    return {
        "commandRunId": run,
        "sourceCommand": session.source_command,
        "changeId": session.change_id,
        "sessionState": session.state,
        "nextStep": next_step if next_step is not None else session.next_step,
        "capsulePath": capsule_path(run) if capsule is not None else session.resume_capsule_path,
        "hasCapsule": capsule is not None,
        "answeredDecisionIds": list(session.answered_decision_ids),
        "updatedAt": session.last_seen_at,
    }


def shown_locks(unit: InteractionUnit) -> list[tuple[Lock, str | None]]:
    """Every lock with the reason why it is stale, if it is."""

    def state_of(run: str) -> str | None:
        try:
            session = unit.session(run) if is_id(run) else None
        except MalformedState:
            return "unknown"
        return session.state if session is not None else None

    def exists(decision: str) -> bool:
        try:
            return is_id(decision) and unit.decision(decision) is not None
        except MalformedState:
            return True

    return [(lock, stale_reason(lock, state_of, exists)) for lock in unit.locks().locks]


def lock_view(lock: Lock, reason: str | None) -> dict[str, Json]:
    shown = {**lock.to_json(), "stale": reason is not None}
    return shown if reason is None else {**shown, "staleReason": reason}


def list_locks(
    unit: InteractionUnit, change: str | None, include_stale: bool, limit: int, cursor: str | None
) -> Envelope:
    found = [pair for pair in shown_locks(unit) if not change or pair[0].change_id == change]
    stale: list[Json] = [lock_view(lock, reason) for lock, reason in found if reason is not None]
    visible = [pair for pair in found if include_stale or pair[1] is None]
    offset = _offset(cursor)
    page = visible[offset : offset + limit]
    warnings = [f"lock {lock.lock_id} is stale: {reason}" for lock, reason in found if reason is not None]
    double = _doubly_locked([lock for lock, _ in found])
    warnings += [f"the change {name!r} is locked by more than one run; ask the human" for name in double]
    shown: list[Json] = [lock_view(lock, reason) for lock, reason in page]
    data: dict[str, Json] = {
        "locks": shown,
        "staleLocks": stale,
        "suggestedActions": (["Let the human complete or cancel the sessions behind stale locks."] if stale else []),
    }
    if offset + limit < len(visible):
        data["total"], data["next"] = len(visible), str(offset + limit)
    return success("LOCKS" if found else "NO_LOCKS", f"{len(found)} locks", data, warnings=warnings)


def _offset(cursor: str | None) -> int:
    """Raises ``InvalidInput`` for a cursor that is not ours."""
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 12:
        raise InvalidInput(f"cursor: {cursor[:80]!r} is none of ours; use the value of 'next'", key="cursor")
    return int(cursor)


def _doubly_locked(locks: Sequence[Lock]) -> list[str]:
    owners: dict[str, set[str]] = {}
    for lock in locks:
        if lock.is_active:
            owners.setdefault(lock.change_id, set()).add(lock.run)
    return [change for change, runs in owners.items() if len(runs) > 1]


def list_sessions(unit: InteractionUnit, wanted: SessionFilter, limit: int, cursor: str | None) -> Envelope:
    page = unit.find_sessions(wanted, limit, cursor)
    unfinished = [session for session in unit.unfinished_sessions() if _fits(session, wanted)]
    latest = max(page.sessions, key=lambda session: session.last_seen_at, default=None)
    data: dict[str, Json] = {
        "sessions": [session.summary() for session in page.sessions],
        "readyToResume": [s.summary() for s in unfinished if s.state == "ready-to-resume"][:limit],
        "pending": [s.summary() for s in unfinished if s.state == "waiting-for-decision"][:limit],
        "latest": latest.summary() if latest is not None else None,
    }
    if page.next is not None or cursor is not None:
        data["total"], data["next"] = page.total, page.next
    status = "SESSIONS" if page.total else "NO_SESSIONS"
    return success(status, f"{page.total} sessions", data)


def _fits(session: Session, wanted: SessionFilter) -> bool:
    return (
        (not wanted.change_id or session.change_id == wanted.change_id)
        and (not wanted.state or session.state == wanted.state)
        and (not wanted.command or session.command == command_token(wanted.command))
        and (not wanted.ready_only or session.state == "ready-to-resume")
    )


# ---------------------------------------------------------------------------------------------- resources


def active_body(unit: InteractionUnit) -> JsonObject:
    """``active.json`` as it must be now; as it stands while that says the same."""
    waiting = unit.waiting_decisions()
    ready = [s.command_run_id for s in unit.unfinished_sessions() if s.state == "ready-to-resume"]
    stored = unit.document("active", "active")
    fresh = active_pointer(waiting, ready, unit.now)
    if isinstance(stored, dict):
        same = all(stored.get(key) == value for key, value in fresh.items() if key not in ("updatedAt", "metadata"))
        return stored if same else fresh
    return fresh if waiting or ready else NO_ACTIVE


def locks_body(unit: InteractionUnit, limit: int, cursor: str | None) -> JsonObject:
    pairs = shown_locks(unit)
    ordered = [pair for pair in pairs if pair[0].is_active] + [pair for pair in pairs if not pair[0].is_active]
    offset = _offset(cursor)
    page: list[Json] = [lock_view(lock, reason) for lock, reason in ordered[offset : offset + limit]]
    after = str(offset + limit) if offset + limit < len(ordered) else None
    return {"schemaVersion": 1, "locks": page, "total": len(ordered), "next": after}


def sessions_body(page: SessionPage) -> JsonObject:
    shown: list[Json] = [session.summary() for session in page.sessions]
    return {"sessions": shown, "total": page.total, "next": page.next}


def document_body(unit: InteractionUnit, kind: DocumentKind, name: str) -> Json | None:
    """The document as it stands, ``None`` when there is none."""
    if not is_id(name):
        return None
    if kind != "decision":
        return unit.document(kind, name)
    decision = unit.document("decision", name)
    return None if decision is None else {"decision": decision, "response": unit.document("response", name)}
