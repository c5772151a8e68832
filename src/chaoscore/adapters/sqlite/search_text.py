"""What of a memory is searched, and the terms that the index keeps of it.

The index never sees text: it is handed terms that we make, so that nothing a user writes is query syntax, and any
substring can be looked up. A memory's terms are

- ``n…`` its namespace and ``g…`` each of its tags, as short hashes: filters within the index,
- ``w…`` its words, Chinese, Japanese and Korean as characters and bigrams (``domain.memory.search_tokens``),
- ``t…`` every three characters in a row, blanks and signs included: what narrows a substring down.

Terms only narrow down; whether a memory really holds a text is decided on the text itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from chaoscore.adapters.sqlite.codec import MalformedText, decode
from chaoscore.domain.json import Json, is_array, is_object
from chaoscore.domain.memory import folded, search_tokens

PIECE_CHARS = 3
WORD_CHARS_MAX = 64
PIECES_PER_QUERY_MAX = 24

# The index's tokenizer splits at ASCII signs; moved out of ASCII, they are characters like any other.
_SIGNS = {code: 0xE000 + code for code in range(128) if not chr(code).isalnum()}
_END = chr(0xF8FF) * (PIECE_CHARS - 1)
"""Stands behind the text, so that its last characters begin a piece too."""


def searched_text(key: str, tags: Sequence[str], value_text: str) -> str:
    """Everything of a memory that a search may find, in lower case, and folded where that differs.

    ``value_text`` is the value as JSON text; the strings in it appear unescaped as well.
    """
    plain = "\n".join((key, *tags, value_text))
    if "\\" in value_text:
        plain = "\n".join((plain, *_strings(value_text)))
    lower = plain.lower()
    if lower.isascii():
        return lower
    other = folded(plain)
    return lower if other == lower else f"{lower}\n{other}"


def asked(text: str) -> str:
    """A query's text as it can be looked for: no memory holds a lone surrogate, so no other character may stand in."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").strip()


def needles(text: str) -> tuple[str, ...]:
    """The forms of a query's text of which a match holds at least one."""
    lower, other = text.lower(), folded(text)
    return (lower,) if other == lower or not other else (lower, other)


def words(text: str) -> list[str]:
    """The distinct words of a query or a text, in order, cut to what the index keeps."""
    return list(dict.fromkeys(token[:WORD_CHARS_MAX] for token in search_tokens(text)))


def terms_of(namespace: str, tags: Iterable[str], text: str) -> str:
    """The terms of a memory whose ``searched_text`` is ``text``, as the index takes them."""
    moved = text.translate(_SIGNS) + _END
    pieces = set(map("".join, zip(moved, moved[1:], moved[2:], strict=False)))
    names = [namespace_term(namespace), *map(tag_term, tags)]
    return " ".join((*names, "t" + " t".join(pieces), *map(word_term, words(text))))


def namespace_term(namespace: str) -> str:
    return "n" + _short(namespace)


def tag_term(tag: str) -> str:
    return "g" + _short(tag)


def word_term(word: str) -> str:
    return "w" + word


def piece_terms(needle: str) -> list[str]:
    """Terms that every text with this needle has; with a star where the needle is shorter than a piece."""
    moved = needle.translate(_SIGNS)
    if len(moved) < PIECE_CHARS:
        return [f'"t{moved}"*'] if moved else []
    count = len(moved) - PIECE_CHARS + 1
    step = max(1, -(-count // PIECES_PER_QUERY_MAX))
    places = dict.fromkeys([*range(0, count, step), count - 1])
    return [quoted("t" + moved[at : at + PIECE_CHARS]) for at in places]


def quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


def _short(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _strings(value_text: str) -> Iterator[str]:
    try:
        open_values: list[Json] = [decode(value_text)]
    except MalformedText:
        return
    while open_values:
        at = open_values.pop()
        if isinstance(at, str):
            yield at
        elif is_object(at):
            yield from at
            open_values.extend(at.values())
        elif is_array(at):
            open_values.extend(at)
