"""Our own facts inside shared documents: in ``metadata.chaosCore`` and nowhere else, as peers refuse unknown keys."""

from __future__ import annotations

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json, JsonObject, is_object

MARK = "chaosCore"


def marks(metadata: JsonObject) -> JsonObject:
    found = metadata.get(MARK)
    return found if is_object(found) else {}


def marked(metadata: JsonObject, **facts: Json) -> dict[str, Json]:
    """``metadata`` with our facts added; facts that are ``None`` are left out."""
    ours = {**marks(metadata), **{key: value for key, value in facts.items() if value is not None}}
    return {**metadata, MARK: ours} if ours else dict(metadata)


def require_unmarked(metadata: JsonObject) -> None:
    """A caller may not write our facts. Raises ``InvalidInput``."""
    if MARK in metadata:
        raise InvalidInput(f"metadata: the key {MARK!r} is reserved; use another name", key=f"metadata.{MARK}")
