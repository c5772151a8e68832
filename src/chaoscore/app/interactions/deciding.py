"""Asking a human and recording the answer: ``create_decision`` and ``answer``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chaoscore.app.envelope import Envelope
from chaoscore.app.interaction_ports import InteractionUnit
from chaoscore.app.interactions.heal import make_ready, new_lock
from chaoscore.app.interactions.results import stop, success
from chaoscore.domain.errors import InvalidInput, NotFound
from chaoscore.domain.interaction import states
from chaoscore.domain.interaction.decision import Decision, chosen_options
from chaoscore.domain.interaction.errors import ChangeLocked, DecisionNotAnswerable, KernelSession, SessionTerminal
from chaoscore.domain.interaction.event import Event, audit_source
from chaoscore.domain.interaction.marks import marked, marks
from chaoscore.domain.interaction.names import (
    ID_CHARS_MAX,
    command_token,
    decision_id,
    decision_path,
    has_passed,
    instant_ms,
    is_kernel_run,
    response_path,
)
from chaoscore.domain.interaction.response import Choice, Response, accepted, hash_fault
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json, JsonObject, is_array


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A question. ``None`` for change, command and author means the session's.

    ``requires_hash`` (for questions whose answer permits something) refuses answers that do not name the decision's
    digest; ``marks`` are our own facts for ``metadata.chaosCore``.
    """

    command_run_id: str
    title: str
    context: str
    options: Sequence[JsonObject] | None = None
    interaction_type: str = "single-choice-decision"
    source_command: str | None = None
    change_id: str | None = None
    recommendation: str | None = None
    recommended_option_id: str | None = None
    requires_rationale: bool = False
    independent: bool = False
    expires_at: str | None = None
    created_by: str | None = None
    next_step: str | None = None
    last_completed_step: str | None = None
    supersedes: str | None = None
    metadata: JsonObject | None = None
    requires_hash: bool = False
    marks: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """``source`` is set by the door; ``claimed`` is what the caller says about itself and nobody checked."""

    decision_id: str
    choice: Choice
    selected_by: str
    source: str
    decision_hash: str | None = None
    claimed: JsonObject | None = None
    metadata: JsonObject | None = None


def refuse_kernel(run: str | None) -> None:
    """A session that stands for a run of the kernel mirrors it: no tool may move it."""
    if is_kernel_run(run):
        raise KernelSession(
            f"command run {str(run)[:80]!r} stands for a run of chaos-core, which alone moves it on; use "
            "chaoscore_execute there"
        )


def _require_bridge(decision: Decision, source: str) -> None:
    """Questions of the kernel are answered at its own doors; the bridge only where the policy lists it."""
    if not is_kernel_run(decision.command_run_id):
        return
    ours = marks(decision.metadata)
    doors = ours.get("doors")
    bridged = is_array(doors) and "bridge" in doors
    if source != "mcp-tool" or not bridged:
        raise KernelSession(
            f"decision {decision.decision_id!r} is a question of chaos-core; a person answers it in the Decision "
            "Center or with chaoscore decide"
        )


def required_session(unit: InteractionUnit, run: str) -> Session:
    refuse_kernel(run)
    session = unit.session(run)
    if session is None:
        raise NotFound(f"there is no command run {run!r}; chaos_list_sessions shows those there are")
    return session


def required_decision(unit: InteractionUnit, name: str) -> Decision:
    decision = unit.decision(name)
    if decision is None:
        raise NotFound(f"there is no decision {name!r}; chaos_get_active_decision shows those that wait")
    return decision


def create_decision(unit: InteractionUnit, request: DecisionRequest) -> Envelope:
    session = required_session(unit, request.command_run_id)
    if session.is_terminal:
        raise SessionTerminal(f"command run {session.command_run_id!r} is {session.state}; begin a new one to ask")
    change = request.change_id if request.change_id is not None else session.change_id
    command = request.source_command if request.source_command is not None else session.source_command
    siblings = unit.decisions_of(session.command_run_id)
    replaced = _superseded(request, siblings)
    twins = [
        other
        for other in siblings
        if other.title == request.title and other.command == command_token(command) and other is not replaced
    ]
    draft = _draft(unit, request, session, change, command) if request.title.strip() else None
    waiting = next((other for other in twins if other.state == "waiting"), None)
    if waiting is not None:
        return _pending(waiting, draft)
    answered = next((other for other in twins if other.state == "answered"), None)
    if answered is not None and session.state != "running":
        return _already_answered(answered)
    states.require(states.SESSION, "session", session.command_run_id, session.state, "waiting-for-decision")
    decision = _checked(unit, request, session, change, command)
    lock = None
    table = unit.locks() if change else None
    if change and table is not None:
        others = [other for other in table.on_change(change) if other.run != session.command_run_id]
        if others:
            raise ChangeLocked(
                f"the change {change!r} is held by {others[0].command!r} (command run {others[0].run!r}); nothing was "
                f"asked: wait for it or let the human cancel it"
            )
        mine = next(iter(table.on_change(change)), None)
        lock = (
            mine.blocking(decision.decision_id, request.supersedes)
            if mine is not None
            else new_lock(unit, session, change, decision)
        )
    unit.put_decision(decision, new=True)
    if replaced is not None:
        unit.put_decision(replaced.becoming("superseded"))
        session = session.without_active(replaced.decision_id, unit.now)
    if lock is not None and table is not None:
        unit.put_locks(table.put(lock, unit.now))
    asking = session.asking(decision.decision_id, lock.lock_id if lock is not None else None, unit.now)
    unit.put_session(
        replace(
            asking,
            last_completed_step=_or(request.last_completed_step, asking.last_completed_step),
            next_step=_or(request.next_step, asking.next_step),
        )
    )
    _record_created(unit, decision, lock.lock_id if lock is not None else None, replaced)
    return _asked(unit, decision)


