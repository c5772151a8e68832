"""The subset of JSON Schema that the shared format uses, with its semantics: UTF-16 lengths, unanchored patterns, an
``integer`` is any number without a fraction, a wrong type stops the checks of its node.

``Floor`` (built in) always holds; a workspace copy may only tighten, and its patterns run in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from chaoscore.adapters.files.interaction.patterns import Pattern, UnsupportedPattern
from chaoscore.domain.interaction.errors import Violation
from chaoscore.domain.json import Json, JsonObject, equal, is_array, is_object, type_name

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)
_VIOLATIONS_MAX = 50
_REMEMBERED_MAX = 20_000  # ids are checked again and again: all that wait are in every ``active.json``
_REMEMBERED_CHARS_MAX = 200
_KNOWN_PATTERNS = {
    "^[A-Za-z0-9][A-Za-z0-9._:-]*$": re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*\Z"),
    "^sha256:[a-fA-F0-9]{64}$": re.compile(r"sha256:[a-fA-F0-9]{64}\Z"),
}


class BadSchema(ValueError):
    """A schema that cannot be used; the text says why."""


class Schema:
    """One schema. What is wrong with it shows when it is needed, as in every peer."""

    def __init__(self, document: Json) -> None:
        if not is_object(document):
            raise BadSchema("it is not an object")
        self._document = document
        self._patterns: dict[str, Callable[[str], bool]] = {}
        self._fast: dict[int, Callable[[Json], bool] | None] = {}

    def violations(self, value: Json) -> list[Violation]:
        """Everything wrong with ``value``, at most fifty. Raises ``BadSchema`` when the schema is not understood."""
        quick = self._quick(self._document)
        if quick is not None and quick(value):
            return []
        out = []
        for violation in self._check(value, self._document, "", 0):
            out.append(violation)
            if len(out) >= _VIOLATIONS_MAX:
                break
        return out

    def _quick(self, schema: Json) -> Callable[[Json], bool] | None:
        """A predicate that is true only for valid values; ``None`` where the slow way must tell."""
        if not is_object(schema):
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            try:
                return self._quick(self._target(reference))
            except BadSchema:
                return None
        if id(schema) not in self._fast:
            self._fast[id(schema)] = None  # a recursive schema takes the slow way
            self._fast[id(schema)] = self._predicate(schema)
        return self._fast[id(schema)]

    def _predicate(self, schema: JsonObject) -> Callable[[Json], bool] | None:
        wanted, allowed = schema.get("type"), schema.get("enum")
        names = {wanted} if isinstance(wanted, str) else set(wanted) if is_array(wanted) else set()
        if names == {"object"}:
            return self._object_predicate(schema)
        if names == {"array"} and "items" in schema and not {"const", "enum"} & schema.keys():
            item, least = self._quick(schema["items"]), schema.get("minItems", 0)
            if item is None or not isinstance(least, int):
                return None
            return lambda value: is_array(value) and len(value) >= least and all(map(item, value))
        if names == {"boolean"} and not {"const", "enum"} & schema.keys():
            return lambda value: isinstance(value, bool)
        if names == {"integer"} and schema.get("const") == 1:
            return lambda value: type(value) is int and value == 1
        if not names or names - {"string", "null"} or "const" in schema:
            return None
        words = frozenset(word for word in allowed if isinstance(word, str)) if is_array(allowed) else None
        none_fits = "null" in names and (not is_array(allowed) or None in allowed)
        passed: set[str] | None = set() if "pattern" in schema else None

        def fits(value: Json) -> bool:
            if value is None:
                return none_fits
            if not isinstance(value, str) or (words is not None and value not in words):
                return False
            if passed is not None and value in passed:
                return True
            is_good = next(self._check_text(value, schema, ""), None) is None
            if is_good and passed is not None and len(value) <= _REMEMBERED_CHARS_MAX:
                if len(passed) >= _REMEMBERED_MAX:
                    passed.clear()
                passed.add(value)
            return is_good

        return fits

    def _object_predicate(self, schema: JsonObject) -> Callable[[Json], bool] | None:
        known, required, others = schema.get("properties", {}), schema.get("required", ()), schema.get(
            "additionalProperties", True
        )  # fmt: skip
        if not is_object(known) or not is_array(required) or {"const", "enum"} & schema.keys():
            return None
        checks = {key: self._quick(child) for key, child in known.items()}
        other = self._quick(others)
        if None in checks.values() or (other is None and others is not True and others is not False):
            return None
        needed = frozenset(key for key in required if isinstance(key, str))

        def fits(value: Json) -> bool:
            if not is_object(value) or not needed <= value.keys():
                return False
            for key, item in value.items():
                check = checks.get(key, other)
                if (check is None and others is False) or (check is not None and not check(item)):
                    return False
            return True

        return fits

    def _target(self, reference: str) -> JsonObject:
        if not reference.startswith("#/"):
            raise BadSchema(f"$ref {reference[:80]!r} does not point into the same file")
        at: Json = self._document
        for token in reference[2:].split("/"):
            at = at.get(token) if is_object(at) else None
        if not is_object(at):
            raise BadSchema(f"$ref {reference[:80]!r} leads nowhere")
        return at

    def _check(self, value: Json, schema: Json, path: str, depth: int) -> Iterator[Violation]:
        if not is_object(schema) or depth > 200:
            return
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield from self._check(value, self._target(reference), path, depth + 1)
            return
        wanted = schema.get("type")
        names = [wanted] if isinstance(wanted, str) else list(wanted) if is_array(wanted) else []
        if names and not any(_is_type(value, name) for name in names):
            yield Violation(path, f"must be {' or '.join(str(name) for name in names)}, not {type_name(value)}")
            return
        if "const" in schema and not equal(value, schema["const"]):
            yield Violation(path, "must have the one allowed value")
        allowed = schema.get("enum")
        if is_array(allowed) and not any(equal(value, item) for item in allowed):
            yield Violation(path, f"must be one of {', '.join(str(item) for item in allowed)[:400]}")
        if isinstance(value, str):
            yield from self._check_text(value, schema, path)
        elif is_array(value):
            least = schema.get("minItems")
            if isinstance(least, int) and len(value) < least:
                yield Violation(path, f"must have at least {least} items")
            if "items" in schema:
                for position, item in enumerate(value):
                    yield from self._check(item, schema["items"], f"{path}[{position}]", depth + 1)
        elif is_object(value):
            yield from self._check_object(value, schema, path, depth)

    def _check_text(self, value: str, schema: JsonObject, path: str) -> Iterator[Violation]:
        length = len(value) if value.isascii() else len(value) + sum(1 for letter in value if ord(letter) > 0xFFFF)
        least, most, pattern = schema.get("minLength"), schema.get("maxLength"), schema.get("pattern")
        if isinstance(least, int) and length < least:
            yield Violation(path, f"must have at least {least} characters")
        if isinstance(most, int) and length > most:
            yield Violation(path, f"must have at most {most} characters")
        if isinstance(pattern, str) and not self._matches(pattern, value):
            yield Violation(path, f"must match {pattern[:200]}")
        if schema.get("format") == "date-time" and _DATE_TIME.match(value) is None:
            yield Violation(path, "must be a date-time like 2030-01-31T12:00:00Z")

    def _matches(self, pattern: str, value: str) -> bool:
        if pattern not in self._patterns:
            self._patterns[pattern] = _matcher(pattern)
        return self._patterns[pattern](value)

    def _check_object(self, value: JsonObject, schema: JsonObject, path: str, depth: int) -> Iterator[Violation]:
        required, known = schema.get("required"), schema.get("properties")
        properties = known if is_object(known) else {}
        for key in required if is_array(required) else ():
            if isinstance(key, str) and key not in value:
                yield Violation(path, f"must have {key!r}")
        others = schema.get("additionalProperties", True)
        for key, item in value.items():
            at = f"{path}.{key}" if path else key
            if key in properties:
                yield from self._check(item, properties[key], at, depth + 1)
            elif others is False:
                yield Violation(path, f"must not have {key[:80]!r}")
            else:
                yield from self._check(item, others, at, depth + 1)


def _is_type(value: Json, name: Json) -> bool:
    actual = type_name(value)
    return actual == name or (name == "number" and actual == "integer")


def _matcher(pattern: str) -> Callable[[str], bool]:
    known = _KNOWN_PATTERNS.get(pattern)
    if known is not None:
        return lambda value: known.match(value) is not None
    try:
        return Pattern(pattern).search
    except UnsupportedPattern as error:
        raise BadSchema(f"pattern {pattern[:80]!r} is not supported: {error}") from None
