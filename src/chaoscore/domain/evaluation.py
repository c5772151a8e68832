"""Judging a run from recorded facts alone: no model is asked whether it succeeded (law 6). spec §2 `expect`, §5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from chaoscore.domain.json import Json, MissingPath, brief, equal, is_array, is_object, resolve_pointer, type_name

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "exists", "absent", "type", "length"]
OPERATORS: tuple[Operator, ...] = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "in",
    "contains",
    "exists",
    "absent",
    "type",
    "length",
)
TYPE_NAMES = ("null", "boolean", "integer", "number", "string", "array", "object")
Outcome = Literal["achieved", "partial", "failed", "blocked"]


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation on a step's output. ``every`` applies it to each element of the array found at ``path``."""

    path: str
    op: Operator
    value: Json = None
    every: bool = False

    def to_json(self) -> dict[str, Json]:
        out: dict[str, Json] = {"path": self.path, "op": self.op}
        if self.op not in ("exists", "absent"):
            out["value"] = self.value
        if self.every:
            out["every"] = True
        return out


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: Check
    passed: bool
    reason: str


def apply_check(check: Check, output: Json) -> CheckResult:
    """Total: a missing path fails (except ``absent``), a type that cannot be compared fails."""
    try:
        found = resolve_pointer(output, check.path)
    except (MissingPath, ValueError):
        if check.op == "absent":
            return CheckResult(check, True, f"{check.path!r} is absent")
        return CheckResult(check, False, f"{check.path!r} is missing from the output")
    if check.op == "absent":
        return CheckResult(check, False, f"{check.path!r} is present")
    if check.every:
        if not is_array(found):
            return CheckResult(check, False, f"{check.path!r} is {type_name(found)}, not an array")
        for index, element in enumerate(found):
            if not _holds(check.op, element, check.value):
                return CheckResult(check, False, f"{check.path}/{index} does not satisfy {_say(check)}")
        return CheckResult(check, True, f"all {len(found)} elements of {check.path!r} satisfy {_say(check)}")
    passed = _holds(check.op, found, check.value)
    verb = "satisfies" if passed else "does not satisfy"
    return CheckResult(check, passed, f"{check.path!r} {verb} {_say(check)}")


def apply_checks(checks: Sequence[Check], output: Json) -> tuple[CheckResult, ...]:
    return tuple(apply_check(check, output) for check in checks)


def _say(check: Check) -> str:
    return check.op if check.op == "exists" else f"{check.op} {brief(check.value)}"


def _holds(op: Operator, found: Json, value: Json) -> bool:
    match op:
        case "exists":
            return True
        case "absent":
            return False
        case "eq":
            return equal(found, value)
        case "ne":
            return not equal(found, value)
        case "lt" | "le" | "gt" | "ge":
            return _ordered(op, found, value)
        case "in":
            return is_array(value) and any(equal(found, candidate) for candidate in value)
        case "contains":
            if isinstance(found, str):
                return isinstance(value, str) and value in found
            if is_object(found):
                return isinstance(value, str) and value in found
            return is_array(found) and any(equal(element, value) for element in found)
        case "type":
            actual = type_name(found)
            return actual == value or (value == "number" and actual == "integer")
        case "length":
            return (
                isinstance(found, str | Sequence | Mapping)
                and not isinstance(value, bool)
                and isinstance(value, int | float)
                and len(found) == value
            )


def _ordered(op: Operator, found: Json, value: Json) -> bool:
    numbers = (
        isinstance(found, int | float)
        and isinstance(value, int | float)
        and not isinstance(found, bool)
        and not isinstance(value, bool)
    )
    if not numbers and not (isinstance(found, str) and isinstance(value, str)):
        return False
    left, right = found, value
    if op == "lt":
        return left < right  # type: ignore[operator]
    if op == "le":
        return left <= right  # type: ignore[operator]
    if op == "gt":
        return left > right  # type: ignore[operator]
    return left >= right  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class StepReason:
    """Why a step counts as it does."""

    step: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The verdict on a run. ``checks`` counts expectations applied, ``counts`` steps by state."""

    outcome: Outcome
    counts: dict[str, int]
    checks: int
    checks_failed: int
    reasons: tuple[StepReason, ...]

    def to_json(self) -> dict[str, Json]:
        return {
            "outcome": self.outcome,
            "counts": dict(self.counts),
            "checks": self.checks,
            "checks_failed": self.checks_failed,
            "reasons": [{"step": r.step, "state": r.state, "reason": r.reason} for r in self.reasons],
        }
