"""The clauses that are understood: a pattern over kinds of tokens, and the steps that such a sentence means.

A pattern has to match the whole sentence between courtesies, so every token is one that the pattern asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.rules.words import DOTTED, TYPES, UNDER, Token

Slots = Mapping[str, tuple[Token, ...]]
Steps = tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """``name`` is shown as the reason of the steps. ``question`` allows a question mark without a courtesy."""

    name: str
    pattern: re.Pattern[str]
    steps: Callable[[Slots], Steps]
    question: bool = False


# One character is one token; see ``words``. A group is a slot: the tokens it covers say what the step is about.
_FILE = r"(?P<file>[pqD]|X(?![nNm]))"
_TYPE = r"(?P<type>[GgX])"
_ALL = r"[td]?"
# After "in" a bare word may be anything ("in detail"): there, only what is plainly a folder counts as one.
_FOLDER = r"[YDqc]"
_NAMED_FOLDER = r"[YDqcwpX]"
_WHERE = rf"(?P<where>Ut?(?:M{_NAMED_FOLDER}|{_NAMED_FOLDER}M?)|It?(?:M{_NAMED_FOLDER}|{_NAMED_FOLDER}M|{_FOLDER}))"
_CHINESE_WHERE = rf"(?P<where>{_NAMED_FOLDER}M?[UI])"
_RECURSIVE = r"(?P<recursive>r)"


def _value(slots: Slots, name: str) -> str:
    return slots[name][0].value


def _folder(slots: Slots) -> str:
    return next((token.value for token in slots.get("where", ()) if token.kind in _NAMED_FOLDER), ".")


def _is_recursive(slots: Slots) -> bool:
    return "recursive" in slots or any(token.kind == UNDER for token in slots.get("where", ()))


def _step(number: int, capability: str, arguments: JsonObject) -> JsonObject:
    return {"id": f"s{number}", "capability": capability, "arguments": arguments}


def _read(slots: Slots) -> Steps:
    return (_step(1, "fs.read_text", {"path": _value(slots, "file")}),)


def _fetch(slots: Slots) -> Steps:
    return (_step(1, "http.request", {"url": _value(slots, "url")}),)


def _write(slots: Slots) -> Steps:
    return (_step(1, "fs.write_text", {"path": _value(slots, "file"), "text": _value(slots, "text")}),)


def _list_files(slots: Slots) -> Steps:
    arguments: dict[str, Json] = {"path": _folder(slots), "glob": _glob(slots)}
    if _is_recursive(slots):
        arguments["recursive"] = True
    return (_step(1, "fs.list", arguments),)


def _list_folder(slots: Slots) -> Steps:
    arguments: dict[str, Json] = {"path": _folder(slots)}
    if "recursive" in slots:  # "the contents under docs" are still those of one folder
        arguments["recursive"] = True
    return (_step(1, "fs.list", arguments),)


def _count_lines(slots: Slots) -> Steps:
    return (*_read(slots), _count("/lines"))


def _count_files(slots: Slots) -> Steps:
    return (*_list_files(slots), _count("/entries"))


def _count(path: str) -> JsonObject:
    return _step(2, "json.query", {"data": {"$from": "s1", "path": path}, "query": "length(@)"})


def _glob(slots: Slots) -> str:
    if "type" not in slots:
        return "*"
    token = slots["type"][0]
    if token.kind == DOTTED:
        return f"*{token.value}"
    return TYPES.get(token.value.lower(), token.value)


def _clause(name: str, steps: Callable[[Slots], Steps], *patterns: str, question: bool = False) -> tuple[Clause, ...]:
    return tuple(Clause(name, re.compile(pattern), steps, question) for pattern in patterns)


CLAUSES: tuple[Clause, ...] = (
    # read README.md · show me the contents of the file notes/a.txt · 读取 README.md 的内容
    *_clause("read a file", _read, rf"[RS]t?(?:Tot?)?[nm]?{_FILE}[nm]?(?:oT)?"),
    # fetch https://… · get the page at https://… · 抓取 https://… 的内容
    *_clause("fetch a page", _fetch, r"[RSF]t?(?:T[oA]|HA?)?(?P<url>u)(?:o?[TH])?"),
    # list Markdown files under docs · recursively list *.md in src · list all files
    *_clause(
        "list files",
        _list_files,
        rf"{_RECURSIVE}?[LSK]{_ALL}{_TYPE}?N{_WHERE}?",
        rf"[LSK]{_ALL}{_TYPE}?N{_WHERE}?{_RECURSIVE}",
        rf"{_RECURSIVE}?[LSK]{_ALL}(?P<type>g){_WHERE}?",
        # 列出 docs 目录下的所有 Markdown 文件 · 列出 docs 目录的文件 · 列出所有 Markdown 文件
        rf"{_RECURSIVE}?[LSK]d?{_CHINESE_WHERE}o?d?{_TYPE}?o?m",
        rf"{_RECURSIVE}?[LSK]d?(?P<where>{_NAMED_FOLDER}M)od?{_TYPE}?o?m",
        rf"{_RECURSIVE}?[LK]d?{_TYPE}?o?m",
    ),
    # list the docs folder · list docs/guide · list the contents of the docs folder · 列出 docs 目录的内容
    *_clause(
        "list a folder",
        _list_folder,
        rf"{_RECURSIVE}?[LS]t?(?:Tot?)?(?P<where>M{_NAMED_FOLDER}|{_NAMED_FOLDER}M)(?:[UI]?o?T)?",
        rf"{_RECURSIVE}?Lt?(?:Tot?)?(?P<where>{_FOLDER})",
    ),
    # write "hello" to notes.txt · 把 "hello" 写入 notes.txt
    *_clause(
        "write a text",
        _write,
        rf"W(?P<text>q)[xI]t?[nm]?{_FILE}[nm]?",
        rf"B(?P<text>q)Wx?[nm]?{_FILE}",
    ),
    # how many lines are in README.md · count the lines of README.md · README.md 有多少行 · 统计 README.md 的行数
    *_clause(
        "count lines",
        _count_lines,
        rf"C{_ALL}lv?[oI]t?n?{_FILE}n?",
        rf"Clvt?n?{_FILE}n?v",
        rf"m?{_FILE}m?[IU]?Cl",
        rf"Cm?{_FILE}m?o?l",
        question=True,
    ),
    # how many Markdown files are under docs · docs 目录下有多少个 Markdown 文件
    *_clause(
        "count files",
        _count_files,
        rf"C{_ALL}{_TYPE}?Nv?{_WHERE}",
        rf"{_CHINESE_WHERE}C{_TYPE}?o?m",
        rf"C{_CHINESE_WHERE}o?d?{_TYPE}?o?m",
        question=True,
    ),
)
