"""The part of a JSON Schema that a model's server accepts. Pure.

Servers refuse keywords they do not know. What is left out here makes the schema looser and never stricter; every
answer is validated against the whole schema afterwards.
"""

from __future__ import annotations

from chaoscore.domain.json import Json, JsonObject, is_array, is_object

STRUCTURE_KEYWORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs"}
)
OPENAI_KEYWORDS = STRUCTURE_KEYWORDS | {
    "description",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
}
ANTHROPIC_KEYWORDS = STRUCTURE_KEYWORDS | {"description"}


def loosened(schema: JsonObject, keywords: frozenset[str]) -> dict[str, Json]:
    """``schema`` with only ``keywords`` left, at every level. ``oneOf`` becomes ``anyOf``."""
    out: dict[str, Json] = {}
    for keyword, value in schema.items():
        name = "anyOf" if keyword == "oneOf" else keyword
        if name not in keywords:
            continue
        if name in ("properties", "$defs") and is_object(value):
            out[name] = {key: _member(member, keywords) for key, member in value.items()}
        elif name == "anyOf" and is_array(value):
            out[name] = [_member(member, keywords) for member in value]
        elif name in ("items", "additionalProperties"):
            out[name] = _member(value, keywords)
        else:
            out[name] = value
    return out


def _member(schema: Json, keywords: frozenset[str]) -> Json:
    return loosened(schema, keywords) if is_object(schema) else schema


def is_strict(schema: JsonObject) -> bool:
    """Whether a strict mode takes it: the top is an object, and every object is closed with all members required."""
    return schema.get("type") == "object" and _closed(schema)


def _closed(schema: Json) -> bool:
    if not is_object(schema):
        return False
    properties = schema.get("properties")
    if schema.get("type") == "object" or properties is not None:
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or not is_object(properties) or not is_array(required):
            return False
        if set(properties) != set(required) or not all(_closed(member) for member in properties.values()):
            return False
    if ("items" in schema or schema.get("type") == "array") and not _closed(schema.get("items")):
        return False
    for keyword in ("anyOf", "$defs"):
        members = schema.get(keyword, ())
        if not all(_closed(member) for member in (members.values() if is_object(members) else _listed(members))):
            return False
    return bool(schema.keys() & {"type", "anyOf", "enum", "const", "$ref"})


def _listed(value: Json) -> tuple[Json, ...]:
    return tuple(value) if is_array(value) else ()
