"""JSON as it stands in the files: read exactly or refused, written byte for byte as ``JSON.stringify`` would.

The standard parser is used on purpose: faster ones refuse lone surrogates and round integers beyond 64 bits.
"""

from __future__ import annotations

import json

from chaoscore.domain.interaction.spelling import compact_text, pretty_text
from chaoscore.domain.json import Json


class NotJson(ValueError):
    """Bytes that are not a JSON document; the text says why in a few words and quotes nothing."""


def _refuse_constant(name: str) -> Json:
    raise NotJson(f"it contains {name}, which is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)  # making one takes longer than parsing a small document


def loads(data: bytes) -> Json:
    """Raises ``NotJson``: also for a byte order mark, invalid UTF-8, NaN and nesting that no stack can hold."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise NotJson("it begins with a byte order mark")
    try:
        value: Json = _DECODER.decode(data.decode("utf-8"))
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
    return (pretty_text(value) + "\n").encode("utf-8")


def line(value: Json) -> bytes:
    """Compact, one trailing newline."""
    return (compact_text(value) + "\n").encode("utf-8")
