"""Checks on an output: every operator by table, and total for any output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.evaluation import OPERATORS, TYPE_NAMES, Check, Operator, apply_check, apply_checks
from chaoscore.domain.json import Json, equal, pointer_join, resolve_pointer
from tests.domain.plans import pointers
from tests.domain.test_json import places
from tests.domain.values import json_values, nested, wild_json

TABLE: list[tuple[Operator, Json, Json, bool]] = [
    ("eq", 1, 1, True),
    ("eq", 1, 1.0, True),
    ("eq", 1, True, False),
    ("eq", None, None, True),
    ("eq", None, False, False),
    ("eq", "a", "a", True),
    ("eq", "1", 1, False),
    ("eq", [1, {"a": 2}], [1, {"a": 2.0}], True),
    ("eq", [1, 2], [2, 1], False),
    ("ne", 1, 2, True),
    ("ne", 1, 1.0, False),
    ("ne", True, 1, True),
    ("ne", "a", None, True),
    ("lt", 1, 2, True),
    ("lt", 2, 2, False),
    ("lt", "a", "b", True),
    ("lt", "B", "a", True),
    ("lt", "1", 2, False),
    ("lt", 1, "2", False),
    ("lt", True, 2, False),
    ("lt", 0, True, False),
    ("lt", None, 1, False),
    ("lt", [1], [2], False),
    ("le", 2, 2, True),
    ("le", 2.5, 2, False),
    ("gt", 3, 2.5, True),
    ("gt", 2, 2, False),
    ("gt", 2**53 + 1, float(2**53), True),
    ("ge", 2, 2, True),
    ("ge", "b", "a", True),
    ("ge", "a", "b", False),
    ("in", 1, [2, 1.0], True),
    ("in", 1, [True], False),
    ("in", "a", "abc", False),
    ("in", 1, [], False),
    ("in", {"a": 1}, [{"a": 1}], True),
    ("in", 1, {"1": 1}, False),
    ("contains", "abc", "b", True),
    ("contains", "abc", "", True),
    ("contains", "abc", "d", False),
    ("contains", "a1", 1, False),
    ("contains", [1, "b"], "b", True),
    ("contains", [1], True, False),
    ("contains", [[1]], [1], True),
    ("contains", {"a": 1}, "a", True),
    ("contains", {"a": 1}, 1, False),
    ("contains", 12, 1, False),
    ("contains", None, None, False),
    ("exists", None, None, True),
    ("exists", "", None, True),
    ("absent", None, None, False),
    ("type", None, "null", True),
    ("type", True, "boolean", True),
    ("type", True, "integer", False),
    ("type", 1, "integer", True),
    ("type", 1, "number", True),
    ("type", 1.0, "integer", True),
    ("type", 1.5, "integer", False),
    ("type", 1.5, "number", True),
    ("type", "", "string", True),
    ("type", [], "array", True),
    ("type", {}, "object", True),
    ("type", {}, "array", False),
    ("length", "äb", 2, True),
    ("length", "\U0001f600", 1, True),
    ("length", [], 0, True),
    ("length", [1, 2], 2.0, True),
    ("length", {"a": 1}, 1, True),
    ("length", [1], True, False),
    ("length", [1], "1", False),
    ("length", 3, 3, False),
    ("length", None, 0, False),
]


@pytest.mark.parametrize(("op", "found", "value", "holds"), TABLE)
def test_an_operator_holds_or_not(op: Operator, found: Json, value: Json, holds: bool) -> None:
    assert apply_check(Check("/x", op, value), {"x": found}).passed is holds
    assert apply_check(Check("", op, value), found).passed is holds


def test_the_table_covers_every_operator_both_ways() -> None:
    tried = {(op, holds) for op, _, _, holds in TABLE}
    never = {("exists", False), ("absent", True)}  # those two depend on the path alone
    assert {(op, holds) for op in OPERATORS for holds in (True, False)} - tried == never


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("path", ["/nope", "/list/7", "/list/-", "/text/0", "not a pointer", "/~"])
@pytest.mark.parametrize("every", [True, False])
def test_a_missing_path_fails_every_check_but_absent(op: Operator, path: str, every: bool) -> None:
    result = apply_check(Check(path, op, "x", every), {"list": [1], "text": "x"})
    assert result.passed is (op == "absent")
    assert repr(path) in result.reason


def test_a_present_path_fails_absent() -> None:
    result = apply_check(Check("/a", "absent"), {"a": None})
    assert (result.passed, result.reason) == (False, "'/a' is present")


@pytest.mark.parametrize(
    ("output", "op", "value", "passed", "reason"),
    [
        ([1, 2, 3], "gt", 0, True, "all 3 elements of '' satisfy gt 0"),
        ([], "gt", 0, True, "all 0 elements of '' satisfy gt 0"),
        ([1, 0, -1], "gt", 0, False, "/1 does not satisfy gt 0"),
        ("abc", "eq", "a", False, "'' is string, not an array"),
        ({"a": 1}, "exists", None, False, "'' is object, not an array"),
        ([None], "exists", None, True, "all 1 elements of '' satisfy exists"),
    ],
)
def test_every_applies_to_each_element_of_an_array(
    output: Json, op: Operator, value: Json, passed: bool, reason: str
) -> None:
    result = apply_check(Check("", op, value, every=True), output)
    assert (result.passed, result.reason) == (passed, reason)


def test_a_result_says_what_was_checked() -> None:
    assert apply_check(Check("/n", "lt", 5), {"n": 9}).reason == "'/n' does not satisfy lt 5"
    assert apply_check(Check("/n", "lt", 5), {"n": 1}).reason == "'/n' satisfies lt 5"
    assert len(apply_check(Check("/n", "eq", "x" * 100_000), {"n": 1}).reason) < 200


def test_checks_are_applied_in_order_and_all_of_them() -> None:
    checks = [Check("/a", "exists"), Check("/b", "exists"), Check("/a", "eq", 1)]
    assert [result.passed for result in apply_checks(checks, {"a": 1})] == [True, False, True]


checks = st.builds(
    Check, st.one_of(pointers, st.text(max_size=4)), st.sampled_from(OPERATORS), wild_json, st.booleans()
)


@given(checks, wild_json)
def test_a_check_is_total(check: Check, output: Json) -> None:
    result = apply_check(check, output)
    assert isinstance(result.passed, bool)
    assert result.reason


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("every", [True, False])
def test_a_check_reaches_any_depth(op: Operator, every: bool) -> None:
    deep = nested(20_000)
    apply_check(Check("", op, deep, every), deep)
    apply_check(Check("", op, [deep], every), deep)


@given(json_values, json_values, json_values)
def test_operators_agree_with_one_another(found: Json, value: Json, other: Json) -> None:
    def holds(op: Operator, against: Json) -> bool:
        return apply_check(Check("", op, against), found).passed

    assert holds("eq", value) is not holds("ne", value)
    assert holds("in", [value, other]) is (holds("eq", value) or holds("eq", other))
    assert not (holds("lt", value) and holds("gt", value))
    assert (holds("lt", value) or holds("eq", value)) >= holds("le", value)
    assert (holds("gt", value) or holds("eq", value)) >= holds("ge", value)
    assert holds("eq", found)
    assert sum(holds("type", name) for name in TYPE_NAMES) in (1, 2)  # an integer is a number too


@given(json_values)
def test_every_place_of_an_output_exists_and_equals_itself(output: Json) -> None:
    for tokens, part in places(output):
        pointer = pointer_join(*tokens)
        assert apply_check(Check(pointer, "exists"), output).passed
        assert apply_check(Check(pointer, "eq", part), output).passed
        assert equal(resolve_pointer(output, pointer), part)
