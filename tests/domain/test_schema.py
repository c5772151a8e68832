"""Schema faults: each with its place, once, in words; and with unknown places, only what is certainly wrong."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.domain.errors import Fault, InvalidInput
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.schema import LINTED, NOT_KNOWN, require_valid, schema_faults, schema_problem
from tests.domain.capabilities import closed
from tests.domain.schemas import is_valid, schemas_with_values
from tests.domain.test_json import places

TEXT: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}


@pytest.mark.parametrize(
    ("value", "schema", "pointer", "message", "suggestion"),
    [
        (1, TEXT, "", "must be string, not integer", None),
        (None, {"type": ["string", "integer"]}, "", "must be string or integer, not null", None),
        ({"a": 1}, closed({"a": TEXT}), "/a", "must be string, not integer", None),
        ({}, closed({"a": TEXT}, ["a"]), "/a", "'a' is required but missing", None),
        ({"x/y": 1}, closed({"a": TEXT}), "/x~1y", "unknown key 'x/y'", "known keys: a"),
        ({"b": 1}, closed({}), "/b", "unknown key 'b'", "known keys: none"),
        ("c", {"enum": ["a", 1]}, "", "'c' is not one of the 2 values allowed", "use 'a', 1"),
        ("c", {"const": "a"}, "", "'c' breaks the rule 'const' of its schema", None),
        ("abc", {"maxLength": 2}, "", "has 3 characters, at most 2 are allowed", None),
        ("", {"minLength": 1}, "", "has 0 characters, at least 1 are needed", None),
        ([1], {"minItems": 2}, "", "has 1 elements, at least 2 are needed", None),
        ([1, 2], {"maxItems": 1}, "", "has 2 elements, at most 1 are allowed", None),
        ({}, {"minProperties": 1}, "", "has 0 keys, at least 1 are needed", None),
        ([1, 1], {"uniqueItems": True}, "", "has elements that are equal; each must differ", None),
        (0, {"minimum": 1}, "", "0 is below the minimum of 1", None),
        (3, {"maximum": 2}, "", "3 is above the maximum of 2", None),
        (1, {"exclusiveMinimum": 1}, "", "1 must be above 1", None),
        (2, {"exclusiveMaximum": 2}, "", "2 must be below 2", None),
        (3, {"multipleOf": 2}, "", "3 is not a multiple of 2", None),
        ("x", {"pattern": "^a"}, "", "'x' does not match '^a'", None),
        (
            {"v": True},
            closed({"v": {"anyOf": [TEXT, INTEGER]}}),
            "/v",
            "true fits none of the forms allowed here",
            "either /v must be string, not boolean; or /v must be integer, not boolean",
        ),
    ],
)
def test_a_fault_says_what_is_wrong_and_what_to_write(
    value: Json, schema: JsonObject, pointer: str, message: str, suggestion: str | None
) -> None:
    assert schema_faults(value, schema) == [Fault(pointer, message, suggestion)]


def test_every_missing_key_is_named_once() -> None:
    found = schema_faults({}, closed({"a": TEXT, "b": TEXT, "c": TEXT}, ["a", "b", "c"]), at="/arguments")
    assert [fault.pointer for fault in found] == ["/arguments/a", "/arguments/b", "/arguments/c"]


def test_a_key_that_a_pattern_allows_is_not_unknown() -> None:
    schema = {**closed({}), "patternProperties": {"^x-": {}}}
    assert [fault.pointer for fault in schema_faults({"x-a": 1, "y": 2}, schema)] == ["/y"]


def test_a_huge_wrong_value_makes_no_huge_message() -> None:
    (fault,) = schema_faults("x" * 1_000_000, {"enum": ["a"]})
    assert len(fault.message) < 200


def test_many_faults_are_cut() -> None:
    assert len(schema_faults([None] * 10_000, {"items": TEXT})) == 50


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"$ref": "https://elsewhere.example/x"}, {"pattern": "("}])
def test_a_schema_that_cannot_be_used_is_a_fault_and_opens_nothing(schema: JsonObject) -> None:
    (fault,) = schema_faults("x", schema)
    assert "cannot be checked" in fault.message


def test_arguments_that_break_their_schema_are_refused_naming_the_first_key() -> None:
    with pytest.raises(InvalidInput) as raised:
        require_valid({"b": 1}, closed({"a": TEXT}, ["a"]))
    assert raised.value.details["key"] == "/a"
    assert raised.value.message == "/a: 'a' is required but missing"
    faults = raised.value.details["faults"]
    assert isinstance(faults, list)
    assert len(faults) == 2


def test_an_argument_left_to_the_linter_may_hold_anything() -> None:
    schema = closed({"steps": {"$comment": LINTED, "type": "array"}, "n": INTEGER}, ["steps"])
    require_valid({"steps": "anything"}, schema)
    with pytest.raises(InvalidInput):
        require_valid({"steps": "anything", "n": "x"}, schema)
    with pytest.raises(InvalidInput):
        require_valid({}, schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [({"type": "strin"}, "/type"), ({"properties": []}, "/properties"), ({"minimum": "1"}, "/minimum")],
)
def test_a_schema_that_is_none_is_told_apart(schema: JsonObject, words: str) -> None:
    assert words in (schema_problem(schema) or "")
    assert schema_problem({"type": "string"}) is None


# -- values that are not known yet -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (NOT_KNOWN, TEXT),
        ({"a": NOT_KNOWN}, closed({"a": {"enum": [1]}}, ["a"])),
        ([NOT_KNOWN, NOT_KNOWN], {"uniqueItems": True}),
        ({"a": NOT_KNOWN}, {"enum": [{"a": 1}]}),
        ({"a": NOT_KNOWN}, {"not": {"required": ["a"], "properties": {"a": {"const": 1}}}}),
        ([NOT_KNOWN], {"contains": TEXT}),
        ({"a": NOT_KNOWN}, {"anyOf": [closed({"a": TEXT}), closed({"a": INTEGER})]}),
        ({"a": NOT_KNOWN}, {"anyOf": [closed({"b": TEXT}), closed({"a": TEXT})]}),
        ({"a": NOT_KNOWN}, {"if": {"properties": {"a": {"const": 1}}}, "then": {}, "else": {"required": ["b"]}}),
    ],
)
def test_what_may_turn_out_right_is_no_fault(value: Json, schema: JsonObject) -> None:
    assert schema_faults(value, schema) == []


@pytest.mark.parametrize(
    ("value", "schema", "pointer"),
    [
        ({"a": NOT_KNOWN}, closed({"b": TEXT}), "/a"),
        ({"a": NOT_KNOWN}, closed({"a": TEXT, "b": TEXT}, ["b"]), "/b"),
        ({"a": NOT_KNOWN, "b": 1}, closed({"a": TEXT, "b": TEXT}), "/b"),
        ([NOT_KNOWN, 1], {"items": TEXT}, "/1"),
        ([NOT_KNOWN], {"minItems": 2}, ""),
        ([NOT_KNOWN], {"type": "object"}, ""),
        ({"v": {"a": NOT_KNOWN}}, closed({"v": {"anyOf": [closed({"b": {}}), TEXT]}}), "/v"),
    ],
)
def test_what_is_wrong_whatever_comes_is_a_fault(value: Json, schema: JsonObject, pointer: str) -> None:
    assert [fault.pointer for fault in schema_faults(value, schema)] == [pointer]


def without(value: Json, tokens: tuple[str | int, ...]) -> Json:
    if not tokens:
        return NOT_KNOWN
    changed: Any = copy.deepcopy(value)
    at = changed
    for token in tokens[:-1]:
        at = at[token]
    at[tokens[-1]] = NOT_KNOWN
    return cast("Json", changed)


@settings(max_examples=150)
@given(schemas_with_values(), st.data())
def test_a_valid_value_stays_without_fault_whatever_part_of_it_is_not_known(
    pair: tuple[JsonObject, Json], data: st.DataObject
) -> None:
    schema, value = pair
    if is_valid(value, schema):
        tokens = data.draw(st.sampled_from([tokens for tokens, _ in places(value)]))
        assert schema_faults(without(value, tokens), schema) == []
