"""What can go wrong in the decision runtime; codes are those of the shared format, plus the storage codes of ours.

ChaosError
├── MalformedState        a file is there and cannot be understood; kept as it is     MALFORMED_STATE
├── SchemaViolation       a document would break a schema; nothing was written       SCHEMA_VALIDATION_ERROR
├── SessionTerminal       the run is over                                            SESSION_TERMINAL
├── DecisionNotAnswerable the decision does not wait                                 DECISION_NOT_ANSWERABLE
├── SessionNotResumable   the run is not ready to resume                             SESSION_NOT_RESUMABLE
├── ChangeLocked          another run holds the change                               CHANGE_LOCKED
├── TooLarge              a documented bound in bytes                                TOO_LARGE
├── RuntimeBusy           somebody else holds the write lock                         RUNTIME_BUSY
├── KernelSession         it stands for a run of the kernel, which alone writes it   KERNEL_SESSION
├── BridgeOff             the operator switched chaos_answer_decision off            ANSWER_BRIDGE_OFF
└── IllegalTransition (domain.errors)                                                INVALID_STATE_TRANSITION
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoscore.domain.errors import Busy, ChaosError, Conflict, IllegalTransition, LimitExceeded
from chaoscore.domain.json import Json


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken schema rule. ``path`` is ``""`` for the root, else ``a.b`` or ``a[0].b``."""

    path: str
    message: str

    def to_json(self) -> dict[str, Json]:
        return {"path": self.path, "message": self.message}


class MalformedState(ChaosError):
    """``details['path']`` is relative to the interactions root. The file is never overwritten."""

    code = "MALFORMED_STATE"


class SchemaViolation(ChaosError):
    """``violations`` says where and why; the document was not written."""

    code = "SCHEMA_VALIDATION_ERROR"

    def __init__(self, label: str, violations: Sequence[Violation]) -> None:
        first = violations[0]
        where = f"at {first.path!r} " if first.path else ""
        super().__init__(
            f"{label} does not follow its schema: {where}{first.message}; change that value and call again"
        )
        self.violations = tuple(violations)


class SessionTerminal(ChaosError):
    code = "SESSION_TERMINAL"


class DecisionNotAnswerable(ChaosError):
    code = "DECISION_NOT_ANSWERABLE"


class SessionNotResumable(ChaosError):
    code = "SESSION_NOT_RESUMABLE"


class ChangeLocked(Conflict):
    code = "CHANGE_LOCKED"


class TooLarge(LimitExceeded):
    code = "TOO_LARGE"


class RuntimeBusy(Busy):
    code = "RUNTIME_BUSY"


class KernelSession(ChaosError):
    code = "KERNEL_SESSION"


class BridgeOff(ChaosError):
    code = "ANSWER_BRIDGE_OFF"


def illegal(kind: str, name: str, before: str, after: str) -> IllegalTransition:
    return IllegalTransition(
        f"{kind} {name!r} is {before!r} and cannot become {after!r}; look at its state first",
        code="INVALID_STATE_TRANSITION",
    )
