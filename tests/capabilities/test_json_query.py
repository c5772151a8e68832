"""``json.query``: what it computes, and that no query can take longer or grow larger than its bounds."""

from __future__ import annotations

import json

import jmespath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.adapters.capabilities.query.functions import FUNCTION_NAMES
from chaoscore.adapters.capabilities.query.options import QueryOptions
from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json
from tests.capabilities.support import desk

DESK = desk()


def result(data: Json, query: str) -> Json:
    return DESK.call("json.query", data=data, query=query)["result"]


@pytest.mark.parametrize(
    ("query", "data", "expected"),
    [
        ("lines(@)", "a\r\nb\n\nc", ["a", "b", "", "c"]),
        ("lines(@)", "", []),
        ("split(@, ', ')", "a, b, c", ["a", "b", "c"]),
        ("split(@, ',', `1`)", "a,b,c", ["a", "b,c"]),
        ("replace(@, '|', '/')", "a|b|c", "a/b/c"),
        ("replace(@, '# ', '', `1`)", "# a # b", "a # b"),
        ("trim(@)", "  a ", "a"),
        ("trim_left(@, '# ')", "## a", "a"),
        ("trim_right(@, '.')", "a..", "a"),
        ("upper(lower(@))", "aB", "AB"),
        ("pad_left(to_string(@), `4`)", 12, "  12"),
        ("pad_right(@, `4`, '.')", "ab", "ab.."),
        ("from_json(@).a[0]", '{"a": [7]}', 7),
        ("from_json(@)", "not json", None),
        ("from_json(@)", "NaN", None),
        ("zip(a, b)", {"a": [1, 2], "b": ["x", "y", "z"]}, [[1, "x"], [2, "y"]]),
        ("from_items(items(@))", {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ("group_by(@, &k)", [{"k": "a", "n": 1}, {"k": "b"}, {"k": "a"}], None),
        ("join('\n', @)", ["a", "b"], "a\nb"),
        ("to_number('1e999')", None, None),
        ("to_string(@)", {"ä": "漢"}, '{"ä":"漢"}'),
    ],
)
def test_queries_have_functions_for_text_and_pairs(query: str, data: Json, expected: Json) -> None:
    if query.startswith("group_by"):
        expected = {"a": [{"k": "a", "n": 1}, {"k": "a"}], "b": [{"k": "b"}]}
    assert result(data, query) == expected


def test_a_missing_path_is_null() -> None:
    assert result({"a": 1}, "b.c") is None


def test_every_documented_function_is_named_in_the_description() -> None:
    own = set(FUNCTION_NAMES) - set(jmespath.functions.Functions.FUNCTION_TABLE)
    description = DESK.capability("json.query").capability.description
    assert own and all(name in description for name in own)


@pytest.mark.parametrize(
    "query",
    [
        "|".join(["[@,@]"] * 40),
        "|".join(["[@,@]"] * 40) + "|to_string(@)",
        "|".join(["[@,@]"] * 40) + "|[0]==[1]",
        "{a: @|$, b: @|$} | a == b".replace("$", "|".join(["[@,@]"] * 40)),
        "{a: @|$, b: @|$} | contains([a], b)".replace("$", "|".join(["[@,@]"] * 40)),
        "|".join(["[@,@]"] * 40) + "|contains(@, `1`)",
        "|".join(["[@,@]"] * 20) + "|[][][][][][][][][][][][][][][][][][][][]|[*].[@]",
        "|".join(["replace(@,'a','aaaaaaaaaa')"] * 12),
        "|".join(["map(&$,@)".replace("$", "l")] * 2) + "|[]",
        "pad_left('', `9999999`)",
        "pad_left('', `99999999999999`)",
        "from_items(zip(keys(@),keys(@)))|[*].*.*",
        "map(&map(&map(&map(&[@,@,@,@,@,@,@,@],[@,@,@,@]),[@,@,@,@]),[@,@,@,@]),[@,@,@,@])",
    ],
)
@pytest.mark.parametrize("data", ["a" * 1000, [1, 2], {"l": list(range(1000))}, list(range(2000))])
def test_a_query_that_would_explode_ends_in_bounded_work(query: str, data: Json) -> None:
    small = desk(query=QueryOptions(result_bytes_max=10_000, steps_max=100_000))
    output = small.outcome("json.query", data=data, query=query)
    if isinstance(output, NotPerformed):
        assert output.code in ("QUERY_TOO_COSTLY", "QUERY_DATA_INVALID", "QUERY_INVALID")
    else:
        assert len(json.dumps(output)) <= 10_020


def test_a_projection_over_everything_is_stopped_with_a_hint() -> None:
    cube: Json = [[list(range(100))] * 100] * 100
    error = DESK.refusal("json.query", data=cube, query="[*][*][*].[@,@,@]")
    assert error.code == "QUERY_TOO_COSTLY"
    assert "filter earlier" in error.message


@pytest.mark.parametrize(
    ("query", "data", "code", "words"),
    [
        ("a[", {}, "QUERY_INVALID", "not JMESPath"),
        ("a b", {}, "QUERY_INVALID", "not JMESPath"),
        (" ", {}, "QUERY_INVALID", "not JMESPath"),
        ("frob(@)", {}, "QUERY_INVALID", "no function 'frob'; there are abs"),
        ("abs(@)", "secret", "QUERY_INVALID", "abs() takes number, not string"),
        ("length()", {}, "QUERY_INVALID", "expected 1 argument"),
        ("join(',', @)", ["a", 1], "QUERY_INVALID", "join()"),
        ("split(@, '')", "a", "QUERY_INVALID", "not empty"),
        ("pad_left(@, `3`, 'ab')", "a", "QUERY_INVALID", "one character"),
        ("`NaN`", {}, "QUERY_DATA_INVALID", "not a JSON number"),
        ("`1e999`", {}, "QUERY_DATA_INVALID", "not a JSON number"),
        ("[" * 100 + "a" + "]" * 100, {}, "QUERY_DATA_INVALID", "nested deeper than 64"),
        ("&a", {}, "QUERY_DATA_INVALID", "is not JSON"),
        ("a[::0]", {"a": [1]}, "QUERY_INVALID", "does not fit"),
    ],
)
def test_a_wrong_query_says_what_is_wrong_and_never_quotes_the_data(
    query: str, data: Json, code: str, words: str
) -> None:
    error = DESK.refusal("json.query", data=data, query=query)
    assert error.code == code
    assert words in error.message
    assert "secret" not in error.message


def test_deeply_nested_brackets_are_refused_not_a_crash() -> None:
    error = DESK.refusal("json.query", data={}, query="!" * 3_900 + "a")
    assert error.code == "QUERY_INVALID"


def test_data_and_result_are_bounded() -> None:
    small = desk(query=QueryOptions(data_bytes_max=100, result_bytes_max=50))
    assert small.refusal("json.query", data="x" * 200, query="@").code == "QUERY_DATA_INVALID"
    assert small.refusal("json.query", data="x" * 60, query="@").code == "QUERY_DATA_INVALID"
    assert small.call("json.query", data="x" * 40, query="@")["result"] == "x" * 40


def test_the_result_shares_nothing_with_the_arguments() -> None:
    data = {"a": [1]}
    output = DESK.call("json.query", data=data, query="a")
    assert isinstance(output["result"], list)
    output["result"].append(2)
    assert data == {"a": [1]}


_LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
_DATA = st.recursive(
    _LEAF,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
_TOKENS = [
    "a",
    "b",
    "c",
    ".",
    "*",
    "[",
    "]",
    "[]",
    "[?",
    "[*]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "@",
    "&",
    "&&",
    "||",
    "|",
    "!",
    "==",
    "<",
    "'x'",
    "`1`",
    "`[]`",
    "0",
    "-1",
    '"a"',
    "'",
    "`",
    '"',
    "\\",
    "é",
]
_TOKEN = st.sampled_from([*_TOKENS, " ", *(f"{name}(" for name in FUNCTION_NAMES)])


@settings(max_examples=400, deadline=None)
@given(tokens=st.lists(_TOKEN, min_size=1, max_size=12), data=_DATA)
def test_any_text_as_a_query_gives_json_or_a_typed_refusal(tokens: list[str], data: Json) -> None:
    output = DESK.outcome("json.query", data=data, query="".join(tokens))
    if isinstance(output, NotPerformed):
        assert output.code.startswith("QUERY_")
    else:
        json.dumps(output, allow_nan=False)


@settings(max_examples=300, deadline=None)
@given(
    query=st.sampled_from(
        ["a", "a.b", "*", "[*]", "[?a]", "[?a==b]", "[]", "a||b", "[0]", "[-1]", "[:2]", "{x:a,y:b}"]
    ).flatmap(lambda first: st.sampled_from(["", ".c", "[*].a", "|[0]", "[]"]).map(lambda rest: first + rest)),
    data=_DATA,
)
def test_within_its_budget_it_answers_as_jmespath_does(query: str, data: Json) -> None:
    try:
        expected = jmespath.search(query, json.loads(json.dumps(data)))
    except jmespath.exceptions.JMESPathError:
        assert DESK.refusal("json.query", data=data, query=query).code == "QUERY_INVALID"
    else:
        assert result(data, query) == expected
