"""JSON as it stands in the files: read exactly or refused, written byte for byte as ``JSON.stringify`` would.

The standard parser is used on purpose: faster ones refuse lone surrogates and round integers beyond 64 bits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from chaoscore.domain.interaction.digest import js_number, js_string
from chaoscore.domain.json import Json, is_array, is_object

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJson(ValueError):
    """Bytes that are not a JSON document; the text says why in a few words and quotes nothing."""


def _refuse_constant(name: str) -> Json:
    raise NotJson(f"it contains {name}, which is not JSON")


def loads(data: bytes) -> Json:
    """Raises ``NotJson``: also for a byte order mark, invalid UTF-8, NaN and nesting that no stack can hold."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise NotJson("it begins with a byte order mark")
    try:
        value: Json = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise NotJson(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotJson("it is empty" if not data.strip() else f"line {error.lineno} is not JSON") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except NotJson:
        raise
    except ValueError:
        raise NotJson("it contains a number with too many digits") from None
    return value


def pretty(value: Json) -> bytes:
    """Two spaces, one trailing newline."""
    text = _spelled(value, "", "\n") if _has_float(value) else json.dumps(value, indent=2, ensure_ascii=False)
    return _utf8(text + "\n")


def line(value: Json) -> bytes:
    """Compact, one trailing newline."""
    if _has_float(value):
        return _utf8(_spelled(value, "", "") + "\n")
    return _utf8(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n")


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text).encode("utf-8")


def _has_float(value: Json) -> bool:
    if isinstance(value, Mapping):
        return any(_has_float(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_has_float(item) for item in value)
    return isinstance(value, float)


def _spelled(value: Json, indent: str, newline: str) -> str:
    """The slow way, for documents with fractions: Python and ECMAScript print some of them differently."""
    if isinstance(value, float):
        return js_number(value)
    if isinstance(value, str):
        return js_string(value)
    inner = indent + "  " if newline else ""
    comma, colon = (f",{newline}{inner}", ": ") if newline else (",", ":")
    if is_object(value):
        if not value:
            return "{}"
        items = comma.join(f"{js_string(key)}{colon}{_spelled(item, inner, newline)}" for key, item in value.items())
        return f"{{{newline}{inner}{items}{newline}{indent}}}"
    if is_array(value):
        if not value:
            return "[]"
        items = comma.join(_spelled(item, inner, newline) for item in value)
        return f"[{newline}{inner}{items}{newline}{indent}]"
    return json.dumps(value)
