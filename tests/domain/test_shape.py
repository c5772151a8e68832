"""What a schema says before there is a value: never wrong about what is possible."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.domain.json import Json, JsonObject, pointer_tokens, type_name
from chaoscore.domain.shape import OPEN, NoSuchPlace, Shape, elements, find, keys, misfit, say_types, types
from tests.domain.capabilities import array, closed
from tests.domain.schemas import is_valid, schemas, schemas_with_values, values_after
from tests.domain.test_json import places

TEXT: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}
NULL: JsonObject = {"type": "null"}
TREE: JsonObject = {
    "$defs": {"node": closed({"name": {"type": "string"}, "children": array({"$ref": "#/$defs/node"})})},
    "$ref": "#/$defs/node",
}
EITHER: JsonObject = {"anyOf": [closed({"a": TEXT}), closed({"b": INTEGER}), NULL]}
BOTH: JsonObject = {
    "allOf": [{"properties": {"a": {"type": ["string", "null"]}}}, {"properties": {"a": {"minLength": 1}}}],
}


@pytest.mark.parametrize(
    ("schema", "pointer", "found"),
    [
        (closed({"a": TEXT}), "/a", {"string"}),
        ({"properties": {"a": {"type": "number"}}}, "/a", {"number", "integer"}),
        (closed({"a": {"enum": [1, "x", None]}}), "/a", {"integer", "string", "null"}),
        (closed({"a": {"type": "number", "const": 1}}), "/a", {"integer"}),
        (array({"type": "boolean"}), "/12", {"boolean"}),
        ({"type": "array", "prefixItems": [NULL], "items": TEXT}, "/0", {"null"}),
        ({"type": "array", "prefixItems": [NULL], "items": TEXT}, "/1", {"string"}),
        ({"type": "object", "additionalProperties": TEXT}, "/any", {"string"}),
        (
            {"type": "object", "patternProperties": {"^x-": NULL}, "additionalProperties": False},
            "/x-a",
            {"null"},
        ),
        (TREE, "/children/3/children/0/name", {"string"}),
        (EITHER, "/a", {"string"}),
        (EITHER, "/b", {"integer"}),
        (BOTH, "/a", {"string", "null"}),
        (
            {"anyOf": [array(TEXT), {"type": "object", "additionalProperties": NULL}]},
            "/0",
            {"string", "null"},
        ),
        ({"type": ["object", "null"], "properties": {"a": NULL}}, "/a", {"null"}),
    ],
)
def test_a_place_has_the_types_its_schema_says(schema: JsonObject, pointer: str, found: set[str]) -> None:
    place = find(Shape.of(schema), pointer_tokens(pointer))
    assert isinstance(place, Shape)
    assert types(place) == found


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({}, "/a/b/0"),
        ({"type": "object"}, "/a"),
        ({"type": "object", "properties": {"a": {}}}, "/b"),
        ({"type": "object", "properties": {"a": True}}, "/a/b"),
        ({"type": "array"}, "/3"),
        ({"$ref": "https://elsewhere.example/schema"}, "/a"),
        ({"$ref": "#/nowhere"}, "/a"),
    ],
)
def test_where_a_schema_says_nothing_everything_is_possible(schema: JsonObject, pointer: str) -> None:
    assert find(Shape.of(schema), pointer_tokens(pointer)) == OPEN


@pytest.mark.parametrize(
    ("schema", "pointer", "expected"),
    [
        (closed({"a": {}, "b": {}}), "/c", NoSuchPlace((), "object", ("a", "b"))),
        (closed({"a": closed({"b": {}})}), "/a/c", NoSuchPlace(("a",), "object", ("b",))),
        (TEXT, "/a", NoSuchPlace((), "string")),
        (array(TEXT), "/name", NoSuchPlace((), "array")),
        (array(TEXT), "/-", NoSuchPlace((), "array")),
        (array(TEXT), "/01", NoSuchPlace((), "array")),
        ({"type": "array", "maxItems": 2}, "/2", NoSuchPlace((), "array")),
        ({"type": "array", "prefixItems": [{}], "items": False}, "/1", NoSuchPlace((), "array")),
        ({"properties": {"a": False}}, "/a", NoSuchPlace((), "any type", ("a",))),
        (EITHER, "/c", NoSuchPlace((), "null or object", ("a", "b"))),
        ({"type": "object", "allOf": [closed({"a": {}})]}, "/b", NoSuchPlace((), "object", ("a",))),
        (TREE, "/children/0/nam", NoSuchPlace(("children", "0"), "object", ("name", "children"))),
    ],
)
def test_a_place_that_cannot_be_is_told_with_what_there_is(
    schema: JsonObject, pointer: str, expected: NoSuchPlace
) -> None:
    assert find(Shape.of(schema), pointer_tokens(pointer)) == expected


def test_elements_and_keys_look_through_references_and_choices() -> None:
    assert keys(Shape.of(TREE)) == ("name", "children")
    children = find(Shape.of(TREE), ["children"])
    assert isinstance(children, Shape)
    assert keys(elements(children)) == ("name", "children")
    assert elements(Shape.of({"anyOf": [array(TEXT), NULL]})).schema == TEXT
    assert elements(Shape.of({"type": "array"})) == OPEN
    assert types(elements(Shape.of({"prefixItems": [NULL], "items": TEXT}))) == {
        "null",
        "string",
    }


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (INTEGER, {"type": "number"}, None),
        ({"type": "number"}, INTEGER, "needs integer, gets number"),
        ({"type": ["number", "string"]}, INTEGER, "needs integer, gets number or string"),
        ({"type": ["number", "string"]}, {"type": ["integer", "string"]}, None),
        ({}, INTEGER, None),
        (INTEGER, {}, None),
        (TEXT, {"enum": [1, 2]}, "needs integer, gets string"),
        ({"type": "number"}, {"enum": [1, 2.5]}, None),
        (array(TEXT), array(INTEGER), "its elements: needs integer, gets string"),
        (array(TEXT), {"type": "array"}, None),
        (
            array(array(NULL)),
            array(array(TEXT)),
            "its elements: its elements: needs string, gets null",
        ),
        (
            {"anyOf": [TEXT, array(TEXT)]},
            array(INTEGER),
            "its elements: needs integer, gets string",
        ),
        (closed({"a": TEXT}), closed({"b": {}}, ["b"]), "needs an object with 'b', gets one with a"),
        (closed({"a": TEXT}), closed({"a": NULL}, ["a"]), "'a': needs null, gets string"),
        (closed({"a": TEXT}), closed({"a": NULL}), None),
        ({"type": "object"}, closed({"b": {}}, ["b"]), None),
        (TREE, TREE, None),
    ],
)
def test_whether_one_place_fits_another(source: JsonObject, target: JsonObject, why: str | None) -> None:
    assert misfit(Shape.of(source), Shape.of(target)) == why


@pytest.mark.parametrize(
    ("names", "words"),
    [({"number", "integer"}, "number"), ({"string", "null"}, "null or string"), (set(), "nothing")],
)
def test_types_are_said_in_words(names: set[str], words: str) -> None:
    assert say_types(names) == words


def test_a_schema_that_refers_to_itself_without_end_says_nothing() -> None:
    assert types(Shape.of({"$ref": "#"})) == types(OPEN)
    assert find(Shape.of({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}), ["a"]) == OPEN


# -- laws ------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(schemas_with_values())
def test_a_place_that_a_valid_value_has_is_never_said_to_be_impossible(pair: tuple[JsonObject, Json]) -> None:
    schema, value = pair
    if not is_valid(value, schema):
        return
    for tokens, part in places(value):
        place = find(Shape.of(schema), [str(token) for token in tokens])
        assert isinstance(place, Shape), tokens
        assert type_name(part) in types(place), tokens


def holds(value: Json, kinds: tuple[Json, ...]) -> bool:
    return any(part in kinds and not isinstance(part, bool) for _, part in places(value))


@settings(max_examples=150)
@given(schemas, schemas, st.data())
def test_what_one_value_shows_to_fit_is_never_said_not_to_fit(
    source: JsonObject, target: JsonObject, data: st.DataObject
) -> None:
    value = data.draw(values_after(source, source))
    if not is_valid(value, source) or not is_valid(value, target):
        return
    empty = any(part == [] for _, part in places(value))
    whole = any(type_name(part) == "integer" for _, part in places(value))
    if not empty and not whole:  # an empty array fits any array, a whole number any integer: both are said not to
        assert misfit(Shape.of(source), Shape.of(target)) is None