def _superseded(request: DecisionRequest, siblings: Sequence[Decision]) -> Decision | None:
    if request.supersedes is None:
        return None
    old = next((other for other in siblings if other.decision_id == request.supersedes), None)
    if old is None:
        raise NotFound(
            f"supersedes: command run {request.command_run_id!r} has no decision {request.supersedes[:80]!r}",
            key="supersedes",
        )
    old.becoming("superseded")
    return old


def _draft(
    unit: InteractionUnit, request: DecisionRequest, session: Session, change: str | None, command: str
) -> Decision | None:
    """What would be asked, for comparing; ``None`` when it could not be."""
    try:
        return _checked(unit, request, session, change, command)
    except InvalidInput:
        return None


def _checked(
    unit: InteractionUnit, request: DecisionRequest, session: Session, change: str | None, command: str
) -> Decision:
    """The new decision. Raises ``InvalidInput`` naming the key."""
    for key, value in (("title", request.title), ("context", request.context)):
        if not value.strip():
            raise InvalidInput(f"{key}: must not be blank", key=key)
    if request.expires_at is not None and instant_ms(request.expires_at) is None:
        raise InvalidInput(
            f"expiresAt: {request.expires_at[:40]!r} is not an instant; write it like 2030-01-31T12:00:00Z",
            key="expiresAt",
        )
    options, recommended = chosen_options(request.interaction_type, request.options, request.recommended_option_id)
    hints: JsonObject = {"nextStep": request.next_step, "lastCompletedStep": request.last_completed_step}
    metadata = marked(
        {**(request.metadata or {}), "resumeHints": hints},
        **{
            **(request.marks or {}),
            "requiresHash": True if request.requires_hash else None,
            "supersedes": request.supersedes,
        },
    )
    author = request.created_by if request.created_by is not None else command
    return Decision(
        decision_id=decision_id(unit.now[:10], change if change is not None else command, request.title, unit.hex(16)),
        command_run_id=session.command_run_id,
        change_id=change,
        source_command=command,
        interaction_type=request.interaction_type,
        state="waiting",
        title=request.title,
        context=request.context,
        options=options,
        created_at=unit.now,
        recommendation=request.recommendation,
        recommended_option_id=recommended,
        requires_rationale=request.requires_rationale,
        independent=request.independent,
        expires_at=request.expires_at,
        created_by=author[:ID_CHARS_MAX],
        metadata=metadata,
    )


def _record_created(unit: InteractionUnit, decision: Decision, lock: str | None, replaced: Decision | None) -> None:
    name, run, change = decision.decision_id, decision.command_run_id, decision.change_id
    if lock is not None:
        unit.record(Event("lock-acquired", f"Lock {lock} acquired.", run, name, change, data={"lockId": lock}))
    options: dict[str, Json] = {"optionIds": list(decision.option_ids)}
    if replaced is not None:
        options["supersedes"] = replaced.decision_id
    unit.record(Event("decision-created", f"Decision {name} created.", run, name, change, data=options))
    if replaced is not None:
        unit.record(
            Event(
                "runtime-warning",
                f"Decision {replaced.decision_id} superseded.",
                run=replaced.command_run_id,
                decision=replaced.decision_id,
                change=replaced.change_id,
                data={"kind": "decision-superseded", "by": decision.decision_id},
            )
        )


def _decision_data(decision: Decision) -> dict[str, Json]:
    return {
        "decisionId": decision.decision_id,
        "commandRunId": decision.command_run_id,
        "changeId": decision.change_id,
        "decisionPath": decision_path(decision.decision_id),
        "resumeInstruction": (
            f"After the human has answered, read chaos_get_decision_response for {decision.decision_id}, resume "
            f"{decision.command_run_id} and mark the decision consumed."
        ),
        "uiHint": "The Decision Center shows the question; chaoscore decide answers it from a terminal.",
    }


