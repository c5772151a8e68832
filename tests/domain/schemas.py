"""JSON Schemas as Hypothesis draws them, and values drawn after them (most are valid, none is sure to be)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.schema import schema_faults
from chaoscore.domain.shape import TYPES
from tests.domain.values import json_values

NAMES = ("a", "b", "0", "x/y")
names = st.sampled_from(NAMES)
literals = st.sampled_from([None, True, False, 0, 1, 1.5, 2.0, "", "a", "low", [], [1], {}, {"a": 1}])

scalar_schemas: st.SearchStrategy[Json] = st.one_of(
    st.sampled_from(sorted(TYPES)).map(lambda name: {"type": name}),
    st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True).map(lambda types: {"type": types}),
    st.lists(literals, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    literals.map(lambda value: {"const": value}),
    st.just({}),
    st.just(True),
    st.just({"type": "integer", "minimum": 0}),
    st.just({"type": "string", "minLength": 1}),
)


def _objects(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(names, parts, max_size=3)},
        optional={
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": st.one_of(st.booleans(), parts),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), parts, max_size=1),
            "minProperties": st.integers(0, 1),
        },
    )


def _arrays(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": parts,
            "prefixItems": st.lists(parts, min_size=1, max_size=2),
            "maxItems": st.integers(1, 3),
            "uniqueItems": st.booleans(),
            "contains": parts,
        },
    )


def _combined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda branches: {"anyOf": branches}),
        several.map(lambda branches: {"oneOf": branches}),
        several.map(lambda branches: {"allOf": branches}),
        parts.map(lambda branch: {"not": branch}),
        st.tuples(parts, parts, parts).map(lambda three: {"if": three[0], "then": three[1], "else": three[2]}),
        st.just({"$ref": "#/$defs/part"}),
        st.tuples(_objects(parts), several).map(lambda pair: {**pair[0], "anyOf": pair[1]}),
    )


parts = st.recursive(
    scalar_schemas, lambda inner: st.one_of(_objects(inner), _arrays(inner), _combined(inner)), max_leaves=8
)
schemas: st.SearchStrategy[JsonObject] = st.builds(
    lambda root, part: {**(root if isinstance(root, dict) else {}), "$defs": {"part": part}},
    st.one_of(_objects(parts), _arrays(parts), parts),
    st.one_of(scalar_schemas, _objects(scalar_schemas)),
)


@st.composite
def values_after(draw: st.DrawFn, schema: Any, root: Any, depth: int = 0) -> Any:
    """A value that follows the schema as far as a quick look tells."""
    if not isinstance(schema, dict) or depth > 4:
        return draw(json_values)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "$ref" in schema:
        return draw(values_after(root["$defs"]["part"], root, depth + 1))
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema and "type" not in schema:
            return draw(values_after(draw(st.sampled_from(schema[keyword])), root, depth + 1))
    declared = schema.get("type")
    kind = draw(st.sampled_from(declared)) if isinstance(declared, list) else declared
    if kind == "object":
        return _draw_object(draw, schema, root, depth)
    if kind == "array":
        members = [*schema.get("prefixItems", [])] + [schema.get("items", True)] * draw(st.integers(0, 2))
        drawn: list[Json] = [draw(values_after(member, root, depth + 1)) for member in members]
        return drawn[: schema.get("maxItems", 9)]
    return draw(_OF_KIND.get(str(kind), json_values))


_OF_KIND: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "integer": st.integers(-3, 3),
    "number": st.one_of(st.integers(-3, 3), st.sampled_from([0.5, 2.0, -1.5])),
    "string": st.sampled_from(["", "a", "low", "é"]),
}


def _draw_object(draw: st.DrawFn, schema: dict[str, Any], root: Any, depth: int) -> Json:
    properties = schema.get("properties", {})
    wanted = {*schema.get("required", []), *draw(st.lists(st.sampled_from([*properties, "a"]), max_size=3))}
    found: dict[str, Json] = {}
    for key in sorted(wanted):
        member = properties.get(key, schema.get("additionalProperties", True))
        if member is not False:
            found[key] = draw(values_after(member, root, depth + 1))
    return found


@st.composite
def schemas_with_values(draw: st.DrawFn) -> tuple[JsonObject, Json]:
    schema = draw(schemas)
    return schema, draw(values_after(schema, schema))


def is_valid(value: Json, schema: JsonObject) -> bool:
    return not schema_faults(value, schema)
