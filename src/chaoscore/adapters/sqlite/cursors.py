"""Opaque cursors: where a list goes on, bound to the question that it continues.

A cursor grants nothing; it is checked so that one that was cut short, made up, or taken from another list is an error
and not a wrong page.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence

from chaoscore.adapters.sqlite.codec import MalformedText, decode, encode
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json, is_array

CURSOR_CHARS_MAX = 400
_MARK_BYTES = 6


def make_cursor(question: Json, place: Sequence[Json]) -> str:
    """``question`` is what was asked, ``place`` where its answer goes on."""
    text = encode(list(place)).encode("utf-8")
    return base64.urlsafe_b64encode(_mark(question, text) + text).decode("ascii").rstrip("=")


def read_cursor(question: Json, cursor: str) -> Sequence[Json]:
    """The place. Raises ``InvalidInput`` for a cursor that is not one of ours for this question."""
    try:
        if len(cursor) > CURSOR_CHARS_MAX:
            raise ValueError
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        mark, text = raw[:_MARK_BYTES], raw[_MARK_BYTES:]
        place = decode(text.decode("utf-8"))
        if mark != _mark(question, text) or not is_array(place):
            raise ValueError
        return place
    except (ValueError, binascii.Error, MalformedText):
        raise InvalidInput(
            f"cursor {cursor[:60]!r} does not continue this list; take the one that the last page of it gave, "
            "or leave it out to begin",
            key="cursor",
        ) from None


def _mark(question: Json, text: bytes) -> bytes:
    return hashlib.sha256(encode(question).encode("utf-8") + b"\n" + text).digest()[:_MARK_BYTES]
