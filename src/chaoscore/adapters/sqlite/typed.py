"""Values out of a row, as what they must be, or ``Malformed``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from chaoscore.domain.json import JsonObject

C = TypeVar("C", bound=str)


class Malformed(ValueError):
    """A row, or a part of one, that is not what was written."""


def a_text(value: object) -> str:
    if not isinstance(value, str):
        raise Malformed(f"{type(value).__name__} stands where text must")
    return value


def a_text_or_none(value: object) -> str | None:
    return None if value is None else a_text(value)


def some_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise Malformed("a list is missing")
    return tuple(a_text(element) for element in value)


def an_integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Malformed(f"{type(value).__name__} stands where an integer must")
    return value


def a_number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise Malformed(f"{type(value).__name__} stands where a number must")
    return value


def an_object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise Malformed(f"{type(value).__name__} stands where an object must")
    return value


def one_of(value: object, choices: Sequence[C]) -> C:
    for choice in choices:
        if choice == value:
            return choice
    raise Malformed(f"{value!r} is not one of {', '.join(choices)}"[:200])
