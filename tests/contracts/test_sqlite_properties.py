"""Properties of what the SQLite stores write and find, over values that nobody would think of."""

from __future__ import annotations

import asyncio
import json
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.adapters.sqlite import open_stores
from chaoscore.adapters.sqlite.codec import MalformedText, decode, encode
from chaoscore.adapters.sqlite.cursors import make_cursor, read_cursor
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json
from chaoscore.domain.memory import NewMemory, RecallQuery
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses

MEMORY_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None

# -- exact text --------------------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS | ANY_TEXT, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4)
)


def exactly(one: Json, other: Json) -> bool:
    """Equal, and of the same types, and with the same signs of zero."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(exactly(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(exactly, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return type(one) is type(other) and one == other


@given(VALUES)
def test_what_is_written_reads_back_exactly(value: Json) -> None:
    text = encode(value)
    assert exactly(decode(text), value)
    text.encode("utf-8")


@given(st.sampled_from([math.nan, math.inf, -math.inf]), VALUES, st.text(max_size=5))
def test_what_is_no_number_is_never_written_as_something_else(odd: float, value: Json, key: str) -> None:
    for holder in (odd, [value, odd], {key: {"inner": [odd, None]}}, (None, (odd,))):
        with pytest.raises(ValueError, match=r"JSON|compliant"):
            encode(holder)


@given(st.text(max_size=20))
def test_text_that_is_not_json_is_malformed(text: str) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        with pytest.raises(MalformedText):
            decode(text)


# -- cursors -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-(2**62), 2**62), max_size=5), ANY_TEXT, ANY_TEXT)
def test_a_cursor_continues_the_question_it_was_made_for_and_no_other(place: list[int], one: str, other: str) -> None:
    cursor = make_cursor(["q", one], place)
    assert list(read_cursor(["q", one], cursor)) == place
    if one != other:
        with pytest.raises(InvalidInput):
            read_cursor(["q", other], cursor)


@given(st.text(max_size=60), st.integers(0, 40))
def test_anything_else_is_no_cursor(text: str, cut: int) -> None:
    good = make_cursor(["q"], [1, 2, 3])
    for wrong in (text, good[:cut] + text + good[cut + 1 :]):
        if wrong.rstrip("=") != good:
            with pytest.raises(InvalidInput):
                read_cursor(["q"], wrong)


# -- search ------------------------------------------------------------------------------------------------------

LETTERS = st.sampled_from([*"ab AB-_.\"\\\n%*1é'ÅßσΣς", "部", "署", "流", "カ", "ﬁ", "Ａ", "e\u0301", "İ", "한", "😀"])
WORDS = st.lists(LETTERS, min_size=1, max_size=9).map("".join)
VALUE_TEXT: st.SearchStrategy[Json] = WORDS | st.lists(WORDS, max_size=3) | st.dictionaries(WORDS, WORDS, max_size=2)


def seed_finds(memories: list[tuple[str, Json]], text: str) -> set[int]:
    """The substring search that ours must contain: key or JSON text, case aside."""
    wanted = text.strip().lower()
    return {
        number
        for number, (key, value) in enumerate(memories)
        if wanted in key.lower() or wanted in json.dumps(value, ensure_ascii=False, separators=(",", ":")).lower()
    }


@given(
    st.lists(st.tuples(WORDS, VALUE_TEXT), min_size=1, max_size=7),
    st.lists(WORDS, min_size=1, max_size=4),
    st.booleans(),
)
def test_every_substring_match_is_found_once_and_none_is_made_up(
    memories: list[tuple[str, Json]], texts: list[str], full_text: bool
) -> None:
    memories = [(f"{number}/{key}", value) for number, (key, value) in enumerate(memories)]
    pieces = [json.dumps(value, ensure_ascii=False)[1:4] for _, value in memories]

    async def story(directory: Path) -> None:
        clock = FakeClock()
        stores = await open_stores(
            directory, clock, CountingIds(), FakeProcesses(), full_text=None if full_text else False
        )
        try:
            await asyncio.gather(
                *(stores.memory.put("shared", NewMemory(key, value), clock.now(), ()) for key, value in memories)
            )
            keys = [key for key, _ in memories]
            for text in (*texts, *pieces):
                found: list[int] = []
                cursor: str | None = None
                while True:
                    page = await stores.memory.recall("shared", RecallQuery(text=text, limit=2, cursor=cursor), 0.0)
                    found += [keys.index(memory.key) for memory in page.memories]
                    cursor = page.cursor
                    if cursor is None:
                        break
                assert len(found) == len(set(found)), "shown twice"
                if text.strip():
                    assert seed_finds(memories, text) <= set(found), text
        finally:
            await stores.close()

    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as name:
        asyncio.run(story(Path(name) / "data"))
