"""JSON values: one canonical text, one digest, pointers as RFC 6901 has them, and walks that no depth can break."""

from __future__ import annotations

import hashlib
import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chaoscore.domain.json import (
    NUMBER_BITS_MAX,
    Json,
    MissingPath,
    Unfit,
    array_index,
    brief,
    canonical_text,
    digest,
    equal,
    pointer_join,
    pointer_tokens,
    resolve_pointer,
    size_bytes,
    type_name,
    unfit_parts,
)
from tests.domain.values import json_values, keys, nested, wild_json

# -- the canonical form ----------------------------------------------------------------------------------------

CANONICAL: list[tuple[Json, str]] = [
    (None, "null"),
    (True, "true"),
    ({"b": 1, "a": [1.0, 2]}, '{"a":[1.0,2],"b":1}'),
    (2**53, "9007199254740992"),
    (2**53 + 1, "9007199254740993"),
    (10**30, "1" + "0" * 30),
    ("é", '"\\u00e9"'),
    ("\ud800", '"\\ud800"'),
    ("\U0001f600", '"\\ud83d\\ude00"'),
    ('\x00\n"\\/', '"\\u0000\\n\\"\\\\/"'),
    ({"é": 1, "z": 2, "\U0001f600": 3, "\uffff": 4}, '{"z":2,"\\u00e9":1,"\\uffff":4,"\\ud83d\\ude00":3}'),
    ((1, (2,)), "[1,[2]]"),
    ({}, "{}"),
]


