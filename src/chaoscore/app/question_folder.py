"""The questions of runs as they lie in an interactions folder, where a Decision Center shows and answers them.

The database is the truth and the folder a door: what lies there is made from the database, again and again until it is
so, and an answer found there counts only when the question beside it is still the one that was stored. All work here is
plain units of the folder's store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from chaoscore.app.interaction_ports import InteractionUnit
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.asking import command_of, session_of
from chaoscore.domain.interaction import states
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.errors import MalformedState
from chaoscore.domain.interaction.event import Event, audit_source
from chaoscore.domain.interaction.marks import marked
from chaoscore.domain.interaction.names import instant_text
from chaoscore.domain.interaction.response import Choice, Response
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.records import RUN_FINISHED, Run

_SOURCES = {"terminal": "manual-file", "caller": "mcp-tool", "elicitation": "mcp-tool", "bridge": "mcp-tool"}


@dataclass(frozen=True, slots=True)
class FoundAnswer:
    """A response that lies beside a question that waits. ``fault`` says why it does not count."""

    decision: RunDecision
    choice: Choice
    selected_by: str
    bridged: bool
    fault: str | None = None


def mirror(unit: InteractionUnit, run: Run) -> None:
    """Make the folder say what the database says about one run's questions. Writes nothing when it does."""
    name = session_of(run.label)
    session = unit.session(name)
    if session is None:
        if not any(decision.state == "waiting" for decision in run.decisions):
            return  # nothing was ever shown here, and nothing needs to be
        session = Session(
            command_run_id=name,
            source_command=command_of(run.label),
            change_id=None,
            adapter="unknown",
            state="running",
            created_at=unit.now,
            last_seen_at=unit.now,
            metadata=marked({}, kernel=True, run=run.label),
        )
        unit.put_session(session, new=True)
        unit.record(Event("session-created", f"Session {name} created.", run=name))
    before = session
    for decision in run.decisions:
        session = _mirrored(unit, session, decision)
    if run.status in RUN_FINISHED and not session.is_terminal:
        session = _ended(unit, session, run)
    if session != before:
        unit.put_session(session)


def _mirrored(unit: InteractionUnit, session: Session, decision: RunDecision) -> Session:
    stored = unit.decision(decision.id)
    if stored is None:
        return _published(unit, session, decision) if decision.state == "waiting" else session
    if decision.state == "waiting":
        return session
    if decision.state == "answered":
        return _answered(unit, session, stored, decision)
    if stored.state in ("waiting", "answered"):
        state = decision.state if states.allows(states.DECISION, stored.state, decision.state) else "superseded"
        unit.put_decision(stored.becoming(state))
        if state in ("expired", "cancelled"):
            unit.record(_event(f"decision-{state}", f"Decision {decision.id} {state}.", decision))
    return _freed(session, decision.id, unit.now)


def _published(unit: InteractionUnit, session: Session, decision: RunDecision) -> Session:
    if session.is_terminal:
        return session
    unit.put_decision(decision.question, new=True)
    unit.record(_event("decision-created", f"Decision {decision.id} created.", decision))
    return _running(session, unit.now).asking(decision.id, None, unit.now)


def _answered(unit: InteractionUnit, session: Session, stored: Decision, decision: RunDecision) -> Session:
    response = decision.response
    assert response is not None
    if stored.state == "waiting" and not unit.has_response(decision.id):
        several = decision.question.interaction_type == "multi-choice-decision"
        unit.put_response(
            Response(
                decision_id=decision.id,
                command_run_id=decision.question.command_run_id,
                selected_option_id=response.options[0],
                selected_option_ids=response.options if several else (),
                freeform_value=None,
                rationale=response.rationale,
                selected_by=response.approver,
                selected_at=instant_text(int(response.at * 1000)),
                source=_SOURCES.get(response.door, "unknown"),
                decision_hash=decision.question_digest,
                metadata=marked({}, door=response.door),
            )
        )
    if stored.state == "waiting":
        stored = stored.becoming("answered")
        source = audit_source(_SOURCES.get(response.door, "unknown"))
        told = _event("decision-answered", f"Decision {decision.id} answered.", decision)
        unit.record(replace(told, actor=response.approver, source=source))
    if stored.state == "answered":
        unit.put_decision(stored.becoming("consumed"))
        unit.record(_event("decision-consumed", f"Decision {decision.id} consumed.", decision))
    return _freed(session.answered(decision.id, unit.now).consumed(decision.id, unit.now), decision.id, unit.now)


def _freed(session: Session, decision: str, now: str) -> Session:
    """Without a question that waits no more; a session with none left runs on."""
    if decision in session.active_decision_ids:
        session = session.without_active(decision, now)
    if not session.active_decision_ids and not session.is_terminal:
        session = _running(session, now)
    return session


def _running(session: Session, now: str) -> Session:
    if session.state == "waiting-for-decision" and not session.active_decision_ids:
        session = session.becoming("ready-to-resume", now)
    if session.state == "ready-to-resume":
        session = session.resumed(now)
    elif session.state in ("created", "resumed"):
        session = session.becoming("running", now)
    return session


def _ended(unit: InteractionUnit, session: Session, run: Run) -> Session:
    state = {"completed": "completed", "cancelled": "cancelled"}.get(run.status, "failed")
    session = _running(replace(session, active_decision_ids=()), unit.now)
    if session.can_become(state):
        session = session.becoming(state, unit.now)
        unit.record(Event(f"command-{state}", f"{session.command_run_id} {state}.", run=session.command_run_id))
    return session


def answers(unit: InteractionUnit, waiting: tuple[RunDecision, ...]) -> list[FoundAnswer]:
    """The responses that lie beside questions that wait."""
    found: list[FoundAnswer] = []
    for decision in waiting:
        if not unit.has_response(decision.id):
            continue
        try:
            response, stored = unit.response(decision.id), unit.decision(decision.id)
        except MalformedState as error:
            found.append(FoundAnswer(decision, Choice(), "unknown", False, error.message))
            continue
        if response is None:
            continue
        found.append(
            FoundAnswer(
                decision,
                response.choice,
                response.selected_by,
                response.source == "mcp-tool",
                _fault(decision, stored, response),
            )
        )
    return found


def _fault(decision: RunDecision, stored: Decision | None, response: Response) -> str | None:
    if stored is None or stored.digest() != decision.question_digest:
        return "the question in the folder is not the one that was asked; whoever answered may have seen another"
    if response.decision_id != decision.id or response.command_run_id != decision.question.command_run_id:
        return "it names another decision or run"
    if response.decision_hash is not None and response.decision_hash.lower() != decision.question_digest.lower():
        return "it was given to another version of the question"
    return None


def _event(kind: str, message: str, decision: RunDecision) -> Event:
    return Event(kind, message, run=decision.question.command_run_id, decision=decision.id)
