"""What a JSON Schema says before there is a value: which types a place has, whether it can exist, what fits where.

The linter stands above it and asks about capabilities' input and output schemas. Every answer errs on the side of
"possible": a place is missing, or two places do not fit, only where the schemas say so for certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chaoscore.domain.json import (
    Json,
    JsonObject,
    MissingPath,
    array_index,
    is_array,
    is_object,
    resolve_pointer,
    type_name,
)

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_DEPTH_MAX = 10
_FIT_DEPTH_MAX = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """A schema and the document its local ``$ref``s point into."""

    schema: Json
    root: Json

    @classmethod
    def of(cls, schema: JsonObject) -> Shape:
        return cls(schema, schema)

    def array_of_this(self, or_null: bool) -> Shape:
        """An array whose elements have this shape, or null where an element failed."""
        items: Json = {"anyOf": [self.schema, {"type": "null"}]} if or_null else self.schema
        return Shape({"type": "array", "items": items}, self.root)


OPEN = Shape(True, True)
"""Nothing is known: everything is possible."""


@dataclass(frozen=True, slots=True)
class NoSuchPlace:
    """A pointer that cannot lead anywhere: after the tokens ``reached`` there is ``what``, with the keys ``known``."""

    reached: tuple[str, ...]
    what: str
    known: tuple[str, ...] = ()


def types(shape: Shape, depth: int = 0) -> frozenset[str]:
    """The JSON types a value of this shape can have. With ``number`` there is always ``integer``."""
    schema = shape.schema
    if schema is False:
        return frozenset()
    if not is_object(schema) or depth > _DEPTH_MAX:
        return TYPES
    found = TYPES
    declared = schema.get("type")
    if isinstance(declared, str):
        found &= _with_integer([declared])
    elif is_array(declared):
        found &= _with_integer(name for name in declared if isinstance(name, str))
    values = schema.get("enum")
    if is_array(values):
        found &= _with_integer(type_name(value) for value in values)
    if "const" in schema:
        found &= _with_integer([type_name(schema["const"])])
    for branch in _all_of(shape):
        found &= types(branch, depth + 1)
    for branches in _choices(shape):
        found &= frozenset().union(*(types(branch, depth + 1) for branch in branches))
    return found


def _with_integer(names: Iterable[str]) -> frozenset[str]:
    found = frozenset(names)
    return found | {"integer"} if "number" in found else found


def find(shape: Shape, tokens: Sequence[str]) -> Shape | NoSuchPlace:
    """The shape of the place that pointer tokens lead to, or why it cannot exist."""
    at = shape
    for position, token in enumerate(tokens):
        member = _member(at, token, 0)
        if member is None:
            return NoSuchPlace(tuple(tokens[:position]), say_types(types(at)), keys(at))
        at = member
    return at


def elements(shape: Shape) -> Shape:
    """The shape of an array's elements."""
    member = _array_member(shape, None, 0)
    return OPEN if member is None else member


def keys(shape: Shape, depth: int = 0) -> tuple[str, ...]:
    """The keys an object of this shape is declared to have."""
    schema = shape.schema
    if not is_object(schema) or depth > _DEPTH_MAX:
        return ()
    properties = schema.get("properties")
    found = list(properties) if is_object(properties) else []
    for branch in (*_all_of(shape), *(branch for branches in _choices(shape) for branch in branches)):
        found.extend(keys(branch, depth + 1))
    return tuple(dict.fromkeys(found))


def misfit(source: Shape, target: Shape, depth: int = 0) -> str | None:
    """Why no value of ``source`` can stand where ``target`` is wanted; ``None`` when one can."""
    given, wanted = types(source), types(target)
    if not given or not wanted:
        return None
    both = given & wanted
    if "number" in given and "number" not in wanted and given < TYPES:
        both -= {"integer"}  # an integer fits a number; a number need not fit an integer
    if not both:
        return f"needs {say_types(types(target))}, gets {say_types(given)}"
    if depth >= _FIT_DEPTH_MAX:
        return None
    if both == {"array"}:
        inner = misfit(elements(source), elements(target), depth + 1)
        return None if inner is None else f"its elements: {inner}"
    if both == {"object"}:
        for key in _required(target):
            member = _member(source, key, 0)
            if member is None:
                return f"needs an object with {key!r}, gets one with {', '.join(keys(source)) or 'no keys'}"
            wanted_member = _member(target, key, 0)
            inner = None if wanted_member is None else misfit(member, wanted_member, depth + 1)
            if inner is not None:
                return f"{key!r}: {inner}"
    return None


def say_types(names: Iterable[str]) -> str:
    """Types as words: ``integer`` goes without saying beside ``number``."""
    found = frozenset(names)
    if found >= TYPES:
        return "any type"
    return " or ".join(sorted(found - {"integer"} if "number" in found else found)) or "nothing"


