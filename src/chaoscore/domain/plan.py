"""Plans as values: steps, references between them, fan-out. A plan never changes once stored.

``chaoscore.domain.lint`` reads what a caller or a model wrote, reports every fault and checks the steps against the
registry; ``plan_from_json`` reads back what ``plan_to_json`` wrote. spec: kernel contract §2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn, TypeVar, cast

from chaoscore.domain.evaluation import OPERATORS, Check
from chaoscore.domain.json import Json, JsonObject, brief, is_array, is_object

OnError = Literal["stop", "continue"]
AuthorSource = Literal["caller", "provider", "rules", "client-model"]


@dataclass(frozen=True, slots=True)
class Reference:
    """``{"$from": "s1", "path": "/body"}``: a value of an earlier step's output, standing in place of a value."""

    step: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class ItemReference:
    """``{"$item": "/path"}``: a value of the current item; only inside a step that has ``for_each``."""

    path: str = ""


@dataclass(frozen=True, slots=True)
class ForEach:
    """Run the step once per item of an earlier step's array; more than ``max`` items fail it before any runs."""

    source: Reference
    max: int


@dataclass(frozen=True, slots=True)
class Step:
    """``arguments`` is the JSON as written, references included; it is resolved when its sources are known."""

    id: str
    capability: str
    arguments: JsonObject
    after: tuple[str, ...] = ()
    why: str = ""
    expect: tuple[Check, ...] = ()
    on_error: OnError = "stop"
    for_each: ForEach | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote the plan. ``tokens`` counts input and output tokens together, ``None`` where nobody told.

    For ``client-model``, ``model`` is what the client calls it.
    """

    source: AuthorSource
    provider: str | None = None
    model: str | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """``label`` is public (audit, logs, pages); the id a caller holds is a credential and lives in the store.

    ``created_at`` is seconds since the epoch, UTC. ``recalled`` marks a plan made after recalling memories.
    ``predecessor`` is the label of the plan this one replaces after a failed step.
    """

    label: str
    objective: str
    steps: tuple[Step, ...]
    author: Author
    policy_digest: str
    created_at: float
    owner: str
    intent: JsonObject | None = None
    change_id: str | None = None
    predecessor: str | None = None
    recalled: bool = False
    version: int = 1

    def step(self, step_id: str) -> Step:
        """Raises ``KeyError`` for an id the plan does not have."""
        for step in self.steps:
            if step.id == step_id:
                return step
        raise KeyError(step_id)


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What is known about a step before anything runs; from the plan's shape and the registry, never from a model.

    ``derives_from`` maps an argument's pointer to the steps whose outputs flow into it, directly or through others.
    ``untrusted`` are the argument pointers that carry untrusted output; ``untrusted_sinks`` those of them that decide
    where something goes.
    """

    depends_on: frozenset[str] = frozenset()
    derives_from: dict[str, tuple[str, ...]] = field(default_factory=dict)
    untrusted: tuple[str, ...] = ()
    untrusted_sinks: tuple[str, ...] = ()
    arguments_known: bool = True


def plan_to_json(plan: Plan) -> dict[str, Json]:
    """The stored and shown form. Inverse of ``plan_from_json``."""
    return {
        "label": plan.label,
        "version": plan.version,
        "objective": plan.objective,
        "intent": plan.intent,
        "steps": [step_to_json(step) for step in plan.steps],
        "author": {
            "source": plan.author.source,
            "provider": plan.author.provider,
            "model": plan.author.model,
            "tokens": plan.author.tokens,
        },
        "policy_digest": plan.policy_digest,
        "created_at": plan.created_at,
        "owner": plan.owner,
        "change_id": plan.change_id,
        "predecessor": plan.predecessor,
        "recalled": plan.recalled,
    }


def step_to_json(step: Step) -> dict[str, Json]:
    out: dict[str, Json] = {"id": step.id, "capability": step.capability, "arguments": step.arguments}
    if step.after:
        out["after"] = list(step.after)
    if step.why:
        out["why"] = step.why
    if step.expect:
        out["expect"] = [check.to_json() for check in step.expect]
    if step.on_error != "stop":
        out["on_error"] = step.on_error
    if step.for_each is not None:
        out["for_each"] = {
            "$from": step.for_each.source.step,
            "path": step.for_each.source.path,
            "max": step.for_each.max,
        }
    return out


def dependencies(step: Step, references: Sequence[Reference]) -> frozenset[str]:
    """References ∪ ``after``."""
    return frozenset(step.after) | {reference.step for reference in references}


