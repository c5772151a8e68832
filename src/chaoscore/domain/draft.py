"""Reading steps as a caller or a model wrote them: their structure alone, every fault noted, nothing raised.

``chaoscore.domain.lint`` stands above it and checks the drafts against the registry. A draft keeps what could be read
of a faulty step, so that the rest of it is checked too and all faults are answered at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from chaoscore.domain.evaluation import OPERATORS, TYPE_NAMES, Check, Operator
from chaoscore.domain.faults import NAME_CHARS_MAX, Faults, near
from chaoscore.domain.json import (
    Json,
    JsonObject,
    brief,
    is_array,
    is_object,
    pointer_join,
    pointer_tokens,
    type_name,
    unfit_parts,
)
from chaoscore.domain.limits import Limits
from chaoscore.domain.plan import ForEach, OnError, Reference, Step
from chaoscore.domain.references import Malformed, scan

NESTING_MAX = 64
VALUES_MAX = 50_000
"""JSON values in all steps together: checking them one by one takes time. Large data belongs in files and outputs."""
EXPECT_MAX = 50
WHY_CHARS_MAX = 2_000
STEP_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

STEP_KEYS = ("id", "capability", "arguments", "after", "why", "expect", "on_error", "for_each")
CHECK_KEYS = ("path", "op", "value", "every")
FOR_EACH_KEYS = ("$from", "path", "max")
ON_ERROR: tuple[OnError, ...] = ("stop", "continue")


@dataclass(slots=True)
class Draft:
    """One step as far as it could be read. ``None`` is what could not; ``loops`` tells that it has a ``for_each``,
    ``loop_faulty`` that something in it is wrong. ``after`` and ``expect`` keep their places in the array."""

    index: int
    id: str | None = None
    capability: str | None = None
    arguments: JsonObject | None = None
    after: list[tuple[int, str]] = field(default_factory=list)
    why: str = ""
    expect: list[tuple[int, Check]] = field(default_factory=list)
    on_error: OnError = "stop"
    for_each: ForEach | None = None
    loops: bool = False
    loop_faulty: bool = False

    @classmethod
    def of(cls, index: int, step: Step) -> Draft:
        return cls(
            index,
            step.id,
            step.capability,
            step.arguments,
            list(enumerate(step.after)),
            step.why,
            list(enumerate(step.expect)),
            step.on_error,
            step.for_each,
            step.for_each is not None,
        )

    @property
    def at(self) -> str:
        return f"/steps/{self.index}"

    def step(self) -> Step | None:
        """The step, if everything that makes it one could be read."""
        if self.id is None or self.capability is None or self.arguments is None:
            return None
        if self.loop_faulty:
            return None
        return Step(
            self.id,
            self.capability,
            self.arguments,
            tuple(dict.fromkeys(name for _, name in self.after)),
            self.why,
            tuple(check for _, check in self.expect),
            self.on_error,
            self.for_each,
        )


def read_steps(raw: Json, limits: Limits, faults: Faults) -> list[Draft]:
    """Drafts of at most ``limits.steps_max`` steps. Total: any JSON gives drafts and faults."""
    if not is_array(raw):
        inside = is_object(raw) and is_array(raw.get("steps"))
        hint = "send the array under 'steps' itself" if inside else 'write [{"id": "s1", "capability": …}]'
        faults.add("/steps", f"steps must be an array of steps, not {type_name(raw)}", hint)
        return []
    for unfit in unfit_parts(raw, nesting_max=NESTING_MAX, values_max=VALUES_MAX, bytes_max=limits.request_bytes_max):
        faults.add("/steps" + pointer_join(*unfit.tokens), unfit.reason)
        if unfit.fatal:
            return []
        if faults.full:
            break
    if not raw:
        faults.add("/steps", "a plan needs at least one step")
    if len(raw) > limits.steps_max:
        hint = "do less, or repeat one step over an array with for_each"
        faults.add("/steps", f"{len(raw)} steps are more than the {limits.steps_max} allowed", hint)
    return [_Reader(index, limits, faults).read(step) for index, step in enumerate(raw[: limits.steps_max])]


class _Reader:
    """Reads one step."""

    def __init__(self, index: int, limits: Limits, faults: Faults) -> None:
        self.draft = Draft(index)
        self.at = self.draft.at
        self.limits = limits
        self.faults = faults

    def read(self, raw: Json) -> Draft:
        draft = self.draft
        if not is_object(raw):
            self.faults.add(self.at, f"a step is an object, not {type_name(raw)}")
            return draft
        self._known_keys(raw, STEP_KEYS, self.at)
        self._id(raw)
        self._capability(raw)
        self._arguments(raw.get("arguments", {}))
        self._after(raw.get("after", []))
        if "why" in raw:
            draft.why = self._text(raw["why"], f"{self.at}/why", WHY_CHARS_MAX) or ""
        self._expect(raw.get("expect", []))
        if "on_error" in raw:
            self._on_error(raw["on_error"])
        if "for_each" in raw:
            draft.loops = draft.loop_faulty = True
            self._for_each(raw["for_each"], f"{self.at}/for_each")
        return draft

    def _known_keys(self, raw: JsonObject, known: Sequence[str], at: str) -> None:
        for key in raw:
            if key not in known:
                guess = _SYNONYMS.get(key.lower()) or next(iter(near(key, known, 1)), None)
                hint = f"did you mean {guess!r}?" if guess in known else f"known keys: {', '.join(known)}"
                self.faults.add(at + pointer_join(key), f"unknown key {brief(key)}", hint)
                if self.faults.full:
                    return

    def _text(self, value: Json, at: str, chars_max: int) -> str | None:
        if not isinstance(value, str):
            self.faults.add(at, f"must be text, not {type_name(value)}")
            return None
        if len(value) > chars_max:
            self.faults.add(at, f"has {len(value)} characters, at most {chars_max} are allowed")
            return None
        return value

    def _id(self, raw: JsonObject) -> None:
        at, suggestion = f"{self.at}/id", f"use 's{self.draft.index + 1}'"
        if "id" not in raw:
            self.faults.add(at, "every step needs an id", suggestion)
            return
        value = raw["id"]
        if isinstance(value, str) and STEP_ID.fullmatch(value):
            self.draft.id = value
            return
        rule = "an id is a letter followed by at most 63 letters, digits, '_' or '-'"
        self.faults.add(at, f"{rule}, not {brief(value)}", suggestion)

    def _capability(self, raw: JsonObject) -> None:
        at = f"{self.at}/capability"
        if "capability" not in raw:
            self.faults.add(at, "every step names a capability")
            return
        self.draft.capability = self._text(raw["capability"], at, NAME_CHARS_MAX)

    def _arguments(self, value: Json) -> None:
        at = f"{self.at}/arguments"
        if not is_object(value):
            self.faults.add(at, f"arguments are an object, not {type_name(value)}", 'write {"name": value}')
            return
        for pointer, found in scan(value):
            if isinstance(found, Malformed):
                self.faults.add(at + pointer + found.at, found.reason, found.suggestion)
            elif pointer == "":
                self.faults.add(at, "arguments cannot be a reference as a whole", "name each argument and refer there")
                return
            if self.faults.full:
                return
        self.draft.arguments = value

    def _after(self, value: Json) -> None:
        at = f"{self.at}/after"
        if not is_array(value):
            hint = f"write [{value!r}]" if isinstance(value, str) and STEP_ID.fullmatch(value) else 'write ["s1"]'
            self.faults.add(at, f"must be an array of step ids, not {type_name(value)}", hint)
            return
        if len(value) > self.limits.steps_max:
            self.faults.add(at, f"has {len(value)} ids, more than there can be steps ({self.limits.steps_max})")
            return
        for position, name in enumerate(value):
            if isinstance(name, str):
                self.draft.after.append((position, name))
            else:
                self.faults.add(f"{at}/{position}", f"must be a step id, not {type_name(name)}")

    def _on_error(self, value: Json) -> None:
        choice = next((known for known in ON_ERROR if known == value), None)
        if choice is None:
            self.faults.add(f"{self.at}/on_error", f"must be 'stop' or 'continue', not {brief(value)}")
        else:
            self.draft.on_error = choice

    def _for_each(self, value: Json, at: str) -> None:
        hint = 'write {"$from": "s1", "path": "/items", "max": 100}'
        if not is_object(value):
            self.faults.add(at, f"must be an object, not {type_name(value)}", hint)
            return
        self._known_keys(value, FOR_EACH_KEYS, at)
        source, path, most = value.get("$from"), value.get("path", ""), value.get("max")
        if "$from" not in value or "max" not in value:
            missing = "$from" if "$from" not in value else "max"
            self.faults.add(f"{at}/{missing}", f"{missing!r} is required but missing", hint)
        if "$from" in value and not isinstance(source, str):
            self.faults.add(f"{at}/$from", f"must be a step id, not {type_name(source)}", hint)
        readable = self._pointer(path, f"{at}/path")
        items_max = self.limits.items_max
        most = most if isinstance(most, int) and not isinstance(most, bool) else 0
        if "max" in value and not 1 <= most <= items_max:
            self.faults.add(f"{at}/max", f"must be a whole number from 1 to {items_max}, not {brief(value['max'])}")
        if isinstance(source, str) and readable is not None:
            self.draft.for_each = ForEach(Reference(source, readable), most)
            self.draft.loop_faulty = not 1 <= most <= items_max

    def _pointer(self, value: Json, at: str) -> str | None:
        if not isinstance(value, str):
            self.faults.add(at, f"must be a JSON Pointer, not {type_name(value)}")
            return None
        try:
            pointer_tokens(value)
        except ValueError:
            self.faults.add(at, f"{brief(value)} is not a JSON Pointer", "it is '' or begins with '/', as '/items/0'")
            return None
        return value

    def _expect(self, value: Json) -> None:
        at = f"{self.at}/expect"
        if not is_array(value):
            self.faults.add(at, f"must be an array of checks, not {type_name(value)}", f"write [{_CHECK_FORM}]")
            return
        if len(value) > EXPECT_MAX:
            self.faults.add(at, f"has {len(value)} checks, at most {EXPECT_MAX} are allowed")
            return
        for position, check in enumerate(value):
            read = self._check(check, f"{at}/{position}")
            if read is not None:
                self.draft.expect.append((position, read))

    def _check(self, raw: Json, at: str) -> Check | None:
        if not is_object(raw):
            self.faults.add(at, f"a check is an object, not {type_name(raw)}", f"write {_CHECK_FORM}")
            return None
        self._known_keys(raw, CHECK_KEYS, at)
        for key in ("path", "op"):
            if key not in raw:
                self.faults.add(f"{at}/{key}", f"{key!r} is required but missing", f"write {_CHECK_FORM}")
        path = self._pointer(raw["path"], f"{at}/path") if "path" in raw else None
        op = self._operator(raw["op"], f"{at}/op") if "op" in raw else None
        every = raw.get("every", False)
        if not isinstance(every, bool):
            self.faults.add(f"{at}/every", f"must be true or false, not {brief(every)}")
        if op is None or path is None or not self._check_value(op, raw, at):
            return None
        return Check(path, op, raw.get("value"), every is True)

    def _operator(self, value: Json, at: str) -> Operator | None:
        found = next((known for known in OPERATORS if known == value), None)
        if found is None:
            guess = _OPERATOR_WORDS.get(value) if isinstance(value, str) else None
            hint = f"did you mean {guess!r}?" if guess else f"one of {', '.join(OPERATORS)}"
            self.faults.add(at, f"{brief(value)} is not an operator", hint)
        return found

    def _check_value(self, op: Operator, raw: JsonObject, at: str) -> bool:
        if op in ("exists", "absent"):
            if "value" in raw:
                self.faults.add(f"{at}/value", f"{op!r} takes no value", "leave 'value' out")
            return "value" not in raw
        if "value" not in raw:
            self.faults.add(f"{at}/value", f"{op!r} needs a value to compare with")
            return False
        value = raw["value"]
        wanted = _value_problem(op, value)
        if wanted is not None:
            self.faults.add(f"{at}/value", f"{op!r} needs {wanted}, not {brief(value)}")
        return wanted is None


def _value_problem(op: Operator, value: Json) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if op in ("lt", "le", "gt", "ge") and not number and not isinstance(value, str):
        return "a number or text"
    if op == "in" and not is_array(value):
        return "an array of values"
    if op == "type" and value not in TYPE_NAMES:
        return f"one of {', '.join(TYPE_NAMES)}"
    if op == "length" and not (number and isinstance(value, int | float) and value >= 0 and value == value // 1):
        return "a whole number from 0"
    return None


_CHECK_FORM = '{"path": "/status", "op": "eq", "value": 200}'
_OPERATOR_WORDS = {
    "==": "eq",
    "=": "eq",
    "equals": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    "lte": "le",
    ">": "gt",
    ">=": "ge",
    "gte": "ge",
    "includes": "contains",
    "present": "exists",
    "missing": "absent",
}
_SYNONYMS = {
    "args": "arguments",
    "input": "arguments",
    "parameters": "arguments",
    "tool": "capability",
    "action": "capability",
    "name": "capability",
    "depends_on": "after",
    "description": "why",
    "reason": "why",
    "checks": "expect",
    "foreach": "for_each",
}