def _member(shape: Shape, token: str, depth: int) -> Shape | None:
    """The shape behind one pointer token, ``OPEN`` where nothing is said, ``None`` where there can be nothing."""
    found = types(shape)
    as_object = _object_member(shape, token, depth) if "object" in found else None
    index = array_index(token)
    as_array = _array_member(shape, index, depth) if "array" in found and index is not None else None
    return _any([as_object, as_array])


def _object_member(shape: Shape, key: str, depth: int) -> Shape | None:
    schema = shape.schema
    if schema is False:
        return None
    if not is_object(schema) or depth > _DEPTH_MAX:
        return OPEN
    return _every([_own_member(schema, shape.root, key), *_inherited(shape, key, None, depth)])


def _own_member(schema: JsonObject, root: Json, key: str) -> Shape | None:
    properties, patterns = schema.get("properties"), schema.get("patternProperties")
    if is_object(properties) and key in properties:
        return _possible(properties[key], root)
    if is_object(patterns):
        for pattern, member in patterns.items():
            if _matches(pattern, key):
                return _possible(member, root)
    return _possible(schema.get("additionalProperties", True), root)


def _array_member(shape: Shape, index: int | None, depth: int) -> Shape | None:
    """The shape of the element at ``index``, of any element for ``None``."""
    schema = shape.schema
    if schema is False:
        return None
    if not is_object(schema) or depth > _DEPTH_MAX:
        return OPEN
    return _every([_own_element(schema, shape.root, index), *_inherited(shape, None, index, depth)])


def _own_element(schema: JsonObject, root: Json, index: int | None) -> Shape | None:
    first, most = schema.get("prefixItems"), schema.get("maxItems")
    rest = _possible(schema.get("items", True), root)
    if index is not None and isinstance(most, int) and not isinstance(most, bool) and index >= most:
        return None
    if not is_array(first):
        return rest
    if index is not None:
        return _possible(first[index], root) if index < len(first) else rest
    return _any([*(_possible(member, root) for member in first), rest])


def _inherited(shape: Shape, key: str | None, index: int | None, depth: int) -> list[Shape | None]:
    """What ``$ref``, ``allOf``, ``anyOf`` and ``oneOf`` beside the schema's own words say about a member."""

    def ask(branch: Shape) -> Shape | None:
        wanted = "array" if key is None else "object"
        if wanted not in types(branch, depth + 1):
            return None
        if key is None:
            return _array_member(branch, index, depth + 1)
        return _object_member(branch, key, depth + 1)

    found = [ask(branch) for branch in _all_of(shape)]
    found.extend(_any([ask(branch) for branch in branches]) for branches in _choices(shape))
    return found


def _all_of(shape: Shape) -> list[Shape]:
    """Schemas that hold as well: ``allOf`` and a local ``$ref``. A reference elsewhere says nothing."""
    schema = shape.schema
    if not is_object(schema):
        return []
    parts = schema.get("allOf")
    found = [Shape(part, shape.root) for part in parts] if is_array(parts) else []
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#"):
        try:
            found.append(Shape(resolve_pointer(shape.root, target[1:]), shape.root))
        except (MissingPath, ValueError):
            return found
    return found


def _choices(shape: Shape) -> list[list[Shape]]:
    schema = shape.schema
    if not is_object(schema):
        return []
    lists = (schema.get("anyOf"), schema.get("oneOf"))
    return [[Shape(part, shape.root) for part in parts] for parts in lists if is_array(parts) and parts]


def _required(shape: Shape, depth: int = 0) -> tuple[str, ...]:
    schema = shape.schema
    if not is_object(schema) or depth > _DEPTH_MAX:
        return ()
    own = schema.get("required")
    found = [key for key in own if isinstance(key, str)] if is_array(own) else []
    for branch in _all_of(shape):
        found.extend(_required(branch, depth + 1))
    return tuple(dict.fromkeys(found))


def _possible(schema: Json, root: Json) -> Shape | None:
    return None if schema is False else OPEN if schema is True or schema == {} else Shape(schema, root)


def _every(parts: list[Shape | None]) -> Shape | None:
    """All of these hold: nothing where one of them allows nothing."""
    said: list[Shape] = []
    for part in parts:
        if part is None:
            return None
        if part is not OPEN:
            said.append(part)
    if len(said) <= 1:
        return said[0] if said else OPEN
    return Shape({"allOf": [part.schema for part in said]}, said[0].root)


def _any(parts: list[Shape | None]) -> Shape | None:
    """At least one of these holds: nothing where all of them allow nothing."""
    possible = [part for part in parts if part is not None]
    if not possible:
        return None
    if any(part is OPEN for part in possible):
        return OPEN
    if len(possible) == 1:
        return possible[0]
    return Shape({"anyOf": [part.schema for part in possible]}, possible[0].root)


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return True
