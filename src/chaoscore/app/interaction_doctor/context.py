"""What every probe gets: the evidence, the survey of it, the time, and what the operator wants."""

from __future__ import annotations

from dataclasses import dataclass

from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.app.interaction_doctor.evidence import Evidence
from chaoscore.app.interaction_doctor.report import Summary
from chaoscore.app.interaction_doctor.survey import Survey
from chaoscore.domain.interaction.names import instant_ms

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """``lease_grace_ms``: how long after its lease a silent runner still counts as alive. ``copyable`` makes the
    commands that findings suggest."""

    stale_decision_hours: float = 24.0
    stale_lock_hours: float = 24.0
    lease_grace_ms: int = 30_000
    todos: bool = True
    validate: bool = True
    commands_enabled: bool = True
    copyable: Copyable = PLAIN


@dataclass(frozen=True, slots=True)
class Context:
    evidence: Evidence
    survey: Survey
    summary: Summary
    options: DoctorOptions
    now_ms: int

    def hours_since(self, instant: str) -> float:
        """0 for what is no instant, or lies ahead."""
        at = instant_ms(instant)
        return max(0.0, (self.now_ms - at) / HOUR_MS) if at is not None else 0.0
