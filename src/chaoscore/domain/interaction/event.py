"""Audit lines of the shared folder: what happened, in the order it happened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from chaoscore.domain.json import Json, JsonObject

EVENT_TYPES: Final = frozenset(
    {
        "session-created", "command-started", "decision-created", "decision-answered", "decision-cancelled",
        "decision-expired", "decision-consumed", "capsule-created", "lock-acquired", "lock-released",
        "command-completed", "command-cancelled", "command-failed", "auto-resume-started", "auto-resume-stopped",
        "runtime-warning",
    }
)  # fmt: skip

_AUDIT_SOURCE = {
    "vscode-decision-center": "vscode-decision-center",
    "mcp-tool": "mcp",
    "manual-file": "manual",
    "prompt-fallback": "chaos-command",
}


def audit_source(response_source: str) -> str:
    return _AUDIT_SOURCE.get(response_source, "unknown")


@dataclass(frozen=True, slots=True)
class Event:
    """A fact before it has its id and time. Our own kinds are ``runtime-warning`` with ``data.kind``."""

    kind: str
    message: str
    run: str | None = None
    decision: str | None = None
    change: str | None = None
    actor: str | None = None
    source: str = "chaos-command"
    data: JsonObject = field(default_factory=dict)

    def to_json(self, event_id: str, timestamp: str) -> dict[str, Json]:
        return {
            "schemaVersion": 1,
            "eventId": event_id,
            "eventType": self.kind,
            "commandRunId": self.run,
            "decisionId": self.decision,
            "changeId": self.change,
            "timestamp": timestamp,
            "actor": self.actor,
            "source": self.source,
            "message": self.message,
            "data": dict(self.data),
        }
