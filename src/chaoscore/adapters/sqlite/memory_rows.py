"""Rows of memories as values, and back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import get_args

from chaoscore.adapters.sqlite.codec import decode
from chaoscore.adapters.sqlite.rows import Row, malformed
from chaoscore.adapters.sqlite.search_text import searched_text
from chaoscore.adapters.sqlite.typed import Malformed
from chaoscore.domain.json import is_array
from chaoscore.domain.memory import Kind, Memory

log = logging.getLogger(__name__)

COLUMNS = (
    "key, value, tags, version, created_at, updated_at, expires_at, kind, source, trust, episode, valid_from, valid_to"
)
_KINDS: tuple[Kind, ...] = get_args(Kind)


def memory_of(row: Row) -> Memory:
    """Of ``COLUMNS``. Raises ``StorageError`` (STORE_CORRUPT) naming the key."""
    key, value, tags, version, created, updated, expires, kind, source, trust, episode, begins, ends = row
    try:
        if not isinstance(key, str) or not isinstance(source, str) or not isinstance(trust, str):
            raise Malformed("a name is not text")
        if not isinstance(version, int) or kind not in _KINDS:
            raise Malformed("its version or kind is none")
        if not isinstance(created, float) or not isinstance(updated, float):
            raise Malformed("it has no times")
        return Memory(
            key=key,
            value=decode(value),
            tags=tags_of(tags),
            version=version,
            created_at=created,
            updated_at=updated,
            expires_at=_time(expires),
            kind=kind,
            source=source,
            trust=trust,
            episode=episode if isinstance(episode, str) else None,
            valid_from=_time(begins),
            valid_to=_time(ends),
        )
    except ValueError as problem:
        raise malformed("memory", str(key), problem) from None


def tags_of(text: object) -> tuple[str, ...]:
    """Raises ``ValueError``."""
    if text == "[]":
        return ()
    raw = decode(text)
    if not is_array(raw):
        raise Malformed("its tags are no list")
    if not all(isinstance(tag, str) for tag in raw):
        raise Malformed("a tag is not text")
    return tuple(str(tag) for tag in raw)


def text_of(row: Row) -> tuple[tuple[str, ...], str]:
    """Tags and ``searched_text`` of a row that begins with {key, value, tags}; empty for what cannot be read."""
    key, value, tags = row[:3]
    if not isinstance(key, str) or not isinstance(value, str):
        return (), ""
    try:
        named = tags_of(tags)
    except ValueError:
        named = ()
    return named, searched_text(key, named, value)


def readable(rows: Sequence[Row]) -> list[Memory]:
    """Those that can be read; the others are told to the log by their keys, and stay."""
    from chaoscore.domain.errors import StorageError

    memories = []
    for row in rows:
        try:
            memories.append(memory_of(row))
        except StorageError as problem:
            log.warning("%s", problem.message)
    return memories


def _time(value: object) -> float | None:
    if value is None or isinstance(value, float):
        return value
    raise Malformed("a time is not a number")
