"""JSON as it stands in the files: read exactly or refused, written byte for byte as ``JSON.stringify`` would.

The standard parser is used on purpose: faster ones refuse lone surrogates and round integers beyond 64 bits.
"""

from __future__ import annotations

import json

from chaoscore.domain.interaction.spelling import compact_text, pretty_text
from chaoscore.domain.json import DuplicateKey, Json, unique_keys


class NotJson(ValueError):
    """Bytes that are not a JSON document; the text says why in a few words and quotes nothing."""


def _refuse_constant(name: str) -> Json:
    raise NotJson(f"it contains {name}, which is not JSON")


# Making one takes longer than parsing a small document.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_UNIQUE_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=unique_keys)


def loads(data: bytes, unique: bool = False) -> Json:
    """Raises ``NotJson``: also for a byte order mark, invalid UTF-8, NaN and nesting that no stack can hold, and with
    ``unique`` for a key that stands twice in an object (reading takes half as long again: a call for each object)."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise NotJson("it begins with a byte order mark")
    try:
        value: Json = (_UNIQUE_DECODER if unique else _DECODER).decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotJson(f"byte {error.start} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotJson("it is empty" if not data.strip() else f"line {error.lineno} is not JSON") from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except NotJson:
        raise
    except DuplicateKey:
        raise NotJson("an object in it has a key twice, and programs differ in which one counts") from None
    except ValueError:
        raise NotJson("it contains a number with too many digits") from None
    return value


def pretty(value: Json) -> bytes:
    """Two spaces, one trailing newline."""
    return (pretty_text(value) + "\n").encode("utf-8")


def line(value: Json) -> bytes:
    """Compact, one trailing newline."""
    return (compact_text(value) + "\n").encode("utf-8")
