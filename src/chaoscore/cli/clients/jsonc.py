"""One member of a JSON document set or removed in its text, so that comments, order and spacing around it stay.

The whole document is read before and after: if anything but the one member differs, nothing is changed. Comments and
final commas are understood where the client that owns the file understands them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from chaoscore.cli.clients.members import Unreadable, at, nested, with_member
from chaoscore.domain.json import Json, JsonObject, is_object

Path: TypeAlias = Sequence[str]
DEPTH_MAX = 200
_SPACE = re.compile(r"[ \t\r\n]*")
_SPACE_AND_COMMENTS = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Member:
    """Positions of a key, its value, the value's end, and the comma behind it if there is one."""

    key: str
    start: int
    value: int
    end: int
    comma: int | None


@dataclass(frozen=True, slots=True)
class _Object:
    """Positions of one object: its braces and its members."""

    start: int
    end: int
    members: tuple[_Member, ...]

    def member(self, key: str) -> _Member | None:
        found = [member for member in self.members if member.key == key]
        if len(found) > 1:
            raise Unreadable(f"the key {key!r} stands there twice")
        return found[0] if found else None


def read(text: str, *, comments: bool) -> JsonObject:
    """The document. Raises ``Unreadable`` when it is not an object or not JSON; empty text is an empty object."""
    if not text.strip():
        return {}
    reader = _Reader(text, comments)
    value = reader.document()
    if not is_object(value):
        raise Unreadable("it does not hold an object")
    return value


def set_member(text: str, path: Path, value: Json, *, comments: bool) -> str:
    """The text with ``value`` at ``path``; objects on the way are made where they are missing.

    Raises ``Unreadable`` also when something on the way is there and is not an object.
    """
    before = read(text, comments=comments)
    if at(before, path) == value:
        return text
    if not text.strip():
        return _dumps(nested(path, value), "  ", "", "\n") + "\n"
    reader = _Reader(text, comments)
    place, rest = reader.object_at(path)
    member = place.member(path[len(path) - len(rest)]) if rest else None
    after = _replace(text, member, value) if member is not None else _insert(text, place, rest, value)
    _check(read(after, comments=comments), with_member(before, path, value))
    return after


def remove_member(text: str, path: Path, *, comments: bool) -> str:
    """The text without what is at ``path``; the same text where there is nothing."""
    before = read(text, comments=comments)
    if at(before, path) is None:
        return text
    place, rest = _Reader(text, comments).object_at(path)
    member = place.member(rest[0]) if len(rest) == 1 else None
    if member is None:
        return text
    after = _cut(text, place, member)
    _check(read(after, comments=comments), with_member(before, path, None))
    return after


# -- edits -----------------------------------------------------------------------------------------------------------


def _replace(text: str, member: _Member, value: Json) -> str:
    indent, unit, line_end = _indent_at(text, member.start), _unit(text), _line_end(text)
    return text[: member.value] + _dumps(value, unit, indent, line_end) + text[member.end :]


def _insert(text: str, place: _Object, rest: Path, value: Json) -> str:
    unit, line_end = _unit(text), _line_end(text)
    key = json.dumps(rest[0], ensure_ascii=False)
    inner: Json = nested(rest[1:], value) if len(rest) > 1 else value
    if not place.members:
        outer = _indent_at(text, place.start)
        body = f"{key}: {_dumps(inner, unit, outer + unit, line_end)}"
        kept = text[place.start + 1 : place.end - 1].rstrip()  # comments in an otherwise empty object
        opening = text[: place.start + 1] + kept
        return f"{opening}{line_end}{outer}{unit}{body}{line_end}{outer}}}{text[place.end :]}"
    last = place.members[-1]
    if "\n" not in text[place.start : place.end]:
        body = f"{key}: {json.dumps(inner, ensure_ascii=False)}"
        at = last.end if last.comma is None else last.comma
        return f"{text[:at]}, {body}{text[at:]}"
    indent = _indent_at(text, last.start)
    body = f"{line_end}{indent}{key}: {_dumps(inner, unit, indent, line_end)}"
    closing = _last_line_end(text, place)
    if last.comma is not None:
        return f"{text[:closing]}{body},{text[closing:]}"
    return f"{text[: last.end]},{text[last.end : closing]}{body}{text[closing:]}"


def _cut(text: str, place: _Object, member: _Member) -> str:
    number = place.members.index(member)
    start = member.start
    while text[start - 1] in " \t":
        start -= 1
    if text[start - 1] == "\n":
        start -= 2 if text[start - 2] == "\r" else 1
    end = member.end if member.comma is None else member.comma + 1
    comma = place.members[number - 1].comma if number and member.comma is None else None
    before = text[:start] if comma is None else text[:comma] + text[comma + 1 : start]
    return before + text[end:]


