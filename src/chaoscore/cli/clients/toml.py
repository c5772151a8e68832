"""One table of a TOML document set or removed in its text; every other line stays as it is.

The whole document is read before and after: if anything but the one table differs, nothing is changed. A table that is
written in a way this does not edit (inline, or with dotted keys) is left alone and reported.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence

from chaoscore.cli.clients.members import Unreadable, at, with_member
from chaoscore.domain.json import Json, JsonObject, is_array, is_object

_HEADER = re.compile(r"^[ \t]*\[")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read(text: str) -> JsonObject:
    """The document. Raises ``Unreadable``."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        raise Unreadable(message[:1].lower() + message[1:]) from None


def set_table(text: str, path: Sequence[str], table: JsonObject) -> str:
    """The text with ``table`` at ``path``: texts, lists of texts, and tables of texts. Raises ``Unreadable``."""
    before = read(text)
    if at(before, path) == table:
        return text
    lines = text.splitlines(keepends=True)
    section = _section(lines, path) if is_object(at(before, path)) else None
    after = _appended(text, path, table) if section is None else "".join(_edited(lines, section, path, table))
    if read(after) != with_member(before, path, table):
        raise Unreadable("that table is written in a way that cannot be edited without touching something else")
    return after


def remove_table(text: str, path: Sequence[str]) -> str:
    """The text without the table at ``path`` and the tables below it; the same text where there is none."""
    before = read(text)
    if at(before, path) is None:
        return text
    lines = text.splitlines(keepends=True)
    while (section := _section(lines, path, below=True)) is not None:
        del lines[section[0] : section[1]]
    after = "".join(lines)
    if read(after) != with_member(before, path, None) and read(after) != _without_empty(before, path):
        raise Unreadable("that table is written in a way that cannot be edited without touching something else")
    return after


# -- edits -----------------------------------------------------------------------------------------------------------


def _appended(text: str, path: Sequence[str], table: JsonObject) -> str:
    gap = "" if not text.strip() else ("\n" if text.endswith("\n") else "\n\n")
    line_end = "\r\n" if "\r\n" in text else "\n"
    lines = [f"[{'.'.join(_key(part) for part in path)}]", *(_assignment(key, value) for key, value in table.items())]
    return text + (gap + "\n".join(lines) + "\n").replace("\n", line_end)


def _edited(lines: list[str], section: tuple[int, int], path: Sequence[str], table: JsonObject) -> list[str]:
    """The section with changed and added keys; keys that are there and stay are not touched."""
    line_end = "\r\n" if lines[section[0]].endswith("\r\n") else "\n"
    current = at(read("".join(lines)), path)
    assert is_object(current)
    out = list(lines)
    for key, value in table.items():
        if current.get(key) == value:
            continue
        below = _section(out, [*path, key]) if is_object(value) else None
        if below is not None and is_object(value):
            out = _edited(out, below, [*path, key], value)
            continue
        start, end = _section(out, path) or section
        place = _lines_of(out, start + 1, end, key)
        new = [_assignment(key, value) + line_end]
        if place is not None:
            out[place[0] : place[1]] = new
        else:
            out[start + 1 : start + 1] = new
    return out


def _lines_of(lines: list[str], start: int, end: int, key: str) -> tuple[int, int] | None:
    """The lines of one assignment: from its key to where it can be read as a whole."""
    head = re.compile(rf"[ \t]*(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')[ \t]*=")
    for first in range(start, end):
        if head.match(lines[first]):
            for last in range(first + 1, end + 1):
                try:
                    tomllib.loads("".join(lines[first:last]))
                except tomllib.TOMLDecodeError:
                    continue
                return first, last
    return None


def _section(lines: list[str], path: Sequence[str], *, below: bool = False) -> tuple[int, int] | None:
    """The lines from a table's header up to the next header; with ``below`` also a table inside it."""
    parts = r"[ \t]*\.[ \t]*".join(rf"(?:{re.escape(part)}|\"{re.escape(part)}\"|'{re.escape(part)}')" for part in path)
    inside = r"(?:[ \t]*\..*)?" if below else ""
    header = re.compile(rf"^[ \t]*\[[ \t]*{parts}{inside}[ \t]*\][ \t]*(?:#.*)?$")
    for start, line in enumerate(lines):
        if header.match(line.rstrip("\r\n")):
            end = next((n for n in range(start + 1, len(lines)) if _HEADER.match(lines[n])), len(lines))
            return start, end
    return None


# -- form ------------------------------------------------------------------------------------------------------------


def _assignment(key: str, value: Json) -> str:
    return f"{_key(key)} = {_value(value)}"


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: Json) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value)
    if is_array(value):
        return f"[{', '.join(_value(element) for element in value)}]"
    if is_object(value):
        return "{ " + ", ".join(_assignment(key, member) for key, member in value.items()) + " }"
    raise Unreadable("TOML has no null")


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- values ----------------------------------------------------------------------------------------------------------


def _without_empty(value: Json, path: Sequence[str]) -> Json:
    """As ``with_member(…, None)``, and without the tables that held nothing else: TOML does not write those."""
    without = with_member(value, path, None)
    for length in range(len(path) - 1, 0, -1):
        if at(without, path[:length]) == {}:
            without = with_member(without, path[:length], None)
    return without
