"""Whatever is handed in as a plan, the answer is steps and faults, in bounded time and size, never an exception."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.domain.errors import Fault, PlanInvalid
from chaoscore.domain.faults import FAULTS_MAX
from chaoscore.domain.json import Json, MissingPath, resolve_pointer, unfit_parts
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import LintReport, check_steps, parse_steps
from chaoscore.domain.plan import step_to_json
from chaoscore.domain.references import Malformed, scan
from tests.domain.capabilities import CAPABILITIES, step, taken
from tests.domain.plans import raw_plans, sound_plans
from tests.domain.values import nested, wild_json

LIMITS = Limits()


def check(raw: Json) -> LintReport:
    report = check_steps(raw, CAPABILITIES, LIMITS)
    assert len(report.faults) <= FAULTS_MAX + 1
    # Faults go to callers and models as JSON over UTF-8.
    json.dumps([fault.to_json() for fault in report.faults], ensure_ascii=False).encode()
    PlanInvalid(report.faults)
    return report


@settings(max_examples=400)
@given(raw_plans)
def test_any_json_gives_steps_and_faults(raw: Json) -> None:
    report = check(raw)
    steps, faults = parse_steps(raw, LIMITS)
    assert steps == report.steps
    assert set(faults) <= set(report.faults)


@given(wild_json)
def test_a_plan_is_never_both_faultless_and_unreadable(raw: Json) -> None:
    assert not check(raw).ok


@settings(max_examples=200)
@given(st.one_of(sound_plans(), sound_plans(), raw_plans))
def test_a_faultless_plan_can_be_run(raw: Json) -> None:
    """What the run service relies on: unique ids, only earlier steps, well-formed references, storable values."""
    report = check(raw)
    if not report.ok:
        return
    assert isinstance(raw, list)
    assert len(report.steps) == len(raw) > 0
    seen: set[str] = set()
    for read in report.steps:
        assert read.id not in seen
        assert read.capability in CAPABILITIES
        assert report.facts[read.id].depends_on <= seen
        assert not any(isinstance(found, Malformed) for _, found in scan(read.arguments))
        seen.add(read.id)
    stored = [step_to_json(read) for read in report.steps]
    assert list(unfit_parts(stored, nesting_max=80, bytes_max=10**9)) == []
    assert check(stored) == report


@settings(max_examples=200)
@given(sound_plans())
def test_a_sound_plan_has_no_fault(raw: Json) -> None:
    assert check(raw).faults == ()


@settings(max_examples=200)
@given(sound_plans(), st.data())
def test_one_wrong_thing_in_a_sound_plan_is_found_where_it_is(raw: list[Any], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(raw) - 1))
    key, value, words = data.draw(
        st.sampled_from(
            [
                ("id", "?", "an id is"),
                ("capability", "fs.nope", "there is no capability"),
                ("arguments", [], "arguments are an object"),
                ("after", ["nobody"], "there is no step"),
                ("after", [f"s{number + 1}"], "this step itself"),
                ("on_error", "maybe", "'stop' or 'continue'"),
                ("expect", [{"path": "", "op": "~"}], "is not an operator"),
                ("for_each", {"$from": "s0", "max": 1}, "there is no step"),
                ("surplus", 1, "unknown key"),
            ]
        )
    )
    raw[number][key] = value
    found = check(raw).faults
    assert any(f.pointer.startswith(f"/steps/{number}/{key}") and words in f.message for f in found)


def at(raw: Json, fault: Fault) -> bool:
    """Whether a fault's pointer leads into the plan as written, or to the place where something is missing."""
    pointer, above = fault.pointer, fault.pointer.rpartition("/")[0]
    without_arguments = above.endswith("/arguments")
    for candidate in (pointer, above, above.rpartition("/")[0] if without_arguments else pointer):
        try:
            resolve_pointer({"steps": raw}, candidate)
        except MissingPath:
            continue
        return True
    return False


@settings(max_examples=400)
@given(raw_plans)
def test_every_fault_points_into_the_plan_as_it_was_written(raw: Json) -> None:
    for fault in check(raw).faults:
        if fault.pointer.isascii() and "\\" not in fault.pointer:
            assert at(raw, fault), fault


def many(count: int, make: Callable[[int], Json]) -> list[Json]:
    return [make(number) for number in range(count)]