def _last_line_end(text: str, place: _Object) -> int:
    """Where the last line before the closing brace ends, so that a new one goes after comments that stand there."""
    end = place.end - 1
    while end > place.start + 1 and text[end - 1] in " \t\r\n":
        end -= 1
    return end


# -- form ------------------------------------------------------------------------------------------------------------


def _dumps(value: Json, unit: str, indent: str, line_end: str) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=unit)
    return text.replace("\n", line_end + indent)


def _unit(text: str) -> str:
    found = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return found[1] if found is not None else "  "


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, position: int) -> str:
    line = text.rfind("\n", 0, position) + 1
    found = re.compile(r"[ \t]*").match(text, line)
    assert found is not None
    return found[0]


def _check(found: Json, wanted: Json) -> None:
    if found != wanted:
        raise Unreadable("it cannot be edited without touching something else")


# -- reading ---------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, text: str, comments: bool) -> None:
        self._text = text
        self._comments = comments
        self._gap = _SPACE_AND_COMMENTS if comments else _SPACE

    def document(self) -> Json:
        start = self._skip(1 if self._text.startswith("\ufeff") else 0)
        value, end = self._value(start, 0)
        if self._skip(end) != len(self._text):
            raise self._wrong(self._skip(end), "something follows the end of the document")
        return value

    def object_at(self, path: Path) -> tuple[_Object, Path]:
        """The innermost object on the way to ``path``, and the keys that are left from there."""
        start = self._skip(1 if self._text.startswith("\ufeff") else 0)
        place = self._object(start, 0)[0]
        for number, key in enumerate(path[:-1]):
            member = place.member(key)
            if member is None:
                return place, path[number:]
            if self._text[member.value] != "{":
                raise Unreadable(f"{key!r} is there and is not an object")
            place = self._object(member.value, number + 1)[0]
        return place, path[-1:]

    def _value(self, at: int, depth: int) -> tuple[Json, int]:
        if depth > DEPTH_MAX:
            raise self._wrong(at, "it is nested too deeply")
        try:
            # The standard reader is many times faster; it stops at the first comment or final comma.
            value, end = _DECODER.raw_decode(self._text, at)
        except json.JSONDecodeError:
            pass
        except RecursionError:
            raise self._wrong(at, "it is nested too deeply") from None
        else:
            return value, end
        opening = self._text[at : at + 1]
        if opening == "{":
            place, members = self._object(at, depth)
            return members, place.end
        if opening == "[":
            return self._array(at, depth)
        raise self._wrong(at, "a value is missing or broken")

    def _object(self, at: int, depth: int) -> tuple[_Object, dict[str, Json]]:
        members: list[_Member] = []
        values: dict[str, Json] = {}
        comma: int | None = None
        position = self._skip(at + 1)
        while self._text[position : position + 1] != "}":
            found = _STRING.match(self._text, position)
            if found is None or (members and comma is None):
                raise self._wrong(position, "a comma, a key or a closing brace is missing")
            key = str(json.loads(found[0]))
            colon = self._skip(found.end())
            if self._text[colon : colon + 1] != ":":
                raise self._wrong(colon, "a colon is missing")
            start = self._skip(colon + 1)
            value, end = self._value(start, depth + 1)
            here, position = position, self._skip(end)
            comma = position if self._text[position : position + 1] == "," else None
            members.append(_Member(key, here, start, end, comma))
            values[key] = value
            position = self._skip(position + 1) if comma is not None else position
        if comma is not None and not self._comments:
            raise self._wrong(comma, "a comma stands before the closing brace")
        return _Object(at, position + 1, tuple(members)), values

    def _array(self, at: int, depth: int) -> tuple[Json, int]:
        elements: list[Json] = []
        comma: int | None = None
        position = self._skip(at + 1)
        while self._text[position : position + 1] != "]":
            if elements and comma is None:
                raise self._wrong(position, "a comma or a closing bracket is missing")
            value, end = self._value(position, depth + 1)
            elements.append(value)
            position = self._skip(end)
            comma = position if self._text[position : position + 1] == "," else None
            position = self._skip(position + 1) if comma is not None else position
        if comma is not None and not self._comments:
            raise self._wrong(comma, "a comma stands before the closing bracket")
        return elements, position + 1

    def _skip(self, at: int) -> int:
        found = self._gap.match(self._text, at)
        assert found is not None
        return found.end()

    def _wrong(self, at: int, why: str) -> Unreadable:
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        return Unreadable(f"{why} (line {line}, column {column})")
