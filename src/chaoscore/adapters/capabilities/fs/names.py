"""Which names are never touched, whatever folder they are in. Pure rules over the components of a path.

``confine`` stands above it. Names are compared as a case-insensitive file system would: without case, in one Unicode
form, without characters that some file systems ignore. So a name may be refused that this machine would hold apart;
that costs nothing, the opposite would.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

TEMPORARY_PREFIX = ".chaoscore-"
TEMPORARY_SUFFIX = ".tmp"
NAME_BYTES_MAX = 255
PATH_CHARS_MAX = 4_096
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def folded(name: str) -> str:
    """A name as a forgiving file system reads it: NFKC, no case, no ignorable characters, no final dots or spaces."""
    if name.isascii():
        text = name.lower()
    else:
        text = unicodedata.normalize("NFKC", name)
        text = "".join(c for c in text if unicodedata.category(c) != "Cf" and not 0xFE00 <= ord(c) <= 0xFE0F)
        text = unicodedata.normalize("NFKC", text.casefold())
    # A stream name after ':' is the same file on Windows shares.
    return text.partition(":")[0].rstrip(". ")


def protected_name(names: Sequence[str]) -> str | None:
    """What makes this path one that is never touched, ``None`` when nothing does. ``names`` are its components."""
    before = ""
    for name in names:
        plain = folded(name)
        if plain == ".git" or plain == "git~1":
            return "a git repository's own folder"
        if plain.startswith(".env"):
            return "an environment file"
        if plain == "interactions" and before == ".chaos":
            return "an interactions folder"
        if plain.startswith(TEMPORARY_PREFIX) and plain.endswith(TEMPORARY_SUFFIX):
            return "a write that is under way"
        before = plain
    return None


def name_fault(name: str) -> str | None:
    """Why a component cannot be a file name here, ``None`` when it can."""
    if name == "..":
        return "it goes up with '..'; write the path without"
    if not name.isprintable() and any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        return "it contains a control character or half a character"
    if _DIRECTION_MARKS.intersection(name):
        return "it contains a mark that changes the direction of text, which would show another name than it is"
    if len(name.encode()) > NAME_BYTES_MAX:
        return f"one name in it is longer than {NAME_BYTES_MAX} bytes"
    return None