def plan_from_json(raw: Json) -> Plan:
    """Inverse of ``plan_to_json``. Raises ``ValueError`` saying where ``raw`` is not what that writes.

    It reads what this system stored; what others write goes through ``chaoscore.domain.lint``.
    """
    at = _Stored(raw, "plan")
    author = _Stored(at.take("author"), "plan.author")
    steps = at.take("steps")
    if not is_array(steps):
        raise ValueError("plan.steps is not an array")
    return Plan(
        label=at.text("label"),
        objective=at.text("objective"),
        steps=tuple(step_from_json(step, f"plan.steps[{index}]") for index, step in enumerate(steps)),
        author=Author(
            source=author.one_of("source", ("caller", "provider", "rules", "client-model")),
            provider=author.text_or_none("provider"),
            model=author.text_or_none("model"),
            tokens=author.integer_or_none("tokens"),
        ),
        policy_digest=at.text("policy_digest"),
        created_at=at.number("created_at"),
        owner=at.text("owner"),
        intent=at.object_or_none("intent"),
        change_id=at.text_or_none("change_id"),
        predecessor=at.text_or_none("predecessor"),
        recalled=at.flag("recalled"),
        version=at.integer("version"),
    )


def step_from_json(raw: Json, where: str = "step") -> Step:
    """Inverse of ``step_to_json``. Raises ``ValueError``."""
    at = _Stored(raw, where)
    after, expect = at.take("after", []), at.take("expect", [])
    if not is_array(after) or not is_array(expect):
        raise ValueError(f"{where}.after or .expect is not an array")
    for_each = at.take("for_each", None)
    return Step(
        id=at.text("id"),
        capability=at.text("capability"),
        arguments=_Stored(at.take("arguments"), f"{where}.arguments").raw,
        after=tuple(_Stored({"id": name}, f"{where}.after").text("id") for name in after),
        why=at.text("why", ""),
        expect=tuple(_check(check, f"{where}.expect[{index}]") for index, check in enumerate(expect)),
        on_error=at.one_of("on_error", ("stop", "continue"), "stop"),
        for_each=None if for_each is None else _for_each(for_each, f"{where}.for_each"),
    )


def _check(raw: Json, where: str) -> Check:
    at = _Stored(raw, where)
    return Check(at.text("path"), at.one_of("op", OPERATORS), at.take("value", None), at.flag("every", False))


def _for_each(raw: Json, where: str) -> ForEach:
    at = _Stored(raw, where)
    return ForEach(Reference(at.text("$from"), at.text("path")), at.integer("max"))


_Choice = TypeVar("_Choice", bound=str)
_REQUIRED: Final = object()


class _Stored:
    """Typed access to one stored object; every wrong or missing member is a ``ValueError`` that names it."""

    def __init__(self, raw: Json, where: str) -> None:
        if not is_object(raw):
            raise ValueError(f"{where} is not an object")
        self.raw = raw
        self._where = where

    def take(self, key: str, default: object = _REQUIRED) -> Json:
        if key in self.raw:
            return self.raw[key]
        if default is _REQUIRED:
            raise ValueError(f"{self._where}.{key} is missing")
        return cast("Json", default)

    def text(self, key: str, default: object = _REQUIRED) -> str:
        value = self.take(key, default)
        return value if isinstance(value, str) else self._wrong(key, value)

    def text_or_none(self, key: str) -> str | None:
        value = self.take(key)
        return value if value is None or isinstance(value, str) else self._wrong(key, value)

    def one_of(self, key: str, choices: Sequence[_Choice], default: object = _REQUIRED) -> _Choice:
        value = self.take(key, default)
        return next((choice for choice in choices if choice == value), None) or self._wrong(key, value)

    def number(self, key: str) -> float:
        value = self.take(key)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        return value if good and isinstance(value, int | float) else self._wrong(key, value)

    def integer(self, key: str) -> int:
        value = self.take(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else self._wrong(key, value)

    def integer_or_none(self, key: str) -> int | None:
        return None if self.take(key) is None else self.integer(key)

    def object_or_none(self, key: str) -> JsonObject | None:
        value = self.take(key)
        return value if value is None or is_object(value) else self._wrong(key, value)

    def flag(self, key: str, default: object = _REQUIRED) -> bool:
        value = self.take(key, default)
        return value if isinstance(value, bool) else self._wrong(key, value)

    def _wrong(self, key: str, value: Json) -> NoReturn:
        raise ValueError(f"{self._where}.{key} cannot be {brief(value)}")
