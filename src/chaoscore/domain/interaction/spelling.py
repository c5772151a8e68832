"""JSON text as ``JSON.stringify`` writes it: what every peer of the shared folder and every client of the tools reads.

Two things set it apart from the standard writer: numbers with a fraction, which Python and ECMAScript print
differently, and lone surrogates, which are escaped so that the text is valid UTF-8. Indented text is written here and
not by ``json.dumps``, which takes twice as long for it.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring as _quoted

from chaoscore.domain.interaction.digest import js_number
from chaoscore.domain.json import Json, is_array, is_object

_SURROGATE = re.compile("[\ud800-\udfff]")


def pretty_text(value: Json) -> str:
    """Over several lines with an indent of two spaces, without a newline at the end."""
    return _escaped(_spelled(value, "\n  ", ": ", "  "))


def compact_text(value: Json) -> str:
    """On one line without spaces."""
    return _escaped(_spelled(value, "", ":", ""))


def _escaped(text: str) -> str:
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _spelled(value: Json, before: str, colon: str, step: str) -> str:
    """``before`` is what stands before a member of this value: nothing, or a newline and its indent."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return _quoted(value)
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return js_number(value)
    if isinstance(value, dict) or is_object(value):
        if not value:
            return "{}"
        inner = before + step
        items = f",{before}".join(
            [f"{_quoted(key)}{colon}{_spelled(item, inner, colon, step)}" for key, item in value.items()]
        )
        return f"{{{before}{items}{before[: -len(step)] if step else ''}}}"
    if not is_array(value):
        raise TypeError(f"{type(value).__name__} is not JSON")
    if not value:
        return "[]"
    inner = before + step
    items = f",{before}".join([_spelled(item, inner, colon, step) for item in value])
    return f"[{before}{items}{before[: -len(step)] if step else ''}]"
