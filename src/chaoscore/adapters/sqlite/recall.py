"""Finding memories by text: everything that holds the text as written, the best first, in bounded time per page.

Matches come in four tiers: the text as whole words; the text inside words; all of its words somewhere; some of its
rarer words. Together the first two are exactly what a substring search finds. Within a tier the newest matches are
taken in windows, and each window is ranked: so a page costs the same however many memories match, and a cursor can say
exactly where the list goes on. A page that had to look at too many candidates ends early, with a cursor.

With FTS5 the index proposes candidates; without it, and for rows that the index does not hold yet, every row is one.
Either way the text decides, never the index alone.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaoscore.adapters.sqlite.cursors import make_cursor, read_cursor
from chaoscore.adapters.sqlite.memory_rows import COLUMNS, text_of
from chaoscore.adapters.sqlite.rows import Row
from chaoscore.adapters.sqlite.search_text import (
    asked,
    namespace_term,
    needles,
    piece_terms,
    quoted,
    tag_term,
    word_term,
    words,
)
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json
from chaoscore.domain.memory import folded, search_tokens

WINDOW = 256
EXAMINED_MAX = 4_000
WORDS_MAX = 32
RARE_MAX = 300
"""A word in more memories than this tells little about what was meant."""

_TIERS = 4
_FUNCTION_WORDS = frozenset(
    (
        *("an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "has", "have", "how", "if"),
        *("in", "is", "it", "its", "me", "my", "not", "of", "on", "or", "please", "so", "that", "the", "their", "then"),
        *("there", "they", "this", "to", "was", "we", "what", "when", "where", "which", "who", "will", "with", "you"),
        "your",
    )
)
"""Words that a sentence needs and a search does not: alone they make no some-words match. So do single characters."""

_ALL = f"SELECT id, expires_at, {COLUMNS} FROM memories WHERE namespace = ? AND id < ? ORDER BY id DESC"  # noqa: S608
_NOT_INDEXED = (
    f"SELECT id, expires_at, {COLUMNS} FROM memories"  # noqa: S608
    " WHERE namespace = ? AND id < ? AND indexed = 0 ORDER BY id DESC"
)
_MATCHING = (
    f"SELECT id, expires_at, {COLUMNS} FROM memory_index CROSS JOIN memories ON memories.id = memory_index.rowid"  # noqa: S608
    " WHERE memory_index MATCH ? AND memory_index.rowid < ? AND namespace = ? ORDER BY memory_index.rowid DESC"
)
_HOW_MANY = "SELECT count(*) FROM (SELECT 1 FROM memory_index WHERE memory_index MATCH ? LIMIT ?)"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a list goes on. ``upper`` is above the newest candidate to look at; a window that was shown in part is
    given by its ``lower`` end and the last one shown (``score``, ``shown``)."""

    tier: int = 0
    upper: int = 2**62
    lower: int = 0
    score: int = 0
    shown: int = 0

    @property
    def within(self) -> bool:
        return self.lower > 0

    def to_json(self) -> list[Json]:
        return [self.tier, self.upper, self.lower, self.score, self.shown]


@dataclass(frozen=True, slots=True)
class Match:
    """``row`` is {id, expiry, then ``COLUMNS``}."""

    score: int
    id: int
    row: Row

    @property
    def order(self) -> tuple[int, int]:
        return (-self.score, -self.id)


