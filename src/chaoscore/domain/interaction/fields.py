"""Typed reading of JSON documents: one function per shape of field, one error that names the key."""

from __future__ import annotations

from collections.abc import Collection

from chaoscore.domain.json import Json, JsonObject, is_array, is_object


class WrongShape(ValueError):
    """A document that is JSON but not what it should be; the text names the key."""


def required_object(value: Json, what: str) -> JsonObject:
    if not is_object(value):
        raise WrongShape(f"{what} must be an object")
    return value


def text(document: JsonObject, key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value:
        raise WrongShape(f"{key!r} must be a non-empty string")
    return value


def choice(document: JsonObject, key: str, allowed: Collection[str]) -> str:
    value = text(document, key)
    if value not in allowed:
        raise WrongShape(f"{key!r} is {value[:80]!r}; known values: {', '.join(sorted(allowed))}")
    return value


def optional_text(document: JsonObject, key: str) -> str | None:
    value = document.get(key)
    if value is not None and not isinstance(value, str):
        raise WrongShape(f"{key!r} must be a string or null")
    return value


def flag(document: JsonObject, key: str) -> bool:
    value = document.get(key, False)
    if not isinstance(value, bool):
        raise WrongShape(f"{key!r} must be true or false")
    return value


def texts(document: JsonObject, key: str) -> tuple[str, ...]:
    """A missing list reads as empty."""
    value = document.get(key, ())
    if not is_array(value):
        raise WrongShape(f"{key!r} must be a list of strings")
    out = []
    for item in value:
        if not isinstance(item, str):
            raise WrongShape(f"{key!r} must be a list of strings")
        out.append(item)
    return tuple(out)


def mapping(document: JsonObject, key: str) -> JsonObject:
    """A missing object reads as empty."""
    value = document.get(key, {})
    if not is_object(value):
        raise WrongShape(f"{key!r} must be an object")
    return value


def rest(document: JsonObject, known: Collection[str]) -> JsonObject:
    """What a document carries beyond the known keys; kept, so that a rewrite loses nothing."""
    return {key: value for key, value in document.items() if key not in known}
