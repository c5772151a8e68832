"""The six read-only resources: which body a URI names. Bodies are computed and never written."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs

from chaoscore.app.interaction_ports import DocumentKind, InteractionUnit, SessionFilter
from chaoscore.app.interactions import queries
from chaoscore.app.interactions.heal import heal
from chaoscore.domain.interaction.limits import InteractionLimits
from chaoscore.domain.json import JsonObject, is_object

BASE = "chaos://interactions/"


@dataclass(frozen=True, slots=True)
class ResourceSpec:
    """``uri`` has a ``{variable}`` for a template."""

    uri: str
    name: str
    description: str

    @property
    def is_template(self) -> bool:
        return "{" in self.uri


RESOURCES = (
    ResourceSpec(BASE + "active", "chaos-active-interaction", "What waits for a human now"),
    ResourceSpec(BASE + "locks", "chaos-locks", "Change locks with stale flags, active ones first"),
    ResourceSpec(BASE + "sessions", "chaos-sessions", "Session summaries, the newest 50 first"),
    ResourceSpec(BASE + "sessions/{commandRunId}", "chaos-session", "One session document"),
    ResourceSpec(BASE + "decisions/{decisionId}", "chaos-decision", "One decision and its response"),
    ResourceSpec(BASE + "capsules/{commandRunId}", "chaos-capsule", "One resume capsule"),
)

_DOCUMENTS: dict[str, DocumentKind] = {"sessions": "session", "decisions": "decision", "capsules": "capsule"}


@dataclass(frozen=True, slots=True)
class Target:
    """``kind`` ``active``, ``locks``, ``sessions`` or a document kind with ``name``."""

    kind: str
    name: str | None = None
    limit: int | None = None
    cursor: str | None = None


def parse(uri: str) -> Target | None:
    """``None`` for a URI that is not one of ours."""
    path, _, query = uri.partition("?")
    if path[:8].lower() == "chaos://":
        path = "chaos://" + path[8:]
    if not path.startswith(BASE):
        return None
    parts = path[len(BASE) :].split("/")
    if len(parts) == 2 and parts[0] in _DOCUMENTS and parts[1] and not query:
        return Target(_DOCUMENTS[parts[0]], parts[1])
    if len(parts) != 1 or parts[0] not in ("active", "locks", "sessions"):
        return None
    if not query:
        return Target(parts[0])
    given = parse_qs(query, keep_blank_values=True)
    limit = given.get("limit", [""])[0]
    if parts[0] == "active" or set(given) - {"cursor", "limit"} or (limit and not limit.isascii()):
        return None
    if limit and not limit.isdigit():
        return None
    return Target(parts[0], None, int(limit[:6]) if limit else None, given.get("cursor", [None])[0] or None)


def body(unit: InteractionUnit, target: Target, limits: InteractionLimits) -> JsonObject:
    """Raises ``ChaosError``s for files that cannot be read."""
    size = min(max(target.limit or limits.page_default, 1), limits.page_max)
    if target.name is None:
        heal(unit)
    if target.kind == "active":
        return queries.active_body(unit)
    if target.kind == "locks":
        return queries.locks_body(unit, size, target.cursor)
    if target.kind == "sessions" and target.name is None:
        return queries.sessions_body(unit.find_sessions(SessionFilter(), size, target.cursor))
    kind = _DOCUMENTS[target.kind + "s"]
    found = queries.document_body(unit, kind, target.name or "")
    if found is None:
        return {"status": "NOT_FOUND", "message": f"there is no {target.kind} {(target.name or '')[:160]!r}"}
    return found if is_object(found) else {"status": "ERROR", "message": f"the {target.kind} is not a JSON object"}
