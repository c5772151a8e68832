"""JSON Schema 2020-12 over plain values, with errors that name the place and what to write."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol, cast

from chaoscore.domain.errors import Fault, InvalidInput
from chaoscore.domain.json import Json, JsonObject, canonical_text, pointer_join, type_name


class _Validator(Protocol):
    def iter_errors(self, instance: object) -> Iterator[_Error]: ...


class _Error(Protocol):
    absolute_path: Iterator[str | int]
    message: str
    validator: str
    validator_value: object
    instance: object
    schema: JsonObject


@lru_cache(maxsize=512)
def _compiled(schema_text: str) -> _Validator:
    import json

    from jsonschema import Draft202012Validator

    return cast("_Validator", Draft202012Validator(json.loads(schema_text)))


def schema_faults(value: Json, schema: JsonObject, at: str = "", limit: int = 50) -> list[Fault]:
    """Everything wrong with ``value``, in document order; ``at`` is the pointer of ``value`` itself."""
    found: list[Fault] = []
    for error in _compiled(canonical_text(schema)).iter_errors(value):
        found.extend(_to_faults(error, at))
        if len(found) >= limit:
            break
    return sorted(found, key=lambda fault: fault.pointer)


def require_valid(value: JsonObject, schema: JsonObject) -> None:
    """Raises ``InvalidInput`` naming the first wrong key and listing all faults."""
    faults = schema_faults(value, schema)
    if faults:
        first = faults[0]
        raise InvalidInput(
            f"{first.pointer or 'arguments'}: {first.message}",
            key=first.pointer,
            faults=[fault.to_json() for fault in faults],
        )


def _to_faults(error: _Error, at: str) -> list[Fault]:
    here = at + pointer_join(*error.absolute_path)
    if error.validator == "additionalProperties":
        known = sorted(cast("dict[str, object]", error.schema.get("properties", {})))
        unknown = [key for key in cast("dict[str, object]", error.instance) if key not in known]
        return [
            Fault(here + pointer_join(key), f"unknown key {key!r}", f"known keys: {', '.join(known) or 'none'}")
            for key in unknown
        ]
    if error.validator == "required":
        required = cast("list[str]", error.validator_value)
        present = cast("dict[str, object]", error.instance)
        return [
            Fault(here + pointer_join(key), f"{key!r} is required but missing")
            for key in required
            if key not in present
        ]
    if error.validator == "type":
        wanted = error.validator_value
        names = wanted if isinstance(wanted, str) else " or ".join(cast("list[str]", wanted))
        return [Fault(here, f"must be {names}, not {type_name(cast('Json', error.instance))}")]
    return [Fault(here, error.message[:200])]