def _asked(unit: InteractionUnit, decision: Decision) -> Envelope:
    warnings = (
        [f"expiresAt {decision.expires_at} has already passed; nobody can answer this decision"]
        if has_passed(decision.expires_at, unit.now_ms)
        else []
    )
    return stop(
        "WAITING_FOR_USER_DECISION",
        f"decision {decision.decision_id} waits for a human",
        _decision_data(decision),
        warnings=warnings,
    )


def _pending(waiting: Decision, draft: Decision | None) -> Envelope:
    note = "nothing was written: this question is already waiting"
    if draft is None or not waiting.asks_the_same(draft):
        note = (
            "nothing was written: a question with this title already waits, but with another context or other options; "
            f"to replace it, call again with supersedes {waiting.decision_id}"
        )
    return stop(
        "PENDING_DECISION_EXISTS",
        f"decision {waiting.decision_id} already waits for a human",
        _decision_data(waiting),
        warnings=[note],
    )


def _already_answered(answered: Decision) -> Envelope:
    return success(
        "ANSWERED_DECISION_EXISTS",
        f"decision {answered.decision_id} has already been answered; read it with chaos_get_decision_response",
        _decision_data(answered),
        warnings=["nothing was written: this question has been answered and not yet consumed"],
    )


def answer(unit: InteractionUnit, request: AnswerRequest, notices: Sequence[str] = ()) -> Envelope:
    decision = required_decision(unit, request.decision_id)
    _require_bridge(decision, request.source)
    if decision.state == "answered":
        return _again(unit, decision, request, notices)
    if decision.state != "waiting":
        raise DecisionNotAnswerable(f"decision {decision.decision_id!r} is {decision.state}; it takes no answer")
    fault = hash_fault(decision, request.decision_hash)
    if fault is not None:
        raise InvalidInput(f"decisionHash: {fault}; read the question again", key="decisionHash")
    choice = accepted(decision, request.choice)
    response = Response(
        decision_id=decision.decision_id,
        command_run_id=decision.command_run_id,
        selected_option_id=choice.option_id,
        selected_option_ids=choice.option_ids,
        freeform_value=choice.freeform,
        rationale=choice.rationale,
        selected_by=request.selected_by,
        selected_at=unit.now,
        source=request.source,
        decision_hash=decision.digest(),
        metadata=marked(request.metadata or {}, claimed=request.claimed or None),
    )
    if unit.has_response(decision.decision_id):
        unit.set_response_aside(decision.decision_id)
    unit.put_response(response)
    unit.put_decision(decision.becoming("answered"))
    unit.record(
        Event(
            "decision-answered",
            f"Decision {decision.decision_id} answered.",
            run=decision.command_run_id,
            decision=decision.decision_id,
            change=decision.change_id,
            actor=request.selected_by,
            source=audit_source(request.source),
            data={
                "selectedOptionId": choice.option_id,
                "selectedOptionIds": list(choice.option_ids),
                "freeform": choice.freeform is not None,
            },
        )
    )
    session = unit.session(decision.command_run_id)
    if session is not None:
        session = session.answered(decision.decision_id, unit.now)
        if not session.active_decision_ids and session.state == "waiting-for-decision":
            session = make_ready(unit, session.becoming("ready-to-resume", unit.now))
        unit.put_session(session)
    return _answered(decision, request.choice, session, notices)


def _again(unit: InteractionUnit, decision: Decision, request: AnswerRequest, notices: Sequence[str]) -> Envelope:
    response = unit.response(decision.decision_id)
    if response is not None and request.choice.same_as(response.choice):
        session = unit.session(decision.command_run_id)
        return _answered(decision, request.choice, session, notices)
    who = f" by {response.selected_by!r} at {response.selected_at}" if response is not None else ""
    raise DecisionNotAnswerable(
        f"decision {decision.decision_id!r} was already answered{who}; an answer is never overwritten"
    )


def _answered(decision: Decision, given: Choice, session: Session | None, notices: Sequence[str]) -> Envelope:
    state = session.state if session is not None else "waiting-for-decision"
    go_on = state == "ready-to-resume"
    return success(
        "ANSWERED",
        f"decision {decision.decision_id} is answered",
        {
            "decisionId": decision.decision_id,
            "selectedOptionId": given.option_id,
            "responsePath": response_path(decision.decision_id),
            "sessionState": state,
            "resumeCapsulePath": session.resume_capsule_path if session is not None else None,
        },
        next_action=(
            f"Resume {decision.command_run_id} with chaos_resume_command, then mark the decision consumed."
            if go_on
            else "Other decisions of this run still wait; wait for them."
            if session is not None and session.active_decision_ids
            else "Go on with the run."
        ),
        warnings=notices,
    )


def _or(given: str | None, before: str | None) -> str | None:
    return given if given is not None else before
