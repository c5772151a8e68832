"""The derived files: ``active.json`` (what a stop hook reads from disk) and ``index.json`` (a table of contents)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.names import EPOCH_TEXT, LOCKS_PATH, decision_path, session_path
from chaoscore.domain.json import Json, JsonObject

NO_ACTIVE: JsonObject = {
    "schemaVersion": 1,
    "state": "ready",
    "activeDecisionId": None,
    "activeCommandRunId": None,
    "activeChangeId": None,
    "pendingDecisionIds": [],
    "readyToResumeCommandRunIds": [],
    "updatedAt": EPOCH_TEXT,
    "metadata": {},
}


def active_pointer(waiting: Sequence[Decision], ready_runs: Sequence[str], now: str) -> dict[str, Json]:
    """``waiting`` and ``ready_runs`` in enumeration order; the first waiting decision is the active one."""
    first = waiting[0] if waiting else None
    state = "waiting-for-user-decision" if first else "ready-to-resume" if ready_runs else "ready"
    return {
        "schemaVersion": 1,
        "state": state,
        "activeDecisionId": first.decision_id if first else None,
        "activeCommandRunId": first.command_run_id if first else None,
        "activeChangeId": first.change_id if first else None,
        "pendingDecisionIds": [decision.decision_id for decision in waiting],
        "readyToResumeCommandRunIds": list(ready_runs),
        "updatedAt": now,
        "metadata": {},
    }


def session_entry(run: str, state: str, change: str | None, command: str) -> dict[str, Json]:
    return {
        "commandRunId": run,
        "path": session_path(run),
        "state": state,
        "changeId": change,
        "sourceCommand": command,
    }


def decision_entry(decision: str, state: str, run: str, change: str | None) -> dict[str, Json]:
    return {
        "decisionId": decision,
        "path": decision_path(decision),
        "state": state,
        "commandRunId": run,
        "changeId": change,
    }


def contents(sessions: Iterable[JsonObject], decisions: Iterable[JsonObject], now: str) -> dict[str, Json]:
    """``index.json`` from entries in enumeration order."""
    return {
        "schemaVersion": 1,
        "sessions": list(sessions),
        "decisions": list(decisions),
        "locksPath": LOCKS_PATH,
        "updatedAt": now,
    }
