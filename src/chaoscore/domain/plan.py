"""Plans as values: steps, references between them, fan-out. A plan never changes once stored.

``parse_steps`` reads what a caller or a model wrote and reports every structural fault;
``chaoscore.domain.lint`` then checks the steps against the registry. spec: kernel contract §2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from chaoscore.domain.evaluation import Check
from chaoscore.domain.json import Json, JsonObject

OnError = Literal["stop", "continue"]
AuthorSource = Literal["caller", "provider", "rules"]


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
    """Who wrote the plan. ``tokens`` counts input and output tokens together."""

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