class Search:
    """One question by text within one namespace, asked of one connection."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        namespace: str,
        text: str,
        tags: Sequence[str],
        now: float,
        *,
        full_text: bool,
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._tags = frozenset(tags)
        self._now = now
        self._full_text = full_text
        text = asked(text)
        self._needles = needles(text)
        self._words = words(text)[:WORDS_MAX]
        self._examined = 0
        self._telling = [word for word in self._words if len(word) > 1 and word not in _FUNCTION_WORDS]
        self._filter = [namespace_term(namespace), *map(tag_term, tags)]
        self._weights: dict[str, int] | None = None

    def page(self, limit: int, place: Place) -> tuple[list[Match], Place | None]:
        """At most ``limit`` matches from ``place`` on, and where the list goes on."""
        found: list[Match] = []
        while place.tier < _TIERS:
            window, bottom = self._window(place)
            room = limit - len(found)
            if window and not room:
                return found, place  # there is more, and it begins here
            found += window[:room]
            if len(window) > room:
                last = found[-1]
                return found, Place(place.tier, place.upper, bottom, last.score, last.id)
            place = Place(place.tier, bottom) if bottom > 1 else Place(place.tier + 1)
            if place.tier < _TIERS and self._examined >= EXAMINED_MAX:
                return found, place
        return found, None

    # -- windows ---------------------------------------------------------------------------------------------

    def _window(self, place: Place) -> tuple[list[Match], int]:
        """The next window's matches in order, without those shown, and the id it ends at; 1 when nothing is below."""
        matches: list[Match] = []
        bottom = 1
        for row, indexed in self._candidates(place.tier, place.upper):
            row_id = _int(row[0])
            if place.within and row_id < place.lower:
                bottom = place.lower
                break
            self._examined += 1
            match = self._judge(place.tier, row, indexed)
            if match is not None:
                matches.append(match)
            if not place.within and (len(matches) >= WINDOW or self._examined >= EXAMINED_MAX):
                bottom = row_id
                break
        matches.sort(key=lambda match: match.order)
        if place.within:
            shown = (-place.score, -place.shown)
            matches = [match for match in matches if match.order > shown]
        return matches, bottom

    def _candidates(self, tier: int, upper: int) -> Iterator[tuple[Row, bool]]:
        """Rows that may belong to the tier, newest first, and whether the index vouches for their words."""
        if not self._full_text:
            yield from ((row, False) for row in self._connection.execute(_ALL, (self._namespace, upper)))
            return
        expression = self._expression(tier)
        if expression is None:
            return
        indexed = self._connection.execute(_MATCHING, (expression, upper, self._namespace))
        loose = self._connection.execute(_NOT_INDEXED, (self._namespace, upper))
        yield from heapq.merge(
            ((row, True) for row in indexed),
            ((row, False) for row in loose),
            key=lambda pair: -_int(pair[0][0]),
        )

    def _expression(self, tier: int) -> str | None:
        """What the index is asked for, ``None`` when nothing can be in the tier."""
        terms = [quoted(term) for term in self._filter]
        all_words = [quoted(word_term(word)) for word in self._words]
        pieces = " OR ".join(f"({' AND '.join(piece_terms(needle))})" for needle in self._needles)
        if tier == 0:
            return f"({' AND '.join([*terms, *all_words])}) AND ({pieces})" if all_words else None
        if tier == 1:
            inside = f"{' AND '.join(terms)} AND ({pieces})"
            return f"({inside}) NOT ({' AND '.join(all_words)})" if all_words else inside
        if self._needles == tuple(self._words):
            return None  # one plain word: whoever has it was found already
        if tier == 2:
            return " AND ".join([*terms, *all_words]) if all_words else None
        some = [quoted(word_term(word)) for word in self.weights()]
        if not some or len(self._words) < 2:
            return None
        return f"({' AND '.join(terms)} AND ({' OR '.join(some)})) NOT ({' AND '.join(all_words)})"

    # -- judging ---------------------------------------------------------------------------------------------

    def _judge(self, tier: int, row: Row, indexed: bool) -> Match | None:
        expires = row[1]
        if isinstance(expires, float) and expires <= self._now:
            return None
        tags, text = text_of(row[2:])
        if not self._tags.issubset(tags):
            return None
        holds = any(needle in text for needle in self._needles)
        if holds != (tier < 2) or (not indexed and self._tier_of(text, holds) != tier):
            return None
        return Match(self._score(tier, str(row[2]), tags, text), _int(row[0]), row)

    def _tier_of(self, text: str, holds: bool) -> int | None:
        """Where a text belongs that the index does not vouch for."""
        if not any(word in text for word in self._words):
            return 1 if holds else None
        known = {token[:64] for token in search_tokens(text)}
        if self._words and known.issuperset(self._words):
            return 0 if holds else 2
        if holds:
            return 1
        some = len(self._words) > 1 and not known.isdisjoint(self.weights())
        return 3 if some else None

    def _score(self, tier: int, key: str, tags: Sequence[str], text: str) -> int:
        key = key.lower() if key.isascii() else folded(key)
        score = max(0, 60 - len(text) // 50)
        score += 50 * sum(word in key for word in self._words)
        if tier == 3:
            return score + sum(weight for word, weight in self.weights().items() if word in text)
        for needle in self._needles:
            score += 1_000 * (key == needle) + 400 * (needle in key) + 200 * (needle in tags)
            score += 10 * min(text.count(needle), 8)
        return score

    def weights(self) -> dict[str, int]:
        """The words that a some-words match may have, rarer ones weighing more."""
        if self._weights is None:
            counts = {word: self._how_many(word) for word in self._telling}
            rare = {word: count for word, count in counts.items() if count <= RARE_MAX}
            self._weights = {word: 100 + RARE_MAX - min(count, RARE_MAX) for word, count in (rare or counts).items()}
        return self._weights

    def _how_many(self, word: str) -> int:
        if not self._full_text:
            return 0
        expression = f"{quoted(namespace_term(self._namespace))} AND {quoted(word_term(word))}"
        return _int(self._connection.execute(_HOW_MANY, (expression, RARE_MAX + 1)).fetchone()[0])


Question = Sequence[Json]


def place_from(question: Question, cursor: str | None) -> Place:
    """Raises ``InvalidInput``."""
    if cursor is None:
        return Place()
    raw = read_cursor(question, cursor)
    numbers = [number for number in raw if isinstance(number, int) and not isinstance(number, bool)]
    if len(numbers) != len(raw) or len(raw) != 5:
        raise InvalidInput(f"cursor {cursor[:60]!r} is not one of ours; leave it out to begin", key="cursor")
    return Place(*numbers)


def cursor_to(question: Question, place: Place | None) -> str | None:
    return make_cursor(question, place.to_json()) if place is not None else None


def by_age(
    connection: sqlite3.Connection,
    namespace: str,
    tags: Sequence[str],
    now: float,
    limit: int,
    place: Place,
    *,
    full_text: bool,
) -> tuple[list[Row], Place | None]:
    """Everything with all the tags, newest first: rows as ``Match`` has them."""
    wanted = frozenset(tags)
    rows: list[Row] = []
    examined = 0
    for row in _tagged(connection, namespace, tags, place.upper, full_text=full_text):
        if examined >= EXAMINED_MAX:
            return rows, Place(0, _int(row[0]) + 1)
        examined += 1
        expires = row[1]
        if isinstance(expires, float) and expires <= now:
            continue
        if wanted and not wanted.issubset(text_of(row[2:])[0]):
            continue
        if len(rows) == limit:
            return rows, Place(0, _int(row[0]) + 1)
        rows.append(row)
    return rows, None


def _tagged(
    connection: sqlite3.Connection, namespace: str, tags: Sequence[str], upper: int, *, full_text: bool
) -> Iterator[Row]:
    if not tags or not full_text:
        yield from connection.execute(_ALL, (namespace, upper))
        return
    expression = " AND ".join(quoted(term) for term in (namespace_term(namespace), *map(tag_term, tags)))
    indexed = connection.execute(_MATCHING, (expression, upper, namespace))
    loose = connection.execute(_NOT_INDEXED, (namespace, upper))
    yield from heapq.merge(indexed, loose, key=lambda row: -_int(row[0]))


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
