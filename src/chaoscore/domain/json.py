"""JSON values, their canonical form, digests and pointers (RFC 6901).

The canonical form is ours, not RFC 8785: keys sorted by code point, no white space, integers in full
(RFC 8785 writes 2^53 and 2^53+1 alike, and approvals are bound to digests), non-ASCII escaped so that a
lone surrogate survives, NaN and infinities refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeGuard

Json: TypeAlias = "None | bool | int | float | str | Sequence[Json] | Mapping[str, Json]"
JsonObject: TypeAlias = Mapping[str, Json]


class MissingPath(LookupError):
    """A pointer that leads nowhere in a value."""


def is_object(value: object) -> TypeGuard[JsonObject]:
    return isinstance(value, Mapping)


def is_array(value: object) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, list | tuple)


def canonical_text(value: Json) -> str:
    """The canonical form as ASCII text.

    Raises ``ValueError`` for NaN or an infinity, ``TypeError`` for what is not JSON.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Json) -> str:
    """``sha256:<64 hex digits>`` of the canonical form."""
    return "sha256:" + hashlib.sha256(canonical_text(value).encode("ascii")).hexdigest()


def pointer_tokens(pointer: str) -> tuple[str, ...]:
    """Split an RFC 6901 pointer. Raises ``ValueError`` when it is not one."""
    if pointer == "":
        return ()
    if not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON Pointer; it must be empty or begin with '/'")
    for part in pointer.split("~")[1:]:
        if part[:1] not in ("0", "1"):
            raise ValueError(f"{pointer!r} is not a JSON Pointer; '~' must be written '~0' and '/' '~1'")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer[1:].split("/"))


def pointer_join(*tokens: str | int) -> str:
    """Build an RFC 6901 pointer from tokens."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def resolve_pointer(value: Json, pointer: str) -> Json:
    """The value a pointer leads to. Raises ``MissingPath`` when there is none."""
    at = value
    for token in pointer_tokens(pointer):
        if is_object(at):
            if token not in at:
                raise MissingPath(pointer)
            at = at[token]
        elif is_array(at):
            if not token.isascii() or not token.isdigit() or (token != "0" and token[0] == "0"):
                raise MissingPath(pointer)
            index = int(token) if len(token) < 12 else len(at)
            if index >= len(at):
                raise MissingPath(pointer)
            at = at[index]
        else:
            raise MissingPath(pointer)
    return at


def type_name(value: Json) -> str:
    """The JSON Schema type of a value; an integer answers ``integer``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    if isinstance(value, str):
        return "string"
    return "object" if is_object(value) else "array"


def equal(left: Json, right: Json) -> bool:
    """JSON equality: numbers by value, never ``True == 1``."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_object(left) and is_object(right):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, str) or isinstance(right, str) or left is None or right is None:
        return type(left) is type(right) and left == right
    return left == right
