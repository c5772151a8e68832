"""Settings of ``chaoscore doctor``: flags, then the environment, then defaults. The variables are the original's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaoscore.domain.errors import ConfigurationInvalid

HOURS_MAX = 1_000_000.0
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class DoctorSettings:
    """Hours after which something counts as stale, and how long after its lease a runner may be silent."""

    stale_decision_hours: float = 24.0
    stale_lock_hours: float = 24.0
    lease_grace_ms: int = 30_000
    commands_enabled: bool = True


def load_doctor_settings(flags: Mapping[str, str | None], environ: Mapping[str, str]) -> DoctorSettings:
    """``flags`` by their names without dashes. Raises ``ConfigurationInvalid`` naming the flag or variable."""

    def number(flag: str, variable: str, default: float) -> float:
        for text, name in ((flags.get(flag), f"--{flag}"), (environ.get(variable), variable)):
            if not text:
                continue
            try:
                value = float(text)
            except ValueError:
                value = -1.0
            if not 0 <= value <= HOURS_MAX * 3_600_000:
                raise ConfigurationInvalid(f"{name}: {text[:40]!r} is not a number from 0 upwards", variable=name)
            return value
        return default

    enabled = environ.get("CHAOS_IR_COMMANDS_ENABLED", "").strip().lower()
    if enabled and enabled not in (*_TRUE, *_FALSE):
        raise ConfigurationInvalid(
            f"CHAOS_IR_COMMANDS_ENABLED: {enabled[:40]!r} is neither true nor false",
            variable="CHAOS_IR_COMMANDS_ENABLED",
        )
    return DoctorSettings(
        number("stale-decision-age-hours", "CHAOS_IR_STALE_DECISION_AGE_HOURS", 24.0),
        number("stale-lock-age-hours", "CHAOS_IR_STALE_LOCK_AGE_HOURS", 24.0),
        int(number("expired-runner-lease-grace-ms", "CHAOS_IR_LEASE_GRACE_MS", 30_000)),
        enabled not in _FALSE,
    )
