"""The form of a plan as JSON Schema: what the strict form accepts the linter can read, what it reads fits the form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.domain.capability import Capability
from chaoscore.domain.evaluation import OPERATORS
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import check_steps, parse_steps
from chaoscore.domain.plan import step_to_json
from chaoscore.domain.plan_schema import PLAN_SCHEMA, from_strict, plan_schema
from chaoscore.domain.schema import LINTED, schema_faults, schema_problem
from tests.domain.capabilities import CAPABILITIES, closed, taken
from tests.domain.plans import pointers, sound_plans
from tests.domain.schemas import schemas
from tests.domain.values import json_values, nested, wild_json

LIMITS = Limits()
STRICT = plan_schema(CAPABILITIES)


def test_both_forms_are_json_schema() -> None:
    assert schema_problem(PLAN_SCHEMA) is None
    assert schema_problem(STRICT) is None


def test_the_friendly_form_leaves_checking_to_the_linter() -> None:
    assert PLAN_SCHEMA["$comment"] == LINTED


@given(sound_plans())
def test_what_the_linter_accepts_fits_the_friendly_form(raw: list[Any]) -> None:
    assert schema_faults(raw, PLAN_SCHEMA) == []
    written = [step_to_json(step) for step in check_steps(raw, CAPABILITIES, LIMITS).require()]
    assert schema_faults(written, PLAN_SCHEMA) == []


def test_the_example_of_the_friendly_form_fits_it_and_has_no_structural_fault() -> None:
    examples = PLAN_SCHEMA["examples"]
    assert isinstance(examples, list)
    (example,) = examples
    assert schema_faults(example, PLAN_SCHEMA) == []
    assert parse_steps(example, LIMITS)[1] == ()


# -- the strict form -------------------------------------------------------------------------------------------

KEYWORDS = {
    *("type", "enum", "const", "anyOf", "properties", "required", "additionalProperties", "items"),
    *("$ref", "$defs", "pattern", "description"),
}


def subschemas(schema: Any) -> list[dict[str, Any]]:
    found = [schema]
    for keyword in ("properties", "$defs"):
        for member in schema.get(keyword, {}).values():
            found += subschemas(member)
    for member in schema.get("anyOf", []):
        found += subschemas(member)
    return found + (subschemas(schema["items"]) if "items" in schema else [])


def hold_to_strict_modes(schema: JsonObject) -> None:
    """The rules that strict modes of providers share."""
    assert schema["type"] == "object"
    for part in subschemas(schema):
        assert set(part) <= KEYWORDS
        assert set(part) & {"type", "enum", "const", "anyOf", "$ref"}
        if part.get("type") == "object" or "properties" in part:
            assert part["additionalProperties"] is False
            assert sorted(part["required"]) == sorted(part["properties"])
        if part.get("type") == "array":
            assert "items" in part
        if "$ref" in part:
            assert set(part) == {"$ref"}
            assert part["$ref"].removeprefix("#/$defs/") in schema["$defs"]  # type: ignore[operator]


def test_the_strict_form_keeps_the_rules_of_strict_modes() -> None:
    hold_to_strict_modes(STRICT)


@given(schemas)
def test_every_input_schema_has_a_strict_form(schema: JsonObject) -> None:
    odd = Capability("odd.one", "odd", "low", schema, {})
    strict = plan_schema({"odd.one": odd})
    hold_to_strict_modes(strict)
    assert schema_problem(strict) is None


def test_ids_are_as_many_as_there_can_be_steps() -> None:
    ids = plan_schema(CAPABILITIES, Limits(steps_max=3))["$defs"]["step"]  # type: ignore[index,call-overload]
    assert ids == {"type": "string", "enum": ["s1", "s2", "s3"]}


def drawn(schema: Any, root: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Everything a strict mode lets a model write: what the schema accepts, where ``$json`` holds JSON and a bound is
    kept."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name == "json":
            return st.fixed_dictionaries({"$json": json_values.map(json.dumps)})
        if name == "pointer":
            return pointers
        return drawn(root["$defs"][name], root, depth)
    if "anyOf" in schema:
        members = schema["anyOf"] if depth < 6 else schema["anyOf"][-1:]
        return st.one_of([drawn(member, root, depth + 1) for member in members])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if isinstance(schema["type"], list):
        return st.one_of([drawn({**schema, "type": kind}, root, depth) for kind in schema["type"]])
    match schema["type"]:
        case "object":
            members = schema["properties"].items()
            return st.fixed_dictionaries({key: drawn(member, root, depth + 1) for key, member in members})
        case "array":
            return st.lists(drawn(schema["items"], root, depth + 1), max_size=2)
        case "string":
            return st.sampled_from(["", "x", "$from", "a/b", "é"])
        case "number":
            return st.sampled_from([0, -1, 2.5])
        case "integer":
            return st.integers(1, 5)
        case "boolean":
            return st.booleans()
    return st.none()


def with_own_ids(plan: Any) -> Any:
    """Each step under an id of its own: that ids differ is the linter's to say."""
    for number, step in enumerate(plan["steps"]):
        step["id"] = f"s{number + 1}"
    return plan