@pytest.mark.parametrize(("value", "text"), CANONICAL)
def test_the_canonical_form_is_written_out(value: Json, text: str) -> None:
    assert canonical_text(value) == text
    assert digest(value) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def shuffled(value: Json) -> Json:
    """The same value with every object's keys in the opposite order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(element) for element in value] if isinstance(value, list) else value


@given(json_values)
def test_the_canonical_form_does_not_depend_on_the_order_of_keys(value: Json) -> None:
    assert canonical_text(shuffled(value)) == canonical_text(value)


@given(json_values)
def test_the_canonical_form_survives_being_read_back(value: Json) -> None:
    read = json.loads(canonical_text(value))
    assert equal(read, value)
    assert canonical_text(read) == canonical_text(value)


@given(json_values, json_values)
def test_values_with_one_digest_are_equal(left: Json, right: Json) -> None:
    assert (digest(left) == digest(right)) <= equal(left, right)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [math.nan], {"a": math.inf}])
def test_what_json_has_no_number_for_has_no_canonical_form(value: Json) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_text(value)


@pytest.mark.parametrize("value", [{1, 2}, b"x", object()])
def test_what_is_not_json_has_no_canonical_form(value: Json) -> None:
    with pytest.raises(TypeError):
        canonical_text(value)


@pytest.mark.parametrize("kind", ["array", "object"])
def test_what_is_nested_too_deeply_is_refused_with_a_value_error(kind: str) -> None:
    for write in (canonical_text, digest, size_bytes):
        with pytest.raises(ValueError, match="nested too deeply"):
            write(nested(100_000, kind))


# -- pointers --------------------------------------------------------------------------------------------------

RFC_6901: Json = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", RFC_6901),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_the_examples_of_rfc_6901_resolve(pointer: str, found: Json) -> None:
    assert resolve_pointer(RFC_6901, pointer) == found


@pytest.mark.parametrize(
    "pointer",
    [
        "/nope",
        "/foo/2",
        "/foo/-",
        "/foo/-1",
        "/foo/01",
        "/foo/ 1",
        "/foo/1.0",
        "/foo/٣",
        "/foo/",
        "/foo/99999999999999999",
        "/foo/0/x",
        "//x",
        "/a~1b/0",
    ],
)
def test_a_pointer_that_leads_nowhere_is_a_missing_path(pointer: str) -> None:
    with pytest.raises(MissingPath):
        resolve_pointer(RFC_6901, pointer)


@pytest.mark.parametrize("pointer", ["foo", "#/foo", "/~", "/~2", "/a~", "~0", " /foo"])
def test_what_is_no_pointer_is_a_value_error(pointer: str) -> None:
    with pytest.raises(ValueError, match="JSON Pointer"):
        pointer_tokens(pointer)


@given(st.lists(keys))
def test_tokens_survive_being_joined(tokens: list[str]) -> None:
    assert pointer_tokens(pointer_join(*tokens)) == tuple(tokens)


def test_a_tilde_before_a_digit_is_not_unescaped_twice() -> None:
    assert pointer_tokens("/~01") == ("~1",)


def places(value: Json, at: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Json]]:
    found = [(at, value)]
    if isinstance(value, dict):
        found += [place for key, member in value.items() for place in places(member, (*at, key))]
    if isinstance(value, list):
        found += [place for i, element in enumerate(value) for place in places(element, (*at, i))]
    return found


@given(json_values)
def test_every_place_of_a_value_is_found_by_its_pointer(value: Json) -> None:
    for tokens, part in places(value):
        assert resolve_pointer(value, pointer_join(*tokens)) is part


@pytest.mark.parametrize(
    ("token", "index"),
    [("0", 0), ("7", 7), ("10", 10), ("00", None), ("01", None), ("-", None), ("", None), ("x", None), ("²", None)],
)
def test_an_array_index_is_a_plain_number(token: str, index: int | None) -> None:
    assert array_index(token) == index


# -- equality and types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        (2**53, 2**53 + 1, False),
        (float(2**53), 2**53 + 1, False),
        (True, 1, False),
        (False, 0, False),
        (None, False, False),
        (None, None, True),
        ("1", 1, False),
        ("a", "a", True),
        ([], {}, False),
        ([1, 2], (1, 2), True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": True}, {"a": 1}, False),
        ("", None, False),
        ([None], [False], False),
    ],
)
def test_json_equality(left: Json, right: Json, same: bool) -> None:
    assert equal(left, right) is same
    assert equal(right, left) is same


@given(json_values)
def test_every_value_equals_itself_read_back(value: Json) -> None:
    assert equal(value, json.loads(json.dumps(value)))


@pytest.mark.parametrize("kind", ["array", "object"])
def test_equality_reaches_any_depth(kind: str) -> None:
    assert equal(nested(50_000, kind), nested(50_000, kind))
    assert not equal(nested(50_000, kind), nested(50_001, kind))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (0, "integer"),
        (1.0, "integer"),
        (1.5, "number"),
        (math.nan, "number"),
        (math.inf, "number"),
        ("", "string"),
        ([], "array"),
        ((), "array"),
        ({}, "object"),
    ],
)
def test_a_value_has_the_type_that_json_schema_gives_it(value: Json, name: str) -> None:
    assert type_name(value) == name


# -- short words for messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "'x'"),
        ("\ud800é", "'\\ud800\\xe9'"),
        ("a\nb", "'a\\nb'"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ([], "[]"),
        ({}, "{}"),
        ([1], "an array of 1 element"),
        ({"a": 1, "b": 2}, "an object of 2 keys"),
    ],
)
def test_a_value_is_named_in_few_words(value: Json, words: str) -> None:
    assert brief(value) == words


def test_an_integer_too_long_to_be_written_is_named_all_the_same() -> None:
    assert brief(10**5_000) == "an integer of 16610 bits"


@given(wild_json)
@example("x" * 10_000)
@example("é" * 10_000)
def test_a_value_named_in_few_words_fits_on_a_line(value: Json) -> None:
    words = brief(value)
    assert len(words) <= 80
    assert "\n" not in words
    words.encode()


# -- what cannot be kept ---------------------------------------------------------------------------------------


def unfit(value: Json, nesting_max: int = 8, bytes_max: int = 1_000, values_max: int | None = None) -> list[Unfit]:
    return list(unfit_parts(value, nesting_max=nesting_max, bytes_max=bytes_max, values_max=values_max))


@given(json_values)
def test_tame_json_is_fit_and_its_size_is_the_size_of_its_text(value: Json) -> None:
    size = size_bytes(value)
    assert size == len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    assert unfit(value, nesting_max=50, bytes_max=size) == []
    assert any(part.fatal for part in unfit(value, nesting_max=50, bytes_max=size - 1))


@given(wild_json)
def test_what_is_fit_can_be_written_sent_and_digested(value: Json) -> None:
    if not unfit(value, nesting_max=50, bytes_max=100_000):
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        digest(value)


@pytest.mark.parametrize(
    ("value", "tokens", "words"),
    [
        (math.nan, (), "nan is not a JSON number"),
        ({"a": [1, math.inf]}, ("a", 1), "inf"),
        (["\ud800"], (0,), "lone surrogate at character 0"),
        ({"x": {"a\udfff": 1}}, ("x", "a\udfff"), "the key: a lone surrogate at character 1"),
        ([10**400], (0,), f"at most {NUMBER_BITS_MAX}"),
        ([{1: 2}], (0,), "a key is int, not text"),
        ({"a": {1, 2}}, ("a",), "set is not JSON"),
        (nested(9), (0,) * 8, "deeper than 8"),
        ("x" * 1_000, (), "larger than 1000 bytes"),
        ([[1] * 20, [2] * 600], (), "larger than 1000 bytes"),
    ],
)
def test_what_is_unfit_is_named_with_its_place(value: Json, tokens: tuple[str | int, ...], words: str) -> None:
    (part,) = unfit(value)
    assert part.tokens == tokens
    assert words in part.reason


def test_everything_unfit_is_named_in_document_order() -> None:
    value: Json = {"a": math.nan, "b": ["\ud800", {"c": -math.inf}], "d": 1}
    assert [part.tokens for part in unfit(value)] == [("a",), ("b", 0), ("b", 1, "c")]


def test_more_values_than_allowed_end_the_search() -> None:
    assert unfit([[1], [2]], values_max=5) == []
    assert unfit([[1], [2, 3]], values_max=5) == [Unfit((), "more than 5 values", fatal=True)]


@pytest.mark.parametrize("value", [nested(300_000), nested(300_000, "object"), [[]] * 1_000_000, "x" * 3_000_000])
def test_what_is_huge_is_refused_without_being_walked(value: Json) -> None:
    assert unfit(value)[-1].fatal
