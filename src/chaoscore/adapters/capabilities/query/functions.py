"""The functions a query may call: JMESPath's own, with their cost bounded, and a few for text and pairs.

``interpreter`` stands above it, the ``jmespath`` package below. Names and meanings of ours are those of the JMESPath
community's later functions where it has them; ``lines``, ``from_json`` are our own. None takes a regular expression.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from jmespath import exceptions, functions

from chaoscore.adapters.capabilities.query.budget import Budget
from chaoscore.adapters.capabilities.strict_json import parse_json
from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json, JsonObject

QUERY_INVALID = "QUERY_INVALID"
_Method = TypeVar("_Method", bound=Callable[..., object])
_TEXT = {"types": ["string"]}
_NUMBER = {"types": ["number"]}
_TRIM_CHARS_MAX = 64
_WIDTH_MAX = 10_000_000
_ANY: dict[str, list[str]] = {"types": []}
# How many arguments at the end may be left out.
_OPTIONAL = {"split": 1, "replace": 1, "trim": 1, "trim_left": 1, "trim_right": 1, "pad_left": 1, "pad_right": 1}


def _takes(*arguments: dict[str, Any]) -> Callable[[_Method], _Method]:
    """The types of a function's arguments; the package's base class collects methods that carry this."""
    return cast("Callable[[_Method], _Method]", functions.signature(*arguments))


class BoundedFunctions(functions.Functions):  # type: ignore[misc]
    """Charges every call for what it looks at, before it runs."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def call_function(self, function_name: str, resolved_args: list[Any]) -> Any:
        name = function_name
        spec = self.FUNCTION_TABLE.get(name)
        if spec is None:
            known = ", ".join(sorted(self.FUNCTION_TABLE))
            raise NotPerformed(f"there is no function {name[:60]!r}; there are {known}", code=QUERY_INVALID)
        missing = len(spec["signature"]) - len(resolved_args)
        if 0 < missing <= _OPTIONAL.get(name, 0):
            resolved_args = [*resolved_args, *_DEFAULTS[name][-missing:]]
        self._charge(name, resolved_args)
        return super().call_function(name, resolved_args)

    def _charge(self, name: str, arguments: list[Any]) -> None:
        if name in ("to_string", "contains"):  # these look at everything that is below
            for argument in arguments:
                self._budget.walk(argument)
        for argument in arguments:
            if isinstance(argument, str):
                self._budget.text(len(argument))
            elif isinstance(argument, list | dict):
                self._budget.items(len(argument))
                if name in ("sort", "sort_by"):
                    self._budget.sort(len(argument))
                elif name in ("sum", "avg", "max", "min", "join"):
                    self._budget.walk(argument)

    # -- text ------------------------------------------------------------------------------------------------

    @_takes(_TEXT)
    def _func_lines(self, text: str) -> list[str]:
        parts = text.removeprefix("\ufeff").split("\n")
        if parts[-1] == "":
            parts.pop()
        self._budget.items(len(parts))
        return [part.removesuffix("\r") for part in parts]

    @_takes(_TEXT, _TEXT, _NUMBER)
    def _func_split(self, text: str, separator: str, count: float) -> list[str]:
        most = _whole("split", count, -1)
        if separator == "":
            raise NotPerformed("split() needs a separator that is not empty", code=QUERY_INVALID)
        parts = text.split(separator, most)
        self._budget.items(len(parts))
        return parts

    @_takes(_TEXT, _TEXT, _TEXT, _NUMBER)
    def _func_replace(self, text: str, old: str, new: str, count: float) -> str:
        most = _whole("replace", count, -1)
        if old == "":
            raise NotPerformed("replace() needs a text to look for that is not empty", code=QUERY_INVALID)
        found = text.count(old)
        self._budget.text((found if most < 0 else min(found, most)) * len(new))
        return text.replace(old, new, most)

    @_takes(_TEXT, _TEXT)
    def _func_trim(self, text: str, chars: str) -> str:
        return text.strip(_few("trim", chars))

    @_takes(_TEXT, _TEXT)
    def _func_trim_left(self, text: str, chars: str) -> str:
        return text.lstrip(_few("trim_left", chars))

    @_takes(_TEXT, _TEXT)
    def _func_trim_right(self, text: str, chars: str) -> str:
        return text.rstrip(_few("trim_right", chars))

    @_takes(_TEXT)
    def _func_lower(self, text: str) -> str:
        return text.lower()

    @_takes(_TEXT)
    def _func_upper(self, text: str) -> str:
        return text.upper()

    @_takes(_TEXT, _NUMBER, _TEXT)
    def _func_pad_left(self, text: str, width: float, fill: str) -> str:
        return text.rjust(self._width("pad_left", width), _one("pad_left", fill))

    @_takes(_TEXT, _NUMBER, _TEXT)
    def _func_pad_right(self, text: str, width: float, fill: str) -> str:
        return text.ljust(self._width("pad_right", width), _one("pad_right", fill))

    def _width(self, name: str, width: float) -> int:
        whole = _whole(name, width, 0)
        self._budget.text(whole)
        return whole

    @_takes(_TEXT, {"types": ["array-string"]})
    def _func_join(self, separator: str, parts: list[str]) -> str:
        self._budget.text(len(separator) * len(parts))
        return separator.join(parts)

    # -- JSON ------------------------------------------------------------------------------------------------

    @_takes(_TEXT)
    def _func_from_json(self, text: str) -> Json:
        self._budget.spend(len(text) // 4)
        try:
            return parse_json(text)
        except ValueError:
            return None

    @_takes(_ANY)
    def _func_to_string(self, value: Json) -> str:
        if isinstance(value, str):
            return value
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

    @_takes(_ANY)
    def _func_to_number(self, value: Json) -> Json:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        if not isinstance(value, str):
            return value
        try:
            number = parse_json(value.strip())
        except ValueError:
            return None
        return number if isinstance(number, int | float) and not isinstance(number, bool) else None

    # -- pairs -----------------------------------------------------------------------------------------------

    @_takes({"types": ["array"], "variadic": True})
    def _func_zip(self, *arrays: Sequence[Json]) -> list[Json]:
        self._budget.spend(len(arrays) * min(len(array) for array in arrays))
        return [list(members) for members in zip(*arrays, strict=False)]

    @_takes({"types": ["object"]})
    def _func_items(self, value: JsonObject) -> list[Json]:
        return [[key, member] for key, member in value.items()]

    @_takes({"types": ["array"]})
    def _func_from_items(self, pairs: list[Json]) -> dict[str, Json]:
        out: dict[str, Json] = {}
        for pair in pairs:
            if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
                raise NotPerformed("from_items() needs pairs of a text and a value", code=QUERY_INVALID)
            out[pair[0]] = pair[1]
        return out

    @_takes({"types": ["array"]}, {"types": ["expref"]})
    def _func_group_by(self, elements: list[Json], expression: Any) -> dict[str, Json]:
        out: dict[str, list[Json]] = {}
        for element in elements:
            key = expression.visit(expression.expression, element)
            if key is None:
                continue
            if not isinstance(key, str):
                raise exceptions.JMESPathTypeError("group_by", key, type(key).__name__, ["string"])
            out.setdefault(key, []).append(element)
        return cast("dict[str, Json]", out)


_DEFAULTS: dict[str, list[Json]] = {
    "split": [-1],
    "replace": [-1],
    "trim": [""],
    "trim_left": [""],
    "trim_right": [""],
    "pad_left": [" "],
    "pad_right": [" "],
}


def _whole(name: str, number: float, least: int) -> int:
    if int(number) != number or not least <= number <= _WIDTH_MAX:
        raise NotPerformed(f"{name}() needs a whole number from {max(least, 0)}, not {number!r}", code=QUERY_INVALID)
    return int(number)


def _few(name: str, chars: str) -> str | None:
    """Every character of the text may be compared with each of these."""
    if len(chars) > _TRIM_CHARS_MAX:
        raise NotPerformed(f"{name}() takes at most {_TRIM_CHARS_MAX} characters to trim", code=QUERY_INVALID)
    return chars or None


def _one(name: str, fill: str) -> str:
    if len(fill) != 1:
        raise NotPerformed(f"{name}() fills with one character, not {fill[:20]!r}", code=QUERY_INVALID)
    return fill


FUNCTION_NAMES = tuple(sorted(BoundedFunctions.FUNCTION_TABLE))