strict_plans = drawn(STRICT, STRICT).map(with_own_ids)
# What a strict schema cannot say: that there is a step, and what the JSON in a ``$json`` text is.
BEYOND_A_SCHEMA = ("at least one step", "arguments are an object", "is not a reference", "a reference has no key")


@settings(max_examples=150)
@given(strict_plans)
def test_what_the_strict_form_accepts_the_linter_can_read(plan: Any) -> None:
    assert schema_faults(plan, STRICT) == []
    steps, faults = parse_steps(from_strict(plan), LIMITS)
    assert [f for f in faults if not any(words in f.message for words in BEYOND_A_SCHEMA)] == []
    assert faults or len(steps) == len(plan["steps"])


def test_every_operator_has_its_form_of_value() -> None:
    strict: Any = STRICT
    forms = strict["$defs"]["check"]["anyOf"]
    named = [op for form in forms for op in form["properties"]["op"]["enum"]]
    assert sorted(named) == sorted(OPERATORS)


@settings(max_examples=100)
@given(strict_plans)
def test_nothing_the_strict_form_says_is_lost_on_the_way(plan: Any) -> None:
    for strict, plain in zip(plan["steps"], from_strict(plan), strict=True):  # type: ignore[arg-type]
        assert isinstance(plain, dict)
        assert plain["id"] == strict["id"]
        assert plain["capability"] == strict["capability"]
        assert set(strict) - set(plain) == {key for key, value in strict.items() if value is None}
        if strict["for_each"] is not None:
            assert plain["for_each"] == strict["for_each"]


def strict_step(capability: str, arguments: Json, **more: Json) -> dict[str, Json]:
    return {
        "id": "s1",
        "capability": capability,
        "arguments": arguments,
        **dict.fromkeys(("after", "why", "expect", "on_error", "for_each")),
        **more,
    }


def test_a_plan_in_the_strict_form_becomes_the_plan_it_means() -> None:
    strict = {
        "steps": [
            strict_step("fs.list", {"path": "docs", "recursive": None}),
            {
                **strict_step(
                    "json.query",
                    {"data": {"$json": '{"rows": [{"$from": "s1", "path": "/entries"}], "none": null}'}, "query": "x"},
                    after=["s1"],
                    expect=[
                        {"path": "/result", "op": "ne", "value": {"$json": "null"}, "every": None},
                        {"path": "/result", "op": "exists", "value": None, "every": None},
                    ],
                ),
                "id": "s2",
            },
        ]
    }
    assert schema_faults(strict, STRICT) == []
    report = check_steps(from_strict(strict), CAPABILITIES, LIMITS)
    assert report.faults == ()
    first, second = report.steps
    assert first.arguments == {"path": "docs"}
    assert second.arguments == {"data": {"rows": [taken("s1", "/entries")], "none": None}, "query": "x"}
    assert [check.to_json() for check in second.expect] == [
        {"path": "/result", "op": "ne", "value": None},
        {"path": "/result", "op": "exists"},
    ]


