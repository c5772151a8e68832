"""What is sent to a server is at most as strict as what an answer is held to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.adapters.providers.schemas import OPENAI_KEYWORDS, STRUCTURE_KEYWORDS, is_strict, loosened
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.plan_schema import plan_schema
from chaoscore.domain.schema import schema_faults
from tests.planning.support import REGISTRY

CLOSED: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["a"],
    "properties": {"a": {"type": "string", "maxLength": 3, "pattern": "^x"}},
}
ANY = {"type": "string"}

leaves = st.sampled_from(
    [
        {"type": "string", "minLength": 2},
        {"type": "integer", "minimum": 3},
        {"enum": ["x", 1]},
        {"type": "null"},
        {"type": "string", "pattern": "^a"},
        {"const": 4},
    ]
)


def _object(members: dict[str, Json]) -> JsonObject:
    return {
        "type": "object",
        "properties": members,
        "required": sorted(members),
        "additionalProperties": False,
        "maxProperties": 2,
    }


schemas = st.recursive(
    leaves,
    lambda inner: (
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(_object)
        | inner.map(lambda item: {"type": "array", "items": item, "uniqueItems": True, "maxItems": 2})
        | st.lists(inner, min_size=1, max_size=3).map(lambda forms: {"oneOf": forms})
    ),
    max_leaves=6,
)
values = st.recursive(
    st.sampled_from(["x", "aa", "", 1, 3, 4, None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(schemas, values)
def test_what_the_whole_schema_allows_the_loosened_one_allows(schema: JsonObject, value: Json) -> None:
    if not schema_faults(value, schema):
        assert not schema_faults(value, loosened(schema, OPENAI_KEYWORDS))
        assert not schema_faults(value, loosened(schema, STRUCTURE_KEYWORDS))


def test_only_keywords_that_are_known_are_left_at_every_level() -> None:
    schema = loosened({**CLOSED, "$schema": "x", "maxProperties": 1, "$comment": "y"}, OPENAI_KEYWORDS)
    assert schema == {**CLOSED, "properties": {"a": {"type": "string"}}}


def test_a_property_that_is_called_like_a_keyword_stays() -> None:
    schema: JsonObject = {
        **CLOSED,
        "required": ["pattern", "oneOf"],
        "properties": {"pattern": ANY, "oneOf": ANY},
    }
    assert loosened(schema, STRUCTURE_KEYWORDS)["properties"] == {"pattern": ANY, "oneOf": ANY}


@pytest.mark.parametrize(
    "change",
    [
        {"additionalProperties": True},
        {"required": []},
        {"properties": {"a": {}}},
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": {"type": "array"}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {}}]}}},
        {"properties": {"a": True}},
        {"$defs": {"d": {"type": "object", "properties": {}}}},
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_a_schema_that_leaves_anything_open_is_not_strict(change: dict[str, Json]) -> None:
    assert is_strict(CLOSED)
    assert not is_strict({**CLOSED, **change})


def test_the_schema_of_a_plan_is_sent_as_strict() -> None:
    assert is_strict(loosened(plan_schema(REGISTRY), OPENAI_KEYWORDS))
    assert is_strict(loosened(plan_schema(REGISTRY), STRUCTURE_KEYWORDS))