GOOD = step("s1", "fs.list", {"path": "x"})
HOSTILE: dict[str, Callable[[], Any]] = {
    "nested arrays": lambda: nested(200_000),
    "nested objects": lambda: nested(200_000, "object"),
    "nested arguments": lambda: [step("s1", "json.query", {"data": nested(5_000), "query": "x"})],
    "a nested id": lambda: [{**GOOD, "id": nested(5_000)}],
    "a nested check": lambda: [{**GOOD, "expect": [{"path": "", "op": "eq", "value": nested(5_000)}]}],
    "arguments at the depth allowed": lambda: [step("s1", "json.query", {"data": nested(60), "query": "x"})],
    "a million steps": lambda: [1] * 1_000_000,
    "a million nulls": lambda: [step("s1", "json.query", {"data": [None] * 1_000_000, "query": "x"})],
    "a huge text": lambda: [step("s1", "fs.read_text", {"path": "x" * 5_000_000})],
    "a huge id": lambda: [step("s" * 4_000_000, "fs.list")],
    "a huge name": lambda: [step("s1", "f" * 4_000_000)],
    "a huge key": lambda: [step("s1", "fs.list", {"k" * 1_000_000: 1})],
    "a huge unknown key": lambda: [{**GOOD, "k" * 3_000_000: 1}],
    "a huge pointer": lambda: [GOOD, step("s2", "fs.read_text", {"path": taken("s1", "/a" * 500_000)})],
    "a pointer into deep data": lambda: [step("s1", "open.any", {}, expect=[{"path": "/0" * 1_000, "op": "exists"}])],
    "many unknown keys": lambda: [{**GOOD, **{f"k{number}": 1 for number in range(40_000)}}],
    "many unknown arguments": lambda: [step("s1", "fs.list", {f"k{number}": 1 for number in range(40_000)})],
    "many faulty references": lambda: [
        GOOD,
        step("s2", "json.query", {"data": many(15_000, lambda n: taken(f"t{n}")), "query": "x"}),
    ],
    "many good references": lambda: [
        GOOD,
        step("s2", "json.query", {"data": many(15_000, lambda n: taken("s1", "/entries/0")), "query": "x"}),
    ],
    "many malformed references": lambda: [
        step("s1", "json.query", {"data": many(15_000, lambda n: {"$from": n}), "query": "x"})
    ],
    "many literals": lambda: [step("s1", "mail.send", {"to": [{"address": "x"}] * 20_000})],
    "many steps that wait for each other": lambda: many(
        50, lambda n: step(f"s{n}", "clock.now", after=many(50, lambda other: f"s{other}"))
    ),
    "every step refers to every other": lambda: many(
        50, lambda n: step(f"s{n}", "json.query", {"data": many(50, lambda other: taken(f"s{other}")), "query": "x"})
    ),
    "an integer too long to write": lambda: [step("s1", "json.query", {"data": 10**100_000, "query": "x"})],
    "keys that are not text": lambda: [{1: 2}],
    "no json at all": lambda: [step("s1", "json.query", {"data": {1, 2}, "query": b"x"})],  # type: ignore[dict-item]
    "lone surrogates everywhere": lambda: [{"\ud800": "\udfff", "id": "\ud800", "capability": "\ud800"}],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_plan_is_answered_quickly_and_briefly(name: str) -> None:
    raw = HOSTILE[name]()
    began = time.process_time()
    report = check(raw)
    # Generous: it guards against work that grows faster than the plan, not against a slow machine.
    assert time.process_time() - began < 8
    assert report.ok is (name in ("arguments at the depth allowed", "a pointer into deep data", "many literals"))
    assert len(json.dumps([fault.to_json() for fault in report.faults])) < 200_000


def test_more_faults_than_can_be_shown_are_cut_with_a_word() -> None:
    report = check([step(f"s{n}", "x.y", {}, extra=1, more=1, odd=1) for n in range(50)])
    assert len(report.faults) == FAULTS_MAX + 1
    assert report.faults[-1].message == f"there are more than {FAULTS_MAX} faults"


@pytest.mark.parametrize(
    ("value", "words"),
    [(float("nan"), "not a JSON number"), ("\ud800", "lone surrogate"), (2**2_000, "at most 1024")],
)
def test_what_cannot_be_stored_is_a_fault_beside_the_others(value: Json, words: str) -> None:
    report = check([step("s1", "json.query", {"data": [value], "query": 1})])
    assert [fault.pointer for fault in report.faults] == ["/steps/0/arguments/data/0", "/steps/0/arguments/query"]
    assert words in report.faults[0].message
