"""Rules of memory: what may be written, and the tokens that make text findable."""

from __future__ import annotations

import math
from dataclasses import replace
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json
from chaoscore.domain.memory import (
    KEY_CHARS_MAX,
    TAG_CHARS_MAX,
    TAGS_MAX,
    TTL_SECONDS_MAX,
    VALUE_BYTES_MAX,
    VALUE_NESTING_MAX,
    Memory,
    NewMemory,
    search_tokens,
)
from tests.domain.values import nested, wild_json

GOOD = NewMemory("key", {"a": [1, None]}, ("tag", "标签"), 60.0, 3)


def test_a_write_within_every_bound_is_taken_as_it_is() -> None:
    assert GOOD.validated() is GOOD
    edges = [
        replace(GOOD, key="k" * KEY_CHARS_MAX),
        replace(GOOD, key="键"),
        replace(GOOD, tags=("t" * TAG_CHARS_MAX,) * TAGS_MAX),
        replace(GOOD, ttl_seconds=TTL_SECONDS_MAX),
        replace(GOOD, ttl_seconds=None),
        replace(GOOD, ttl_seconds=0.001),
        replace(GOOD, expect_version=0),
        replace(GOOD, expect_version=None),
        replace(GOOD, value=None),
        replace(GOOD, value="x" * (VALUE_BYTES_MAX - 2)),
        replace(GOOD, value="值" * (VALUE_BYTES_MAX // 3 - 1)),
        replace(GOOD, value=nested(VALUE_NESTING_MAX)),
    ]
    for memory in edges:
        assert memory.validated() is memory


REFUSED: list[tuple[NewMemory, str, str]] = [
    (replace(GOOD, key=""), "key", "1 to 200 characters"),
    (replace(GOOD, key="k" * (KEY_CHARS_MAX + 1)), "key", "1 to 200 characters"),
    (replace(GOOD, key="a\x00b"), "key", "without NUL"),
    (replace(GOOD, key="a\ud800"), "key", "Unicode text"),
    (replace(GOOD, tags=("t",) * (TAGS_MAX + 1)), "tags", "at most 32"),
    (replace(GOOD, tags=("",)), "tags", "1 to 64 characters"),
    (replace(GOOD, tags=("t" * (TAG_CHARS_MAX + 1),)), "tags", "1 to 64 characters"),
    (replace(GOOD, tags=("\udfff",)), "tags", "Unicode text"),
    (replace(GOOD, tags=("a\x00",)), "tags", "without NUL"),
    (replace(GOOD, ttl_seconds=0), "ttl_seconds", "above 0"),
    (replace(GOOD, ttl_seconds=-1), "ttl_seconds", "above 0"),
    (replace(GOOD, ttl_seconds=math.nan), "ttl_seconds", "above 0"),
    (replace(GOOD, ttl_seconds=math.inf), "ttl_seconds", "at most"),
    (replace(GOOD, ttl_seconds=TTL_SECONDS_MAX + 1), "ttl_seconds", "at most"),
    (replace(GOOD, expect_version=-1), "expect_version", "0 (must not exist) or a version"),
    (replace(GOOD, value="x" * (VALUE_BYTES_MAX - 1)), "value", "larger than 262144 bytes"),
    (replace(GOOD, value={"a": [math.nan]}), "value", "value/a/0: nan is not a JSON number"),
    (replace(GOOD, value=[math.inf]), "value", "inf"),
    (replace(GOOD, value={"a": "\ud800"}), "value", "value/a: a lone surrogate"),
    (replace(GOOD, value={"\ud800": 1}), "value", "lone surrogate"),
    (replace(GOOD, value=nested(VALUE_NESTING_MAX + 1)), "value", "deeper than 64"),
    (replace(GOOD, value=nested(200_000)), "value", "deeper than 64"),
]


@pytest.mark.parametrize(
    ("memory", "key", "words"), REFUSED, ids=[f"{n}-{key}" for n, (_, key, _) in enumerate(REFUSED)]
)
def test_a_write_beyond_a_bound_is_refused_naming_the_key(memory: NewMemory, key: str, words: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        memory.validated()
    assert raised.value.details["key"] == key
    assert words in raised.value.message
    raised.value.message.encode()


@given(wild_json)
def test_any_value_is_kept_or_refused(value: Json) -> None:
    try:
        NewMemory("key", value).validated()
    except InvalidInput as error:
        error.message.encode()


def test_a_memory_is_shown_with_what_tells_whether_to_trust_it() -> None:
    shown = Memory("k", 1, ("t",), 2, 10.0, 20.0, 30.0, source="http.request", trust="untrusted").to_json()
    assert shown == {
        "key": "k",
        "value": 1,
        "tags": ["t"],
        "version": 2,
        "created_at": 10.0,
        "updated_at": 20.0,
        "expires_at": 30.0,
        "kind": "semantic",
        "source": "http.request",
        "trust": "untrusted",
    }


# -- search tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("  \n-_.,!", []),
        ("Hello, World", ["hello", "world"]),
        ("snake_case and kebab-case", ["snake", "case", "and", "kebab", "case"]),
        ("v2.10.3", ["v2", "10", "3"]),
        ("straße STRASSE", ["strasse", "strasse"]),
        ("Ｆｕｌｌ　ｗｉｄｔｈ", ["full", "width"]),
        ("ﬁle", ["file"]),
        ("re\u0301sume\u0301", ["résumé"]),
        ("ΣΊΣΥΦΟΣ", ["σίσυφοσ"]),
        ("天", ["天"]),
        ("天气", ["天", "气", "天气"]),
        ("天气预报", ["天", "气", "预", "报", "天气", "气预", "预报"]),
        ("今天 weather", ["今", "天", "今天", "weather"]),
        ("iPhone手机15", ["iphone", "手", "机", "手机", "15"]),
        ("人々", ["人", "々", "人々"]),
        ("カメラ", ["カ", "メ", "ラ", "カメ", "メラ"]),
        ("ｶﾒﾗ", ["カ", "メ", "ラ", "カメ", "メラ"]),
        ("서울", ["서", "울", "서울"]),
        ("𠮷野家", ["𠮷", "野", "家", "𠮷野", "野家"]),
        ("ㄅㄆ", ["ㄅ", "ㄆ", "ㄅㄆ"]),
        ('AND OR NOT "x*" NEAR(a)', ["and", "or", "not", "x", "near", "a"]),
        ("\ud800a\udfff", ["a"]),
        ("\x00nul", ["nul"]),
    ],
)
def test_text_becomes_the_tokens_that_are_compared(text: str, tokens: list[str]) -> None:
    assert search_tokens(text) == tokens


cjk = st.text(st.sampled_from("天气预报今日本語カメラ서울々"), min_size=1, max_size=8)
words = st.text(st.characters(categories=["Lu", "Ll", "Nd"], max_codepoint=0x24F), min_size=1, max_size=6)
texts = st.lists(st.one_of(cjk, words, st.sampled_from([" ", "，", "-", "。", "_"])), max_size=8).map("".join)


@given(cjk, texts, texts)
def test_every_part_of_a_cjk_stretch_is_found(part: str, before: str, after: str) -> None:
    """What a substring search finds: all tokens of a part are tokens of any text around it."""
    assert set(search_tokens(part)) <= set(search_tokens(before + part + after))


@given(words, texts, texts)
def test_a_word_is_found_among_others(word: str, before: str, after: str) -> None:
    assert set(search_tokens(word)) <= set(search_tokens(f"{before} {word} {after}"))


@given(st.text())
def test_tokens_do_not_depend_on_case_width_or_composition(text: str) -> None:
    tokens = search_tokens(text)
    assert search_tokens(normalize("NFKC", text)) == tokens
    assert search_tokens(text.casefold()) == tokens
    if text.isascii():
        assert search_tokens(text.upper()) == tokens


@given(st.text())
def test_tokens_are_never_empty_and_never_syntax(text: str) -> None:
    for token in search_tokens(text):
        assert token
        assert not any(sign in token for sign in " \"'*():^-+{}_\x00\n")
        token.encode()
