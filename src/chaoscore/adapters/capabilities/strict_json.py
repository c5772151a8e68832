"""JSON from outside, read so that every part of the system can hold it: bounded depth, finite numbers, whole text.

The capabilities that read foreign text stand above it. Python's own reader accepts more than JSON (NaN), turns 1e999
into an infinity, and lets through halves of surrogate pairs that no UTF-8 writer can write.
"""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

from chaoscore.domain.json import NUMBER_BITS_MAX, Json

DEPTH_MAX = 64
_HALF = re.compile("[\ud800-\udfff]")


def parse_json(text: str) -> Json:
    """The value of a JSON text; half surrogate pairs become U+FFFD. Raises ``ValueError`` for everything that is not
    JSON, for numbers that are not finite, and for values nested deeper than 64 levels."""
    try:
        value: Json = json.loads(text, parse_float=_finite, parse_int=_bounded, parse_constant=_not_json)
    except RecursionError:
        raise ValueError(f"nested deeper than {DEPTH_MAX} levels") from None
    return _checked(value, 0)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number that is too large")
    return number


def _bounded(digits: str) -> int:
    number = int(digits)
    if number.bit_length() > NUMBER_BITS_MAX:
        raise ValueError("an integer that is too large")
    return number


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _checked(value: Json, depth: int) -> Json:
    if depth > DEPTH_MAX:
        raise ValueError(f"nested deeper than {DEPTH_MAX} levels")
    if isinstance(value, str):
        return _whole(value)
    if isinstance(value, dict):
        return {_whole(key): _checked(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list):
        return [_checked(element, depth + 1) for element in value]
    return value


def _whole(text: str) -> str:
    # Encoding is far faster than searching, and nearly every text passes.
    try:
        text.encode()
    except UnicodeEncodeError:
        return _HALF.sub("\ufffd", text)
    return text
