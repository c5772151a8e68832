"""Plans as the store keeps them: written out and read back the same."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given

from chaoscore.domain.evaluation import Check
from chaoscore.domain.json import Json
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import parse_steps
from chaoscore.domain.plan import (
    Author,
    ForEach,
    Plan,
    Reference,
    Step,
    dependencies,
    plan_from_json,
    plan_to_json,
    step_from_json,
    step_to_json,
)
from tests.domain.plans import plans, sound_plans, steps
from tests.domain.values import json_values

PLAN = Plan(
    "p-1",
    "list the notes",
    (
        Step("s1", "fs.list", {"path": "notes"}),
        Step(
            "s2",
            "fs.read_text",
            {"path": {"$item": "/path"}},
            after=("s1",),
            why="each note",
            expect=(Check("", "length", 3), Check("/0", "exists"), Check("", "type", "object", every=True)),
            on_error="continue",
            for_each=ForEach(Reference("s1", "/entries"), 9),
        ),
    ),
    Author("provider", "openai", "some-model", 120),
    "sha256:00",
    1_790_000_000.5,
    "local:501",
    intent={"goal": "notes"},
    change_id="c-7",
    predecessor="p-0",
    recalled=True,
)


def test_a_plan_is_written_out_in_full() -> None:
    assert plan_to_json(PLAN) == {
        "label": "p-1",
        "version": 1,
        "objective": "list the notes",
        "intent": {"goal": "notes"},
        "steps": [
            {"id": "s1", "capability": "fs.list", "arguments": {"path": "notes"}},
            {
                "id": "s2",
                "capability": "fs.read_text",
                "arguments": {"path": {"$item": "/path"}},
                "after": ["s1"],
                "why": "each note",
                "expect": [
                    {"path": "", "op": "length", "value": 3},
                    {"path": "/0", "op": "exists"},
                    {"path": "", "op": "type", "value": "object", "every": True},
                ],
                "on_error": "continue",
                "for_each": {"$from": "s1", "path": "/entries", "max": 9},
            },
        ],
        "author": {"source": "provider", "provider": "openai", "model": "some-model", "tokens": 120},
        "policy_digest": "sha256:00",
        "created_at": 1_790_000_000.5,
        "owner": "local:501",
        "change_id": "c-7",
        "predecessor": "p-0",
        "recalled": True,
    }


@given(plans)
def test_a_plan_survives_the_store(plan: Plan) -> None:
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


@given(steps)
def test_a_step_survives_the_store(step: Step) -> None:
    assert step_from_json(json.loads(json.dumps(step_to_json(step)))) == step


@given(sound_plans())
def test_a_parsed_step_written_out_is_parsed_the_same(raw: list[Any]) -> None:
    parsed, _ = parse_steps(raw, Limits())
    again, faults = parse_steps([step_to_json(step) for step in parsed], Limits())
    assert again == parsed
    assert faults == ()


BROKEN: list[tuple[tuple[str | int, ...], Json, str]] = [
    (("label",), 1, "plan.label cannot be 1"),
    (("version",), True, "plan.version cannot be true"),
    (("version",), 1.5, "plan.version cannot be 1.5"),
    (("created_at",), "x", "plan.created_at cannot be 'x'"),
    (("created_at",), True, "plan.created_at cannot be true"),
    (("recalled",), 0, "plan.recalled cannot be 0"),
    (("intent",), [], "plan.intent cannot be []"),
    (("change_id",), 1, "plan.change_id cannot be 1"),
    (("author",), None, "plan.author is not an object"),
    (("author", "source"), "model", "plan.author.source cannot be 'model'"),
    (("author", "tokens"), "x", "plan.author.tokens cannot be 'x'"),
    (("steps",), {}, "plan.steps is not an array"),
    (("steps", 0), 1, "plan.steps[0] is not an object"),
    (("steps", 0, "arguments"), [], "plan.steps[0].arguments is not an object"),
    (("steps", 1, "after"), "s1", "plan.steps[1].after or .expect is not an array"),
    (("steps", 1, "after", 0), 1, "plan.steps[1].after.id cannot be 1"),
    (("steps", 1, "on_error"), "x", "plan.steps[1].on_error cannot be 'x'"),
    (("steps", 1, "expect", 0, "op"), "==", "plan.steps[1].expect[0].op cannot be '=='"),
    (("steps", 1, "for_each", "max"), "9", "plan.steps[1].for_each.max cannot be '9'"),
]


@pytest.mark.parametrize(("where", "value", "message"), BROKEN)
def test_a_stored_plan_that_is_broken_says_where(where: tuple[str | int, ...], value: Json, message: str) -> None:
    raw: Any = copy.deepcopy(plan_to_json(PLAN))
    at = raw
    for token in where[:-1]:
        at = at[token]
    at[where[-1]] = value
    with pytest.raises(ValueError, match=r"^plan") as raised:
        plan_from_json(raw)
    assert str(raised.value) == message


@pytest.mark.parametrize("key", sorted(plan_to_json(PLAN)))
def test_a_stored_plan_that_lacks_a_member_says_which(key: str) -> None:
    raw = {name: value for name, value in plan_to_json(PLAN).items() if name != key}
    with pytest.raises(ValueError, match=rf"^plan\.{key} is missing$"):
        plan_from_json(raw)


@given(json_values)
def test_any_json_is_a_plan_or_a_value_error(raw: Json) -> None:
    with pytest.raises(ValueError, match=r"^plan"):
        plan_from_json(raw)


def test_a_plan_finds_its_steps_by_id() -> None:
    assert PLAN.step("s2").capability == "fs.read_text"
    with pytest.raises(KeyError):
        PLAN.step("s9")


def test_dependencies_are_references_and_after() -> None:
    step = Step("s3", "x.y", {}, after=("s1",))
    assert dependencies(step, [Reference("s2"), Reference("s2", "/a")]) == {"s1", "s2"}
