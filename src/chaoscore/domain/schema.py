"""JSON Schema 2020-12 over plain values, with errors that name the place and what to write.

The linter, the gate and the tool surface stand above it; below is the ``jsonschema`` library, loaded when first used.
A value may hold places that are not known yet (``NOT_KNOWN``): then only what is wrong whatever they turn out to be
is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Protocol, TypeVar, cast

from chaoscore.domain.errors import Fault, InvalidInput
from chaoscore.domain.json import Json, JsonObject, brief, canonical_text, is_array, is_object, pointer_join, type_name

LINTED = "checked by the plan linter, which answers every fault at once"
"""As ``$comment`` of an argument's schema: ``require_valid`` leaves that argument to the linter."""


class _NotKnown:
    def __repr__(self) -> str:
        return "a value not known yet"


NOT_KNOWN: Final[Json] = cast("Json", _NotKnown())
"""Stands for a value that a step will deliver. Not JSON: it is for ``schema_faults`` alone."""


class _Validator(Protocol):
    def iter_errors(self, instance: object) -> Iterator[_Error]: ...


class _Error(Protocol):
    absolute_path: Sequence[str | int]
    absolute_schema_path: Sequence[str | int]
    relative_schema_path: Sequence[str | int]
    context: Sequence[_Error]
    message: str
    validator: str
    validator_value: object
    instance: object
    schema: JsonObject


_T = TypeVar("_T")


def _once_per_schema(make: Callable[[JsonObject], _T]) -> Callable[[JsonObject], _T]:
    """Remember what was made of a schema *object*: writing it out as text to recognize it costs more than checking.

    Schemas are never changed once in use. The object is kept with the result, so that its identity stays its own.
    """
    made: dict[int, tuple[JsonObject, _T]] = {}

    def remembered(schema: JsonObject) -> _T:
        known = made.get(id(schema))
        if known is not None and known[0] is schema:
            return known[1]
        result = make(schema)
        if len(made) >= _REMEMBERED_MAX:
            made.clear()
        made[id(schema)] = (schema, result)
        return result

    return remembered


_REMEMBERED_MAX: Final = 512


@_once_per_schema
def _validator(schema: JsonObject) -> _Validator:
    return _compiled(canonical_text(schema))


@lru_cache(maxsize=512)
def _compiled(schema_text: str) -> _Validator:
    import json

    from jsonschema import Draft202012Validator

    return cast("_Validator", Draft202012Validator(json.loads(schema_text)))


def schema_problem(schema: JsonObject) -> str | None:
    """Why this is no usable JSON Schema 2020-12, ``None`` when it is. For whoever registers a capability."""
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
        _compiled(canonical_text(schema))
    except SchemaError as error:
        return f"{pointer_join(*error.absolute_path) or 'the schema'}: {error.message[:200]}"
    except (TypeError, ValueError) as error:
        return str(error)[:200]
    return None


def schema_faults(value: Json, schema: JsonObject, at: str = "", limit: int = 50) -> list[Fault]:
    """Everything wrong with ``value``, ordered by place; ``at`` is the pointer of ``value`` itself.

    At most about ``limit`` faults. Total: a value that cannot be checked is a fault.
    """
    found: dict[Fault, None] = {}
    partial = _holds_unknown(value)
    try:
        for error in _validator(schema).iter_errors(value):
            if not partial or _is_certain(error):
                found.update(dict.fromkeys(_to_faults(error, at)))
            if len(found) >= limit:
                break
    except Exception as error:
        # A schema of a third party (an endless reference, a bad pattern) must not open the way by failing.
        return [Fault(at, f"cannot be checked against its schema ({type(error).__name__})")]
    return sorted(found, key=lambda fault: fault.pointer)


def require_valid(value: JsonObject, schema: JsonObject) -> None:
    """Raises ``InvalidInput`` naming the first wrong key and listing all faults. Arguments whose schema is marked
    ``LINTED`` may hold anything here."""
    faults = schema_faults(value, _without_linted(schema))
    if faults:
        first = faults[0]
        raise InvalidInput(
            f"{first.pointer or 'arguments'}: {first.message}",
            key=first.pointer,
            faults=[fault.to_json() for fault in faults],
        )


@_once_per_schema
def _without_linted(schema: JsonObject) -> JsonObject:
    properties = schema.get("properties")
    if not is_object(properties):
        return schema
    linted = [key for key, part in properties.items() if is_object(part) and part.get("$comment") == LINTED]
    open_to_all: dict[str, Json] = {key: {} for key in linted}
    return {**schema, "properties": {**properties, **open_to_all}} if open_to_all else schema