@pytest.mark.parametrize(
    ("capability", "arguments"),
    [
        ("clock.now", {}),
        ("http.request", {"url": "https://a.example", "timeout_seconds": None}),
        ("http.request", {"url": taken("s2", "/body"), "timeout_seconds": taken("s2")}),
        (
            "mail.send",
            {**dict.fromkeys(("text", "retries", "priority", "at", "headers")), "to": [{"address": "x", "name": None}]},
        ),
        (
            "mail.send",
            {**dict.fromkeys(("text", "retries", "priority", "at")), "to": taken("s2"), "headers": {"$json": "{}"}},
        ),
        (
            "mail.send",
            {**dict.fromkeys(("text", "retries", "headers")), "to": [{"$item": ""}], "at": 3, "priority": "low"},
        ),
        ("json.query", {"data": 3, "query": "x"}),
        ("json.query", {"data": {"$json": "[1]"}, "query": "x"}),
        ("open.any", {"$json": '{"a": {"b": null}}'}),
    ],
)
def test_arguments_that_a_capability_takes_have_a_strict_form(capability: str, arguments: Json) -> None:
    plan = {"steps": [strict_step(capability, arguments)]}
    assert schema_faults(plan, STRICT) == []
    assert parse_steps(from_strict(plan), LIMITS)[1] == ()


@pytest.mark.parametrize(
    ("capability", "arguments"),
    [
        ("clock.now", {"x": 1}),
        ("http.request", {"url": "x"}),
        ("http.request", {"url": 1, "timeout_seconds": None}),
        ("http.request", {"url": {"$from": "s1"}, "timeout_seconds": None}),
        ("http.request", {"url": {"$from": "nobody", "path": ""}, "timeout_seconds": None}),
        ("http.request", {"url": {"$from": "s2", "path": "body"}, "timeout_seconds": None}),
        ("json.query", {"data": None, "query": "x"}),
        ("json.query", {"data": {"any": 1}, "query": "x"}),
        ("http.get", {"url": "x"}),
    ],
)
def test_arguments_that_no_plan_may_have_are_outside_the_strict_form(capability: str, arguments: Json) -> None:
    assert schema_faults({"steps": [strict_step(capability, arguments)]}, STRICT) != []


def test_a_literal_key_that_begins_with_a_dollar_is_escaped_in_the_strict_form() -> None:
    odd = Capability("odd.one", "odd", "low", closed({"$ref": {"type": "string"}}, ["$ref"]), {})
    plan = {"steps": [strict_step("odd.one", {"$$ref": "x"})]}
    assert schema_faults(plan, plan_schema({"odd.one": odd})) == []
    assert check_steps(from_strict(plan), {"odd.one": odd}, LIMITS).faults == ()


def test_json_text_that_is_no_json_is_named_by_the_linter() -> None:
    plan = {"steps": [strict_step("json.query", {"data": {"$json": "{"}, "query": "x"})]}
    (fault,) = parse_steps(from_strict(plan), LIMITS)[1]
    assert fault.pointer == "/steps/0/arguments/data"
    assert "'$json'" in fault.message


@given(wild_json)
def test_any_json_passes_through_for_the_linter_to_name(raw: Json) -> None:
    parse_steps(from_strict(raw), LIMITS)
    parse_steps(from_strict({"steps": raw}), LIMITS)


@pytest.mark.parametrize("raw", [nested(100_000), nested(100_000, "object"), {"$json": "[" * 100_000}])
def test_what_is_nested_too_deeply_passes_through(raw: Json) -> None:
    assert parse_steps(from_strict([raw]), LIMITS)[1]
