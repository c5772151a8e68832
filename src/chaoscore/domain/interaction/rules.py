"""Self-healing as pure rules: what a session must look like given its decisions, and what time has ended.

``app.interactions.heal`` applies these under the write lock; readers use them to show the truth without writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chaoscore.domain.interaction import states
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.lock import Lock
from chaoscore.domain.interaction.names import has_passed
from chaoscore.domain.interaction.session import Session


def reconciled(session: Session, decisions: Sequence[Decision]) -> Session:
    """``session`` as its decisions (enumeration order) say it must be; the same value when nothing is wrong."""
    if session.is_terminal or not decisions:
        return session
    by_state = {
        state: tuple(d.decision_id for d in decisions if d.state == state)
        for state in ("waiting", "answered", "consumed")
    }
    out = replace(
        session,
        active_decision_ids=_kept(session.active_decision_ids, by_state["waiting"]),
        answered_decision_ids=_kept(session.answered_decision_ids, by_state["answered"]),
        consumed_decision_ids=_kept(session.consumed_decision_ids, by_state["consumed"]),
    )
    if not out.next_step:
        hint = next((d.next_step_hint for d in decisions if d.next_step_hint), None)
        out = replace(out, next_step=hint) if hint else out
    target = target_state(out, by_state["waiting"])
    return replace(out, state=target)


def target_state(session: Session, waiting: Sequence[str]) -> str:
    """Waiting decisions stop a running session; a session that waits for nothing may go on."""
    if waiting:
        return "waiting-for-decision" if session.can_become("waiting-for-decision") else session.state
    return "ready-to-resume" if session.state == "waiting-for-decision" else session.state


def decision_expired(decision: Decision, now_ms: int) -> bool:
    return decision.state == "waiting" and has_passed(decision.expires_at, now_ms)


def session_expired(session: Session, now_ms: int) -> bool:
    """Only where the table knows the step: a running session does not end by time, its lock does."""
    return states.allows(states.SESSION, session.state, "expired") and (
        not session.is_terminal and has_passed(session.expires_at, now_ms)
    )


def lock_ended(lock: Lock, owner_state: str | None, waiting: bool, now_ms: int) -> str | None:
    """The state an active lock must take: never while a decision of it waits."""
    if not lock.is_active or waiting:
        return None
    if owner_state in states.SESSION_TERMINAL:
        return "released"
    return "expired" if has_passed(lock.expires_at, now_ms) else None


def _kept(before: tuple[str, ...], now: tuple[str, ...]) -> tuple[str, ...]:
    """The order in the file stands unless the set differs."""
    return before if len(before) == len(now) and set(before) == set(now) else now
