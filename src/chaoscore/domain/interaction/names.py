"""Ids, slugs, commands, relative paths and instants, as they stand in files (all comparisons go through here)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:-]*$"
ID_CHARS_MAX = 160
OPTION_ID_CHARS_MAX = 120
KERNEL_RUN = "RUN-chaoscore-"
"""Sessions that stand for runs of the kernel; only the kernel writes them."""
EPOCH_TEXT = "1970-01-01T00:00:00.000Z"
LOCKS_PATH = "locks.json"
ACTIVE_PATH = "active.json"
INDEX_PATH = "index.json"
AUDIT_PATH = "audit.jsonl"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*\Z")
_NOT_SLUG = re.compile(r"[^a-z0-9]+")
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


def is_id(value: str) -> bool:
    """Whether ``value`` may name a document; only such values ever touch a path."""
    return len(value) <= ID_CHARS_MAX and _ID.match(value) is not None


def is_kernel_run(run: str | None) -> bool:
    return run is not None and run.startswith(KERNEL_RUN)


def reads_as_kernel_run(run: str | None) -> bool:
    """Also where only letter case or blanks around it differ: neither people nor every file system tell those apart."""
    return run is not None and run.strip().casefold().startswith(KERNEL_RUN.casefold())


def slug(value: str, chars_max: int = 40) -> str:
    return _NOT_SLUG.sub("-", value.lower()).strip("-")[:chars_max].rstrip("-") or "x"


def command_token(command: str) -> str:
    """What two commands are compared by: the first word, lower-case."""
    words = command.split()
    return words[0].lower() if words else ""


def instant_text(now_ms: int) -> str:
    """``YYYY-MM-DDTHH:MM:SS.mmmZ``."""
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=now_ms)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def instant_ms(value: str | None) -> int | None:
    """Milliseconds since the epoch, ``None`` for nothing and for what is not an instant (``2026-99-99…``)."""
    match = _DATE_TIME.match(value) if value is not None else None
    if match is None:
        return None
    fraction = (match[2] or ".0")[1:7].ljust(6, "0")
    try:
        at = datetime.fromisoformat(f"{match[1]}.{fraction}{'+00:00' if match[3] == 'Z' else match[3]}")
        return (at - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def has_passed(expires_at: str | None, now_ms: int) -> bool:
    at = instant_ms(expires_at)
    return at is not None and at <= now_ms


def run_id(date: str, source_command: str, change_id: str | None, random_hex: str) -> str:
    parts = ["RUN", date, slug(source_command), *([slug(change_id)] if change_id else []), random_hex]
    return "-".join(parts)


def decision_id(date: str, subject: str, title: str, random_hex: str) -> str:
    return f"DEC-{date}-{slug(subject)}-{slug(title, 24)}-{random_hex}"


def lock_id(date: str, change_id: str, random_hex: str) -> str:
    return f"LOCK-{date}-{slug(change_id)}-{random_hex}"


def event_id(date: str, random_hex: str) -> str:
    return f"EVT-{date}-{random_hex}"


def session_path(run: str) -> str:
    return f"sessions/{run}.json"


def decision_path(decision: str) -> str:
    return f"decisions/{decision}/decision.json"


def response_path(decision: str) -> str:
    return f"decisions/{decision}/response.json"


def capsule_path(run: str) -> str:
    return f"capsules/{run}.json"
