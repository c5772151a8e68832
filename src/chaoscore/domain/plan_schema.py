"""The form of a plan's steps as JSON Schema: one for those who write plans over MCP, one strict for model providers.

``PLAN_SCHEMA`` describes the array that ``chaoscore.domain.lint`` reads. ``plan_schema`` is the same in the form that
strict modes of providers enforce while a model writes: every object closed, every key required, ``null`` for what is
left out, each capability with its own arguments. ``from_strict`` turns the answer back into the array.

A strict schema cannot say "any object", and ``null`` is taken for "left out". Where a capability takes either, the
strict form takes ``{"$json": "<JSON text>"}``, which ``from_strict`` puts in as the value it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from chaoscore.domain.capability import Capability
from chaoscore.domain.draft import EXPECT_MAX, NESTING_MAX, STEP_ID, WHY_CHARS_MAX
from chaoscore.domain.evaluation import OPERATORS, TYPE_NAMES, Operator
from chaoscore.domain.faults import NAME_CHARS_MAX
from chaoscore.domain.json import Json, JsonObject, is_array, is_object, type_name
from chaoscore.domain.limits import Limits
from chaoscore.domain.schema import LINTED

_POINTER_PATTERN = "^(/([^~/]|~0|~1)*)*$"
_POINTER_WORDS = "JSON Pointer: '' is the whole value, '/items/0/id' a part of it"


def _text(words: str, chars_max: int | None = None) -> dict[str, Json]:
    return {"type": "string", "description": words} | ({} if chars_max is None else {"maxLength": chars_max})


_POINTER: JsonObject = {"type": "string", "pattern": _POINTER_PATTERN, "description": _POINTER_WORDS}
_STEP_ID: JsonObject = {"type": "string", "pattern": f"^{STEP_ID.pattern}$"}

PLAN_SCHEMA: JsonObject = {
    "$comment": LINTED,
    "type": "array",
    "minItems": 1,
    "maxItems": Limits().steps_max,
    "description": "the steps of a plan, in an order in which they can run",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["id", "capability"],
        "properties": {
            "id": {**_STEP_ID, "description": "unique in the plan: s1, s2, …"},
            "capability": _text("the exact name of a capability", NAME_CHARS_MAX),
            "arguments": {
                "type": "object",
                "description": "what the capability's input schema asks for. In place of any value may stand one "
                'of an earlier step, {"$from": "s1", "path": "/body"}, or, under for_each, of the item, '
                '{"$item": "/path"}; never inside text. A literal key that begins with $ doubles it: "$$…"',
            },
            "after": {
                "type": "array",
                "items": _STEP_ID,
                "description": "ids of earlier steps that must have succeeded, beside those referred to",
            },
            "why": _text("why the step is there, for the person who approves it", WHY_CHARS_MAX),
            "expect": {
                "type": "array",
                "maxItems": EXPECT_MAX,
                "description": "checks on the step's output; one that fails makes the step fail",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["path", "op"],
                    "properties": {
                        "path": _POINTER,
                        "op": {"enum": list(OPERATORS), "description": "exists and absent take no value"},
                        "value": {"description": "what to compare with"},
                        "every": {"type": "boolean", "description": "check each element of the array at path"},
                    },
                },
            },
            "on_error": {"enum": ["stop", "continue"], "description": "stop (default) ends the plan when this fails"},
            "for_each": {
                "type": "object",
                "description": "run the step once per element of an array that an earlier step delivers; the step's "
                "output is then the array of results",
                "additionalProperties": False,
                "required": ["$from", "max"],
                "properties": {
                    "$from": _STEP_ID,
                    "path": _POINTER,
                    "max": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": Limits().items_max,
                        "description": "more elements than this fail the step before any of them runs",
                    },
                },
            },
        },
    },
    "examples": [
        [
            {"id": "s1", "capability": "fs.list", "arguments": {"path": "docs", "glob": "*.md"}},
            {
                "id": "s2",
                "capability": "fs.read_text",
                "for_each": {"$from": "s1", "path": "/entries", "max": 100},
                "arguments": {"path": {"$item": "/path"}},
            },
        ]
    ],
}


def plan_schema(capabilities: Mapping[str, Capability], limits: Limits | None = None) -> dict[str, Json]:
    """The strict form of a plan, ``{"steps": […]}``, over the capabilities given (at least one).

    Only ``type``, ``enum``, ``const``, ``anyOf``, ``properties``, ``required``, ``additionalProperties``, ``items``,
    ``$ref``, ``pattern`` and ``description`` occur; bounds are the linter's to check.
    """
    steps_max = (limits or Limits()).steps_max
    ids: list[Json] = [f"s{number}" for number in range(1, min(steps_max, 50) + 1)]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["steps"],
        "properties": {
            "steps": {
                "type": "array",
                "description": "in an order in which they can run",
                "items": {"anyOf": [_strict_step(capability) for capability in capabilities.values()]},
            }
        },
        "$defs": {
            "step": {"type": "string", "enum": ids},
            "pointer": _POINTER,
            "from": _closed({"$from": _ref("step"), "path": _ref("pointer")}, "a value of an earlier step's output"),
            "item": _closed({"$item": _ref("pointer")}, "a value of the current item; only under for_each"),
            "json": _closed({"$json": _text("a JSON text")}, "any JSON value, written as text"),
            "check": {"anyOf": [_strict_check(ops, value) for ops, value in _CHECK_FORMS]},
            "for_each": _closed(
                {"$from": _ref("step"), "path": _ref("pointer"), "max": {"type": "integer"}},
                "run the step once per element of an earlier step's array, at most max",
            ),
        },
    }


def from_strict(raw: Json) -> Json:
    """The array of steps in what a model wrote after ``plan_schema``: nulls left out, ``$json`` put in as values.

    Total: what does not follow the schema stays as it is, for ``parse_steps`` to name.
    """
    steps = raw.get("steps") if is_object(raw) and set(raw) == {"steps"} else raw
    return _plain(steps, 0)


def _plain(value: Json, depth: int) -> Json:
    if depth > 2 * NESTING_MAX:
        return value  # too deep for any plan; the linter says so
    if is_array(value):
        return [_plain(element, depth + 1) for element in value]
    if not is_object(value):
        return value
    text = value.get("$json")
    if len(value) == 1 and isinstance(text, str):
        try:
            read: Json = json.loads(text)
        except (ValueError, RecursionError):
            return value
        return read
    return {key: _plain(member, depth + 1) for key, member in value.items() if member is not None}


def _strict_check(operators: tuple[Operator, ...], value: JsonObject) -> dict[str, Json]:
    words = "a check on the step's output"
    op: JsonObject = {"type": "string", "enum": [*operators]}
    every = _nullable({"type": "boolean"})
    return _closed({"path": _ref("pointer"), "op": op, "value": value, "every": every}, words)


def _strict_step(capability: Capability) -> dict[str, Json]:
    return _closed(
        {
            "id": _ref("step"),
            "capability": {"type": "string", "enum": [capability.name]},
            "arguments": _strict_object(capability.input_schema, 0) or _ref("json"),
            "after": _nullable({"type": "array", "items": _ref("step")}),
            "why": _nullable(_text("why the step is there")),
            "expect": _nullable({"type": "array", "items": _ref("check")}),
            "on_error": _nullable({"type": "string", "enum": ["stop", "continue"]}),
            "for_each": _nullable(_ref("for_each")),
        },
        capability.description[:500],
    )


def _closed(properties: JsonObject, words: str = "") -> dict[str, Json]:
    out: dict[str, Json] = {"type": "object"}
    if words:
        out["description"] = words
    return out | {"additionalProperties": False, "required": list(properties), "properties": properties}


def _ref(name: str) -> dict[str, Json]:
    return {"$ref": f"#/$defs/{name}"}


def _nullable(schema: JsonObject) -> dict[str, Json]:
    forms = schema.get("anyOf")
    if len(schema) == 1 and is_array(forms):
        return {"anyOf": [*forms, {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


_SCALARS: tuple[JsonObject, ...] = ({"type": "string"}, {"type": "number"}, {"type": "boolean"})
_ANY_LITERAL: JsonObject = {"anyOf": [*_SCALARS, _ref("json")]}
_CHECK_FORMS: tuple[tuple[tuple[Operator, ...], JsonObject], ...] = (
    (("exists", "absent"), {"type": "null"}),
    (("eq", "ne", "contains"), _ANY_LITERAL),
    (("lt", "le", "gt", "ge"), {"type": ["number", "string"]}),
    (("in",), {"type": "array", "items": _ANY_LITERAL}),
    (("type",), {"type": "string", "enum": [*TYPE_NAMES]}),
    (("length",), {"type": "integer"}),
)
"""Which operator takes which value."""

_DEPTH_MAX = 5
_KEPT = ("type", "enum", "const", "description")
_COMBINING = frozenset({"$ref", "allOf", "not", "if", "then", "else", "patternProperties", "$dynamicRef"})


def _value_or_reference(schema: Json, depth: int) -> dict[str, Json]:
    """A value of this schema, or a reference to one."""
    return {"anyOf": [*_strict_forms(schema, depth), _ref("from"), _ref("item")]}


def _strict_forms(schema: Json, depth: int) -> list[dict[str, Json]]:
    """The forms that a value of this schema can take in a strict schema; never ``null``."""
    anything: list[dict[str, Json]] = [*(dict(scalar) for scalar in _SCALARS), _ref("json")]
    if not is_object(schema) or depth > _DEPTH_MAX:
        return anything
    if schema.keys() & _COMBINING:
        return [_ref("json")] if _is_container(schema) else anything
    branches = schema.get("anyOf", schema.get("oneOf"))
    if is_array(branches) and not schema.keys() & {"type", "properties"}:
        found = [form for branch in branches for form in _strict_forms(branch, depth + 1)]
        return _distinct(found) or anything
    declared = schema.get("type")
    if is_array(declared):
        split = [{**schema, "type": name} for name in declared]
        return _distinct([form for one in split for form in _strict_forms(one, depth)]) or anything
    if declared == "object":
        strict = _strict_object(schema, depth)
        return [strict, _ref("json")] if strict is not None else [_ref("json")]
    if declared == "array":
        return [_strict_array(schema, depth)]
    if declared == "null":
        return [_ref("json")]
    if declared is None and not ("enum" in schema or "const" in schema):
        return anything
    return [_strict_scalar(schema)]


def _strict_scalar(schema: JsonObject) -> dict[str, Json]:
    values = schema["enum"] if is_array(schema.get("enum")) else [schema["const"]] if "const" in schema else None
    if not is_array(values):
        return {key: schema[key] for key in ("type", "description") if key in schema}
    if any(value is None or is_object(value) or is_array(value) for value in values):
        return _ref("json")
    kinds = sorted({type_name(value) for value in values})
    kind: Json = kinds[0] if len(kinds) == 1 else [*kinds]
    return {"type": kind, **{key: schema[key] for key in _KEPT if key in schema}}


def _strict_array(schema: JsonObject, depth: int) -> dict[str, Json]:
    if "prefixItems" in schema:
        return _ref("json")
    out: dict[str, Json] = {"type": "array", "items": _value_or_reference(schema.get("items", True), depth + 1)}
    return {**out, "description": schema["description"]} if "description" in schema else out


def _strict_object(schema: JsonObject, depth: int) -> dict[str, Json] | None:
    """A closed object; ``None`` when the schema does not name its keys."""
    properties, required = schema.get("properties"), schema.get("required")
    needed = required if is_array(required) else ()
    if not is_object(properties) or any(key not in properties for key in needed):
        return None
    if not properties and schema.get("additionalProperties") is not False:
        return None
    if "patternProperties" in schema or "allOf" in schema or "$ref" in schema:
        return None
    members: dict[str, Json] = {}
    for key, member in properties.items():
        strict = _value_or_reference(member, depth + 1)
        members[f"${key}" if key.startswith("$") else key] = strict if key in needed else _nullable(strict)
    words = schema.get("description")
    return _closed(members, words if isinstance(words, str) else "")


def _is_container(schema: JsonObject) -> bool:
    return schema.get("type") in ("object", "array")


def _distinct(forms: list[dict[str, Json]]) -> list[dict[str, Json]]:
    out: list[dict[str, Json]] = []
    for form in forms:
        if form not in out:
            out.append(form)
    return out
