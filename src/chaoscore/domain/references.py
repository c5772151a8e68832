"""Values taken from earlier steps: typed references that stand in place of a value, never inside text (spec §2).

``{"$from": "s1", "path": "/body"}`` is a value of an earlier step's output, ``{"$item": "/name"}`` one of the current
item of a fan-out. A literal key that begins with ``$`` is written with the ``$`` doubled: ``{"$$from": 1}`` means
``{"$from": 1}``. Anything else with a single ``$`` is malformed: it is a fault, never taken for a literal, so that a
misspelt reference cannot pass as data.

``chaoscore.domain.lint`` stands above and refuses malformed references before a plan is stored; the run service
resolves what is left. What has been resolved is data: it is never scanned again (law 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from chaoscore.domain.json import (
    Json,
    JsonObject,
    MissingPath,
    brief,
    is_array,
    is_object,
    pointer_join,
    pointer_tokens,
    resolve_pointer,
    type_name,
)
from chaoscore.domain.plan import ItemReference, Reference

FORMS = '{"$from": "<step id>", "path": "/…"} or {"$item": "/…"}'


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that begins like a reference and is none. ``at`` is relative to that object."""

    reason: str
    suggestion: str
    at: str = ""


class _NoItem:
    """Marks that there is no current item; ``None`` is an item like any other."""


NO_ITEM: Final = _NoItem()


def scan(value: Json) -> Iterator[tuple[str, Reference | ItemReference | Malformed]]:
    """Every reference in a value as written, and everything that only looks like one, in document order.

    The first of each pair is the JSON Pointer of the referring object. Total, however deep the value.
    """
    open_values: list[tuple[Json, _Place | None]] = [(value, None)]
    while open_values:
        at, place = open_values.pop()
        if is_object(at):
            read = _read(at)
            if read is not None:
                yield _pointer(place), read
                continue
            open_values.extend((at[key], _Place(place, key)) for key in reversed(list(at)))
        elif is_array(at):
            open_values.extend((at[i], _Place(place, i)) for i in range(len(at) - 1, -1, -1))


def find_references(value: Json) -> Iterator[tuple[str, Reference | ItemReference]]:
    """Every well-formed reference in a value as written, with the JSON Pointer it stands at. Malformed ones are
    ``scan``'s to tell; a plan that was linted has none."""
    for pointer, found in scan(value):
        if not isinstance(found, Malformed):
            yield pointer, found


def resolve(value: Json, outputs: Mapping[str, Json], item: Json | _NoItem = NO_ITEM) -> Json:
    """The value with every reference replaced by what it refers to and literal keys unescaped.

    What is put in is the output's own value, whole and of its own type: it is not copied and never looked into for
    further references. Raises ``MissingPath`` when a step has no output here, a path leads nowhere or there is no
    item, ``ValueError`` for a malformed reference.
    """
    if is_object(value):
        read = _read(value)
        if isinstance(read, Reference):
            return _take(read, outputs)
        if isinstance(read, ItemReference):
            if isinstance(item, _NoItem):
                raise MissingPath(f"$item{read.path}")
            try:
                return resolve_pointer(item, read.path)
            except MissingPath:
                raise MissingPath(f"$item{read.path}") from None
        if isinstance(read, Malformed):
            raise ValueError(read.reason)
        return {_unescape_key(key): resolve(member, outputs, item) for key, member in value.items()}
    if is_array(value):
        return [resolve(element, outputs, item) for element in value]
    return value


def unescape(value: Json) -> Json:
    """A literal as its receiver sees it: doubled ``$`` of keys undone. Raises ``ValueError`` for a reference."""
    if is_object(value):
        if _read(value) is not None:
            raise ValueError("a reference stands in a literal")
        return {_unescape_key(key): unescape(member) for key, member in value.items()}
    if is_array(value):
        return [unescape(element) for element in value]
    return value


def escape(value: Json) -> Json:
    """A literal as a plan writes it; the inverse of ``unescape``."""
    if is_object(value):
        return {f"${key}" if key.startswith("$") else key: escape(member) for key, member in value.items()}
    if is_array(value):
        return [escape(element) for element in value]
    return value


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands, as a link to where its container stands: pointers are only written for what is found."""

    within: _Place | None
    token: str | int


def _pointer(place: _Place | None) -> str:
    tokens: list[str | int] = []
    while place is not None:
        tokens.append(place.token)
        place = place.within
    return pointer_join(*reversed(tokens))


def _take(reference: Reference, outputs: Mapping[str, Json]) -> Json:
    name = f"{reference.step}{reference.path}"
    if reference.step not in outputs:
        raise MissingPath(name)
    try:
        return resolve_pointer(outputs[reference.step], reference.path)
    except MissingPath:
        raise MissingPath(name) from None


def _unescape_key(key: str) -> str:
    return key[1:] if key.startswith("$$") else key


def _read(value: JsonObject) -> Reference | ItemReference | Malformed | None:
    """The reference an object is, why it is a malformed one, or ``None`` for a literal."""
    marks = [key for key in value if key.startswith("$") and not key.startswith("$$")]
    if not marks:
        return None
    mark = marks[0]
    if len(marks) > 1 or mark not in ("$from", "$item"):
        odd = next((key for key in marks if key not in ("$from", "$item")), marks[-1])
        return Malformed(
            f"{brief(odd)} is not a reference", f"write {FORMS}; a literal key that begins with '$' doubles it: '$$…'"
        )
    extra = [key for key in value if key != mark and not (mark == "$from" and key == "path")]
    if extra:
        return Malformed(
            f"a reference has no key {brief(extra[0])}", f"write {FORMS} and nothing else", pointer_join(extra[0])
        )
    head = value[mark]
    if not isinstance(head, str):
        return Malformed(f"{mark!r} must be text, not {type_name(head)}", f"write {FORMS}", pointer_join(mark))
    path = value.get("path", "") if mark == "$from" else head
    where = "/path" if mark == "$from" else "/$item"
    if not isinstance(path, str):
        return Malformed(f"'path' must be text, not {type_name(path)}", 'for the whole output write "path": ""', where)
    try:
        pointer_tokens(path)
    except ValueError:
        return Malformed(f"{brief(path)} is not a JSON Pointer", _pointer_hint(path), where)
    return Reference(head, path) if mark == "$from" else ItemReference(path)


def _pointer_hint(path: str) -> str:
    if len(path) > 200 or not path.isprintable():
        return "a pointer is empty or begins with '/', as in '/items/0/id'"
    plain = path.removeprefix("$").replace("[", "/").replace("]", "").replace(".", "/").replace("~", "~0")
    return f"did you mean {'/' + plain.strip('/')!r}? '' is the whole value, '/items/0/id' a part of it"
