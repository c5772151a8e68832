"""Members of nested objects by the keys that lead to them, as values: what both kinds of file are checked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaoscore.domain.json import Json, is_object


class Unreadable(ValueError):
    """A text is not what its client could read, or not what can be edited safely; the message says where and why."""


def at(value: Json, keys: Sequence[str]) -> Json:
    """What the keys lead to, ``None`` where they lead nowhere."""
    for key in keys:
        value = value.get(key) if is_object(value) else None
    return value


def nested(keys: Sequence[str], value: Json) -> Json:
    """``value`` inside objects that have one key each."""
    for key in reversed(keys):
        value = {key: value}
    return value


def with_member(value: Json, keys: Sequence[str], new: Json) -> Json:
    """A copy with ``new`` at the keys; ``None`` takes the member away."""
    if not keys:
        return new
    members = dict(value) if isinstance(value, Mapping) else {}
    if len(keys) == 1 and new is None:
        members.pop(keys[0], None)
    else:
        members[keys[0]] = with_member(members.get(keys[0], {}), keys[1:], new)
    return members
