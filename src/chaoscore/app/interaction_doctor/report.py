"""What the doctor answers: findings, the summary, the overall status, and todos somebody may plan. Keys are the shared
contract's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from chaoscore.domain.json import Json

Severity = Literal["OK", "INFO", "WARN", "ERROR", "BLOCKER"]
SEVERITIES: Final[tuple[Severity, ...]] = ("OK", "INFO", "WARN", "ERROR", "BLOCKER")
Status = Literal["healthy", "degraded", "blocked"]


@dataclass(frozen=True, slots=True)
class Todo:
    """Work that a finding suggests."""

    title: str
    artifact: str
    source_ids: tuple[str, ...]
    kind: str
    priority: Literal["BLOCKER", "HIGH", "MEDIUM", "LOW"]
    next_action: str
    closes_when: tuple[str, ...]
    command: str | None = None

    def to_json(self) -> dict[str, Json]:
        out: dict[str, Json] = {
            "title": self.title,
            "sourceArtifactPath": self.artifact,
            "sourceIds": list(self.source_ids),
            "sourceKind": self.kind,
            "recommendedPriority": self.priority,
            "target": "interaction-runtime",
            "type": "repair",
            "scope": "repository",
            "nextAction": self.next_action,
        }
        if self.command is not None:
            out["recommendedCommand"] = self.command
        return {
            **out,
            "closureCriteria": list(self.closes_when),
            "knowledgeType": "FACT",
            "confidence": "HIGH",
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """``evidence`` and ``artifacts`` are paths, relative to the repository where possible."""

    id: str
    severity: Severity
    category: str
    title: str
    message: str
    evidence: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    todo: Todo | None = None
    confidence: Literal["HIGH", "MEDIUM", "LOW"] = "HIGH"

    @property
    def rank(self) -> int:
        return SEVERITIES.index(self.severity)

    def to_json(self) -> dict[str, Json]:
        out: dict[str, Json] = {
            "id": self.id,
            "severity": self.severity,
            "category": self.category,
            "title": self.title,
            "message": self.message,
            "evidence": list(self.evidence),
            "affectedArtifacts": list(self.artifacts),
            "recommendedActions": list(self.actions),
        }
        if self.todo is not None:
            out["todoCandidate"] = self.todo.to_json()
        return {**out, "confidence": self.confidence}


@dataclass(slots=True)
class Summary:
    pending_decisions: int = 0
    ready_sessions: int = 0
    stale_locks: int = 0
    expired_leases: int = 0
    malformed: int = 0

    def to_json(self, blocking: int) -> dict[str, Json]:
        return {
            "pendingDecisions": self.pending_decisions,
            "readyToResumeSessions": self.ready_sessions,
            "staleLocks": self.stale_locks,
            "expiredRunnerLeases": self.expired_leases,
            "malformedArtifacts": self.malformed,
            "blockingFindings": blocking,
        }


@dataclass(frozen=True, slots=True)
class Report:
    generated_at: str
    repository: str
    root: str
    findings: tuple[Finding, ...]
    summary: Summary = field(default_factory=Summary)
    with_todos: bool = True

    @property
    def status(self) -> Status:
        worst = max((finding.rank for finding in self.findings), default=0)
        return "blocked" if worst == 4 else "degraded" if worst >= 2 else "healthy"

    @property
    def todos(self) -> Sequence[Todo]:
        return [finding.todo for finding in self.findings if finding.todo is not None] if self.with_todos else []

    def to_json(self) -> dict[str, Json]:
        blocking = sum(1 for finding in self.findings if finding.severity == "BLOCKER")
        return {
            "generatedAt": self.generated_at,
            "repositoryRoot": self.repository,
            "interactionsRoot": self.root,
            "overallStatus": self.status,
            "summary": self.summary.to_json(blocking),
            "findings": [finding.to_json() for finding in self.findings],
            "todoCandidates": [todo.to_json() for todo in self.todos],
        }