# What is wrong in the shape alone stays wrong whatever the parts turn out to be.
_SHAPE = frozenset(
    {
        *("required", "additionalProperties", "type", "propertyNames", "dependentRequired"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    }
)


def _is_certain(error: _Error) -> bool:
    """Whether a value with unknown places is wrong whatever they turn out to be."""
    if isinstance(error.instance, _NotKnown):
        return False
    if not {"then", "else"}.isdisjoint(error.absolute_schema_path):
        return False  # the condition before it may have looked at an unknown place
    if error.validator in _SHAPE or not _holds_unknown(error.instance):
        return True
    if error.validator in ("anyOf", "oneOf") and error.context:
        branches: dict[str | int, bool] = {}
        for inner in error.context:
            branch = inner.relative_schema_path[0]
            branches[branch] = branches.get(branch, False) or _is_certain(inner)
        return all(branches.values())
    return False


def _holds_unknown(value: object) -> bool:
    open_values = [value]
    while open_values:
        at = open_values.pop()
        if isinstance(at, _NotKnown):
            return True
        if isinstance(at, Mapping):
            open_values.extend(at.values())
        elif isinstance(at, list | tuple):
            open_values.extend(at)
    return False


def _to_faults(error: _Error, at: str) -> list[Fault]:
    here = at + pointer_join(*error.absolute_path)
    wanted, instance = error.validator_value, cast("Json", error.instance)
    match error.validator:
        case "additionalProperties" if is_object(instance):
            return _unknown_keys(error.schema, instance, here)
        case "required" if is_object(instance) and isinstance(wanted, list):
            # The library answers once per missing key and does not say which; the caller drops what is said twice.
            missing = [key for key in wanted if key not in instance]
            return [Fault(here + pointer_join(key), f"{key!r} is required but missing") for key in missing]
        case "type":
            names = wanted if isinstance(wanted, str) else " or ".join(cast("list[str]", wanted))
            return [Fault(here, f"must be {names}, not {type_name(instance)}")]
        case "enum" if isinstance(wanted, list):
            values = ", ".join(brief(value, 40) for value in wanted[:20])
            return [Fault(here, f"{brief(instance)} is not one of the {len(wanted)} values allowed", f"use {values}")]
        case "anyOf" | "oneOf" if error.context:
            return [Fault(here, f"{brief(instance)} fits none of the forms allowed here", _forms(error))]
    size = len(instance) if isinstance(instance, str) or is_object(instance) or is_array(instance) else 0
    said = _BOUNDS.get(error.validator)
    if said is not None:
        return [Fault(here, said.format(size=size, bound=wanted, value=brief(instance)))]
    return [Fault(here, f"{brief(instance)} breaks the rule {error.validator!r} of its schema")]


_BOUNDS = {
    "minLength": "has {size} characters, at least {bound} are needed",
    "maxLength": "has {size} characters, at most {bound} are allowed",
    "minItems": "has {size} elements, at least {bound} are needed",
    "maxItems": "has {size} elements, at most {bound} are allowed",
    "minProperties": "has {size} keys, at least {bound} are needed",
    "maxProperties": "has {size} keys, at most {bound} are allowed",
    "minimum": "{value} is below the minimum of {bound}",
    "maximum": "{value} is above the maximum of {bound}",
    "exclusiveMinimum": "{value} must be above {bound}",
    "exclusiveMaximum": "{value} must be below {bound}",
    "multipleOf": "{value} is not a multiple of {bound}",
    "pattern": "{value} does not match {bound!r}",
    "uniqueItems": "has elements that are equal; each must differ",
}


def _unknown_keys(schema: JsonObject, instance: JsonObject, here: str) -> list[Fault]:
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    known = sorted(properties) if is_object(properties) else []
    unknown = [
        key
        for key in instance
        if key not in known and not (is_object(patterns) and any(re.search(pattern, key) for pattern in patterns))
    ]
    names = ", ".join(known[:40]) or "none"
    return [Fault(here + pointer_join(key), f"unknown key {brief(key)}", f"known keys: {names}") for key in unknown]


def _forms(error: _Error) -> str:
    """The first fault of every form that was tried."""
    first: dict[str | int, str] = {}
    for inner in error.context:
        branch = inner.relative_schema_path[0]
        if branch not in first:
            fault = _to_faults(inner, "")[0]
            first[branch] = f"{fault.pointer} {fault.message}".strip()
    return "either " + "; or ".join(list(first.values())[:6])
