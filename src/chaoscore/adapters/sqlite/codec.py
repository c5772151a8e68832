"""JSON text as rows hold it: exact both ways, and fast where that costs nothing.

``orjson`` is several times faster than the standard library, but it writes NaN as ``null``, refuses lone surrogates and
integers beyond 64 bits, and reads such integers as floats. What it cannot keep exactly is written by the standard
library with a leading blank, which is how the reader knows which of the two to use.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import NoReturn, cast

import orjson

from chaoscore.domain.json import Json, JsonObject, is_object

_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_SEPARATORS = (",", ":")


class MalformedText(ValueError):
    """Text in a row that is not the JSON it should be."""


def encode(value: Json) -> str:
    """One line of JSON text. Raises ``ValueError`` for NaN and infinities, ``TypeError`` for what is not JSON."""
    try:
        raw = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return " " + _standard(value)
    if b"null" in raw and _has_no_number(value):
        raise ValueError("NaN and infinities are not JSON numbers")
    return raw.decode("utf-8")


def encode_fact(value: Json) -> str:
    """As ``encode``, for what the system itself says in its audit: twice as fast, because a NaN, which it never says,
    would become ``null`` instead of an error."""
    try:
        return orjson.dumps(value, option=_OPTIONS).decode("utf-8")
    except TypeError:
        return " " + _standard(value)


def decode(text: object) -> Json:
    """Inverse of ``encode``. Raises ``MalformedText`` for anything else."""
    if not isinstance(text, str):
        raise MalformedText(f"{type(text).__name__} instead of JSON text")
    try:
        if text[:1] == " ":
            return cast("Json", json.loads(text, parse_constant=_refuse))
        return cast("Json", orjson.loads(text))
    except (ValueError, RecursionError):
        raise MalformedText("not JSON") from None


def decode_object(text: object) -> JsonObject:
    value = decode(text)
    if not is_object(value):
        raise MalformedText("not a JSON object")
    return value


def _has_no_number(value: Json) -> bool:
    """Whether a float in ``value`` is NaN or an infinity. Only asked about what ``orjson`` could write."""
    text = repr(value)  # in C and so much faster than a walk; most values have neither piece anywhere
    if "nan" not in text and "inf" not in text:
        return False
    open_values = [value]
    while open_values:
        at = open_values.pop()
        if isinstance(at, float):
            if not isfinite(at):
                return True
        elif isinstance(at, dict):
            open_values.extend(at.values())
        elif isinstance(at, list | tuple):
            open_values.extend(at)
    return False


def _standard(value: Json) -> str:
    try:
        return json.dumps(value, separators=_SEPARATORS, ensure_ascii=True, allow_nan=False)
    except RecursionError:
        raise ValueError("the value is nested too deeply to be written as JSON") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
