"""Self-healing, under the write lock and before every operation: adopt answers, end what time ended, repair drift.

The rules are pure (``domain.interaction.rules``); here they meet the store. Readers run the same work on a unit that is
thrown away, so that they show the truth without writing. One repair that cannot be made never stops the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from chaoscore.app.interaction_ports import InteractionUnit
from chaoscore.domain.errors import ChaosError, StorageError
from chaoscore.domain.interaction import rules
from chaoscore.domain.interaction.capsule import built, following
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.errors import MalformedState
from chaoscore.domain.interaction.event import Event, audit_source
from chaoscore.domain.interaction.lock import Lock, LockTable
from chaoscore.domain.interaction.marks import marks
from chaoscore.domain.interaction.names import capsule_path, lock_id, response_path
from chaoscore.domain.interaction.response import adoption_fault
from chaoscore.domain.interaction.session import Session


def heal(unit: InteractionUnit) -> None:
    """Bring the whole store to what its documents and the clock say it is."""
    for decision in unit.waiting_decisions():
        _guarded(unit, partial(_adopt_or_end, unit, decision))
    for session in unit.unfinished_sessions():
        _guarded(unit, partial(_settle, unit, session))
    _guarded(unit, partial(_locks, unit))


def lock_table(unit: InteractionUnit) -> LockTable | None:
    """The locks, or ``None`` and a warning when the file cannot be understood."""
    try:
        return unit.locks()
    except MalformedState as error:
        unit.warnings.append(f"{error.message}; locks were left as they are")
        return None


def readable_session(unit: InteractionUnit, run: str) -> Session | None:
    """The session, or ``None`` when it is missing or not understood (then with a warning)."""
    try:
        return unit.session(run)
    except MalformedState as error:
        unit.warnings.append(error.message)
        return None


def follow_capsule(unit: InteractionUnit, session: Session) -> None:
    """Let the capsule, if there is one, follow its session; a capsule that is not understood is left alone."""
    try:
        capsule = unit.capsule(session.command_run_id)
    except MalformedState as error:
        unit.warnings.append(f"{error.message}; the capsule was left as it is")
        return
    moved = following(capsule, session, unit.now) if capsule is not None else None
    if moved is not None:
        unit.put_capsule(moved)


def make_ready(unit: InteractionUnit, session: Session, *, reconciled: bool = False) -> Session:
    """Write capsule and lock reason of a session that may go on, and return it for writing (last, by its caller)."""
    path = capsule_path(session.command_run_id)
    try:
        existing = unit.capsule(session.command_run_id)
    except MalformedState as error:
        unit.warnings.append(f"{error.message}; no capsule was written")
    else:
        unit.put_capsule(built(session, unit.now, existing=existing))
        session = replace(session, resume_capsule_path=path)
        unit.record(
            Event(
                "capsule-created",
                f"Capsule of {session.command_run_id} written.",
                run=session.command_run_id,
                change=session.change_id,
                data={"path": path, "reconciled": True} if reconciled else {"path": path},
            )
        )
    if session.change_id:
        table = lock_table(unit)
        ready = table.ready(session.command_run_id, unit.now) if table is not None else None
        if ready is not None and ready is not table:
            unit.put_locks(ready)
    return session


def expire_session(unit: InteractionUnit, session: Session) -> None:
    """The session ends by time: with it its waiting decisions, its locks, its capsule."""
    ended = session.becoming("expired", unit.now)
    unit.put_session(ended)
    for decision in unit.decisions_of(session.command_run_id):
        if decision.state == "waiting":
            _end_decision(unit, decision, "expired")
    follow_capsule(unit, ended)
    release_locks(unit, session.command_run_id)
    unit.record(
        Event(
            "runtime-warning",
            f"Session {session.command_run_id} expired.",
            run=session.command_run_id,
            change=session.change_id,
            data={"kind": "session-expired", "fromState": session.state, "toState": "expired"},
        )
    )


def release_locks(unit: InteractionUnit, run: str) -> tuple[Lock, ...]:
    """Release every active lock of the run and say so in the audit; which ones they were."""
    table = lock_table(unit)
    if table is None:
        return ()
    released, mine = table.release(run, unit.now)
    if mine:
        unit.put_locks(released)
    for lock in mine:
        unit.record(Event("lock-released", f"Lock {lock.lock_id} released.", run=run, data={"lockId": lock.lock_id}))
    return mine


def new_lock(unit: InteractionUnit, session: Session, change: str, decision: Decision) -> Lock:
    return Lock(
        lock_id=lock_id(unit.now[:10], change, unit.hex(16)),
        change_id=change,
        run=session.command_run_id,
        command=decision.source_command,
        reason="waiting-for-user-decision",
        state="active",
        created_at=unit.now,
        blocking_decision_ids=(decision.decision_id,),
        expires_at=session.expires_at,
    )


def _guarded(unit: InteractionUnit, repair: Callable[[], None]) -> None:
    mark = unit.savepoint()
    try:
        repair()
    except StorageError:
        raise
    except ChaosError as error:
        unit.rollback(mark)
        unit.warnings.append(f"could not repair: {error.message}")


def _adopt_or_end(unit: InteractionUnit, decision: Decision) -> None:
    name = decision.decision_id
    if unit.has_response(name) and _adopt(unit, decision):
        return
    owner = readable_session(unit, decision.command_run_id)
    replaced = marks(decision.metadata).get("supersedes")
    if rules.decision_expired(decision, unit.now_ms) or (owner is not None and owner.state == "expired"):
        _end_decision(unit, decision, "expired")
    elif owner is not None and owner.state == "cancelled":
        _end_decision(unit, decision, "cancelled")
    if isinstance(replaced, str):
        old = unit.decision(replaced)
        if old is not None and old.state in ("waiting", "answered") and old.command_run_id == decision.command_run_id:
            unit.put_decision(old.becoming("superseded"))


def _adopt(unit: InteractionUnit, decision: Decision) -> bool:
    name = decision.decision_id
    try:
        response = unit.response(name)
    except MalformedState as error:
        unit.warnings.append(f"{error.message}; the answer was not adopted")
        return False
    if response is None:
        return False
    fault = adoption_fault(decision, response, unit.now_ms)
    if fault is not None:
        unit.warnings.append(f"{response_path(name)} was not adopted: {fault}; correct it or answer again")
        return False
    unit.put_decision(decision.becoming("answered"))
    unit.record(
        Event(
            "decision-answered",
            f"Answer of {response.selected_by} to {name} adopted.",
            run=decision.command_run_id,
            decision=name,
            change=decision.change_id,
            actor=response.selected_by,
            source=audit_source(response.source),
            data={
                "selectedOptionId": response.selected_option_id,
                "selectedOptionIds": list(response.selected_option_ids),
                "freeform": response.freeform_value is not None,
                "adopted": True,
            },
        )
    )
    return True


def _end_decision(unit: InteractionUnit, decision: Decision, state: str) -> None:
    unit.put_decision(decision.becoming(state))
    unit.record(
        Event(
            f"decision-{state}",
            f"Decision {decision.decision_id} {state}.",
            run=decision.command_run_id,
            decision=decision.decision_id,
            change=decision.change_id,
        )
    )


def _settle(unit: InteractionUnit, session: Session) -> None:
    if rules.session_expired(session, unit.now_ms):
        expire_session(unit, session)
        return
    decisions = unit.decisions_of(session.command_run_id)
    fixed = rules.reconciled(session, decisions)
    if fixed == session:
        follow_capsule(unit, session)  # whoever moved the session may have died before it came to the capsule
        return
    fixed = replace(fixed, last_seen_at=unit.now)
    if fixed.state == "ready-to-resume" and session.state != "ready-to-resume":
        fixed = make_ready(unit, fixed, reconciled=True)
    else:
        follow_capsule(unit, fixed)
    unit.put_session(fixed)
    unit.record(
        Event(
            "runtime-warning",
            f"Session {session.command_run_id} reconciled with its decisions.",
            run=session.command_run_id,
            change=session.change_id,
            data={"fromState": session.state, "toState": fixed.state},
        )
    )


def _locks(unit: InteractionUnit) -> None:
    waiting = unit.waiting_decisions()
    before = lock_table(unit)
    if before is None:
        return
    table = before
    waits = {decision.decision_id for decision in waiting}
    for lock in before.active:
        blocked = any(name in waits for name in lock.blocking_decision_ids)
        owner = readable_session(unit, lock.run)
        ended = rules.lock_ended(lock, owner.state if owner is not None else None, blocked, unit.now_ms)
        if ended is not None:
            if owner is not None and owner.is_terminal:
                follow_capsule(unit, owner)
            table = table.put(lock.released(unit.now, ended), unit.now)
            unit.record(
                Event("lock-released", f"Lock {lock.lock_id} {ended}.", run=lock.run, data={"lockId": lock.lock_id})
            )
    for decision in waiting:
        if not decision.change_id or table.names_decision(decision.decision_id):
            continue
        owner = readable_session(unit, decision.command_run_id)
        if owner is None or owner.is_terminal:
            continue
        mine = next((lock for lock in table.on_change(decision.change_id) if lock.run == owner.command_run_id), None)
        lock = (
            mine.blocking(decision.decision_id)
            if mine is not None
            else new_lock(unit, owner, decision.change_id, decision)
        )
        table = table.put(lock, unit.now)
        unit.record(
            Event(
                "lock-acquired",
                f"Lock {lock.lock_id} made again for {decision.decision_id}.",
                run=owner.command_run_id,
                decision=decision.decision_id,
                change=decision.change_id,
                data={"lockId": lock.lock_id, "reconciled": True},
            )
        )
        if lock.lock_id not in owner.lock_ids:
            unit.put_session(replace(owner, lock_ids=(*owner.lock_ids, lock.lock_id)))
    if table is not before:
        unit.put_locks(table)
