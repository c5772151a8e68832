"""JSON values, their canonical form, digests and pointers (RFC 6901).

The canonical form is ours, not RFC 8785: keys sorted by code point, no white space, integers in full
(RFC 8785 writes 2^53 and 2^53+1 alike, and approvals are bound to digests), non-ASCII escaped so that a
lone surrogate survives, NaN and infinities refused.

Everything else in the package stands above this module. What walks a value here keeps its own stack: a value may be
nested deeper than the interpreter's recursion limit, and then the answer is still an answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias, TypeGuard

Json: TypeAlias = "None | bool | int | float | str | Sequence[Json] | Mapping[str, Json]"
JsonObject: TypeAlias = Mapping[str, Json]

NUMBER_BITS_MAX = 1024
"""Integers of more bits cannot be written back by common readers (a float ends at 1,024 bits)."""


class MissingPath(LookupError):
    """A pointer that leads nowhere in a value."""


class DuplicateKey(ValueError):
    """An object of a JSON text has a key twice: readers differ in which value counts, so none may."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {brief(key)} stands twice in one object")
        self.key = key


def unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """An ``object_pairs_hook`` for the standard reader. Raises ``DuplicateKey``."""
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise DuplicateKey(key)
            seen.add(key)
    return made


def is_object(value: object) -> TypeGuard[JsonObject]:
    return isinstance(value, Mapping)


def is_array(value: object) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, list | tuple)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_text(value: Json) -> str:
    """The canonical form as ASCII text.

    Raises ``ValueError`` for NaN, an infinity or what is nested too deeply, ``TypeError`` for what is not JSON.
    """
    try:
        return _CANONICAL.encode(value)
    except RecursionError:
        raise ValueError("the value is nested too deeply to be written as JSON") from None


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


def array_index(token: str) -> int | None:
    """The array index that a pointer token names (RFC 6901 §4), ``None`` when it names none."""
    if not token.isascii() or not token.isdigit() or (token != "0" and token[0] == "0"):
        return None
    return int(token) if len(token) < 12 else 10**12


def resolve_pointer(value: Json, pointer: str) -> Json:
    """The value a pointer leads to. Raises ``MissingPath`` when there is none, ``ValueError`` when it is no pointer."""
    at = value
    for token in pointer_tokens(pointer):
        if is_object(at):
            if token not in at:
                raise MissingPath(pointer)
            at = at[token]
        elif is_array(at):
            index = array_index(token)
            if index is None or index >= len(at):
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
    """JSON equality: numbers by value, never ``True == 1``. Total, however deep."""
    open_pairs: list[tuple[Json, Json]] = [(left, right)]
    while open_pairs:
        a, b = open_pairs.pop()
        if isinstance(a, bool) or isinstance(b, bool):
            if a is not b:
                return False
        elif is_object(a) and is_object(b):
            if a.keys() != b.keys():
                return False
            open_pairs.extend((a[key], b[key]) for key in a)
        elif is_array(a) and is_array(b):
            if len(a) != len(b):
                return False
            open_pairs.extend(zip(a, b, strict=True))
        elif isinstance(a, int | float) and isinstance(b, int | float):
            if a != b:
                return False
        elif not (isinstance(a, str) and isinstance(b, str) and a == b) and not (a is None and b is None):
            return False
    return True


def brief(value: Json, chars_max: int = 80) -> str:
    """A value as one short ASCII line for a message. Total, and quick however large the value is."""
    if isinstance(value, str):
        text = repr(value[: chars_max + 1]) if len(value) > chars_max else repr(value)
    elif isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > NUMBER_BITS_MAX:
        text = f"an integer of {value.bit_length()} bits"
    elif is_object(value):
        text = f"an object of {len(value)} key{'s' if len(value) != 1 else ''}" if value else "{}"
    elif is_array(value):
        text = f"an array of {len(value)} element{'s' if len(value) != 1 else ''}" if value else "[]"
    elif value is None or isinstance(value, bool):
        text = json.dumps(value)
    else:
        text = repr(value)
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a value cannot be kept or sent: where (tokens from its root) and what. ``fatal`` ended the search."""

    tokens: tuple[str | int, ...]
    reason: str
    fatal: bool = False


def unfit_parts(value: Json, *, nesting_max: int, bytes_max: int, values_max: int | None = None) -> Iterator[Unfit]:
    """Everything that keeps ``value`` from being stored and sent as JSON text, in document order.

    NaN, infinities, lone surrogates, integers of more than 1,024 bits; and, ending the search, what is not JSON,
    nesting deeper than ``nesting_max``, more than ``bytes_max`` UTF-8 bytes of JSON text without white space, or more
    than ``values_max`` values. Takes time in proportion to the value or to the bounds, whichever is less.
    """
    size, values = 0, 1
    open_values: list[tuple[object, tuple[str | int, ...]]] = [(value, ())]
    while open_values:
        at, tokens = open_values.pop()
        reason: str | None = None
        if isinstance(at, str):
            size += _text_bytes(at)
            reason = _surrogate_reason(at)
        elif at is None or isinstance(at, bool):
            size += 4 + (at is False)
        elif isinstance(at, int):
            if at.bit_length() > NUMBER_BITS_MAX:
                reason = f"the integer has {at.bit_length()} bits, at most {NUMBER_BITS_MAX} are kept"
            else:
                size += len(str(at))
        elif isinstance(at, float):
            size += len(repr(at))
            if not isfinite(at):
                reason = f"{at!r} is not a JSON number"
        elif isinstance(at, Mapping) or is_array(at):
            if len(tokens) >= nesting_max:
                yield Unfit(tokens, f"nested deeper than {nesting_max} levels", fatal=True)
                return
            size += 2 + max(len(at) - 1, 0)
            values += len(at)
            if values_max is not None and values > values_max:
                yield Unfit((), f"more than {values_max} values", fatal=True)
                return
            if size > bytes_max:
                break
            if is_array(at):
                open_values.extend((at[i], (*tokens, i)) for i in range(len(at) - 1, -1, -1))
            elif isinstance(at, Mapping):
                for key, member in reversed(list(at.items())):
                    if not isinstance(key, str):
                        yield Unfit(tokens, f"a key is {type(key).__name__}, not text", fatal=True)
                        return
                    size += _text_bytes(key) + 1
                    if (bad_key := _surrogate_reason(key)) is not None:
                        yield Unfit((*tokens, key), f"the key: {bad_key}")
                    open_values.append((member, (*tokens, key)))
        else:
            yield Unfit(tokens, f"{type(at).__name__} is not JSON", fatal=True)
            return
        if reason is not None:
            yield Unfit(tokens, reason)
        if size > bytes_max:
            break
    if size > bytes_max:
        yield Unfit((), f"larger than {bytes_max} bytes of JSON text", fatal=True)


def size_bytes(value: Json) -> int:
    """UTF-8 bytes of the JSON text without white space. Raises as ``canonical_text`` does."""
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise ValueError("the value is nested too deeply to be written as JSON") from None
    return len(text.encode("utf-8", "surrogatepass"))


def _text_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _surrogate_reason(text: str) -> str | None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"a lone surrogate at character {error.start} is not Unicode text"
    return None
