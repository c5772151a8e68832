"""Taking secrets out of whatever leaves the system: known values exactly, unknown ones by the shape of a key.

Every edge (tool results, errors, logs, audit previews, pages) passes what it shows through one ``Redactor``.
Between the steps of a run nothing is redacted: a changed value would be a changed plan. Law 10.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

from chaoscore.domain.json import Json, is_array, is_object

REDACTED = "[redacted]"
SECRET_CHARS_MIN = 6
"""A shorter "secret" would take ordinary words out of every text, so it is not looked for."""

# (a piece that every match contains, the shape). The piece is looked for first: most texts have none of them, and
# a plain search is many times faster than a pattern. Every repetition is bounded where another may begin inside it.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    # "sk-learn-contrib" is a word and not a key: a key has sixteen letters and digits (or stars) in a row.
    ("sk-", re.compile(r"\bsk-[A-Za-z0-9_*\-]{0,64}?[A-Za-z0-9*]{16}[A-Za-z0-9_*\-]*")),
    ("k_live_", re.compile(r"\b[rs]k_live_[A-Za-z0-9]{16,}")),
    ("k_test_", re.compile(r"\b[rs]k_test_[A-Za-z0-9]{16,}")),
    ("AIza", re.compile(r"\bAIza[0-9A-Za-z_\-]{30,}")),
    ("AKIA", re.compile(r"\bAKIA[0-9A-Z]{16}\b")),
    ("ASIA", re.compile(r"\bASIA[0-9A-Z]{16}\b")),
    *((f"gh{kind}_", re.compile(rf"\bgh{kind}_[A-Za-z0-9]{{20,}}")) for kind in "pousr"),
    ("github_pat_", re.compile(r"\bgithub_pat_[A-Za-z0-9_]{20,}")),
    ("glpat-", re.compile(r"\bglpat-[A-Za-z0-9_\-]{16,}")),
    ("xox", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,}")),
    ("hf_", re.compile(r"\bhf_[A-Za-z0-9]{20,}")),
    ("earer ", re.compile(r"(?<=[Bb]earer )[A-Za-z0-9._~+/\-]{16,}=*")),
    (
        "PRIVATE KEY-----",
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
        ),
    ),
)
_MARKS = "I_"


def _by_mark(pieces: Iterable[str]) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
    """Pieces without any of the marks, and for each mark the others that hold it. One character is found many times
    faster than several, and most texts hold none of the marks."""
    rest, marked = list(pieces), []
    for mark in _MARKS:
        marked.append((mark, tuple(piece for piece in rest if mark in piece)))
        rest = [piece for piece in rest if mark not in piece]
    return tuple(rest), tuple(marked)


_PLAIN_PIECES, _MARKED_PIECES = _by_mark(piece for piece, _ in _SHAPES)


class Redactor:
    """Replaces secrets by ``[redacted]`` in text and JSON. Its own ``repr`` shows none."""

    __slots__ = ("_known",)

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        """``secrets`` are the values in force now; ``None``, and what is shorter than 6 characters, is left out."""
        forms: set[str] = set()
        for secret in secrets:
            value = (secret or "").strip()
            if len(value) >= SECRET_CHARS_MIN:
                forms.update((value, json.dumps(value)[1:-1], repr(value)[1:-1]))
                forms.update((quote(value, safe="", errors="replace"), quote(value, errors="replace")))
        self._known = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def __repr__(self) -> str:
        return f"Redactor({len(self._known)} forms)"

    def text(self, text: str) -> str:
        """``text`` without secrets. Total; the same text when there is nothing to take out."""
        if self.finds_nothing_in(text):
            return text
        for form in self._known:
            if form in text:
                text = text.replace(form, REDACTED)
        for piece, shape in _SHAPES:
            if piece in text:
                text = shape.sub(REDACTED, text)
        return text

    def is_clean(self, value: Json) -> bool:
        """Whether ``value`` certainly holds nothing to take out: one look at its JSON text, far cheaper than a copy."""
        try:
            text = json.dumps(value, separators=(",", ":"))
        except (RecursionError, TypeError, ValueError):
            return False
        return self.finds_nothing_in(text)

    def finds_nothing_in(self, text: str) -> bool:
        """Whether ``text`` certainly holds nothing to take out. True of JSON text as well, if that is all ASCII."""
        # Plain loops: this is asked of every event and every answer, and a generator costs more than the searching.
        for form in self._known:
            if form in text:
                return False
        for piece in _PLAIN_PIECES:
            if piece in text:
                return False
        for mark, pieces in _MARKED_PIECES:
            if mark in text:
                for piece in pieces:
                    if piece in text:
                        return False
        return True

    def json(self, value: Json) -> Json:
        """A copy of ``value`` with every string and key redacted, however deep it is."""
        root: list[Json] = [value]
        # Containers are walked with a list, not by recursion: an edge must not fail on a deep value.
        todo: list[tuple[list[Json] | dict[str, Json], int | str]] = [(root, 0)]
        while todo:
            holder, key = todo.pop()
            item = holder[key]  # type: ignore[index]
            if isinstance(item, str):
                holder[key] = self.text(item)  # type: ignore[index]
            elif is_object(item):
                copy: dict[str, Json] = {}
                for name, member in item.items():
                    copy[_free(self.text(name), copy)] = member
                holder[key] = copy  # type: ignore[index]
                todo.extend((copy, name) for name in copy)
            elif is_array(item):
                elements = list(item)
                holder[key] = elements  # type: ignore[index]
                todo.extend((elements, index) for index in range(len(elements)))
        return root[0]


def _free(key: str, taken: dict[str, Json]) -> str:
    """Two keys that look alike once redacted both stay."""
    if key not in taken:
        return key
    number = 2
    while f"{key} #{number}" in taken:
        number += 1
    return f"{key} #{number}"
