"""The state machines as tables. An event that is not listed changes nothing and raises one named error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chaoscore.domain.interaction.errors import illegal

Table = Mapping[str, frozenset[str]]

SESSION: Final[Table] = {
    "created": frozenset({"running", "cancelled", "failed", "expired"}),
    "running": frozenset({"waiting-for-decision", "completed", "failed", "cancelled"}),
    "waiting-for-decision": frozenset({"ready-to-resume", "cancelled", "expired", "failed"}),
    "ready-to-resume": frozenset({"resumed", "completed", "cancelled", "expired", "failed"}),
    "resumed": frozenset({"running", "completed", "failed", "cancelled"}),
    "completed": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
    "failed": frozenset(),
}

DECISION: Final[Table] = {
    "created": frozenset({"waiting", "cancelled", "superseded"}),
    "waiting": frozenset({"answered", "cancelled", "expired", "superseded"}),
    "answered": frozenset({"consumed", "superseded"}),
    "consumed": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
    "superseded": frozenset(),
}

LOCK: Final[Table] = {
    "active": frozenset({"released", "expired"}),
    "released": frozenset(),
    "expired": frozenset(),
    "stale": frozenset(),
}

SESSION_TERMINAL: Final = frozenset({"completed", "cancelled", "expired", "failed"})
DECISION_TERMINAL: Final = frozenset({"consumed", "cancelled", "expired", "superseded"})
UNFINISHED_SESSIONS: Final = frozenset(SESSION) - SESSION_TERMINAL

INTERACTION_TYPES: Final = frozenset(
    {"single-choice-decision", "multi-choice-decision", "confirmation", "freeform-input"}
)
ADAPTERS: Final = frozenset({"claude", "copilot", "unknown"})
MODES: Final = frozenset({"light", "standard", "strict"})
SOURCES: Final = frozenset({"vscode-decision-center", "prompt-fallback", "mcp-tool", "manual-file", "unknown"})
LOCK_REASONS: Final = frozenset(
    {"waiting-for-user-decision", "ready-to-resume", "command-running", "manual-hold", "unknown"}
)
COMPATIBLE_COMMANDS: Final = ("chaos:doctor", "chaos:help", "chaos:resume")
COMPLETION_MODES: Final = frozenset({"normal-resumed-execution", "administrative-terminalization", "manual"})


def allows(table: Table, before: str, after: str) -> bool:
    """Staying where one is is always allowed."""
    return before == after or after in table.get(before, frozenset())


def require(table: Table, kind: str, name: str, before: str, after: str) -> None:
    """Raises ``IllegalTransition`` (INVALID_STATE_TRANSITION)."""
    if not allows(table, before, after):
        raise illegal(kind, name, before, after)
