"""What the linter says about a plan: each fault with its place and what to write, all of them at once."""

from __future__ import annotations

import pytest

from chaoscore.domain.capability import Capability
from chaoscore.domain.errors import Fault, PlanInvalid
from chaoscore.domain.json import Json
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import check_steps, lint, parse_steps
from chaoscore.domain.plan import ForEach, Reference, Step
from tests.domain.capabilities import CAPABILITIES, closed, step, taken

LIMITS = Limits()


def faults(*steps: Json, limits: Limits = LIMITS) -> list[Fault]:
    return list(check_steps(steps, CAPABILITIES, limits).faults)


def only(*steps: Json, limits: Limits = LIMITS) -> Fault:
    found = faults(*steps, limits=limits)
    assert len(found) == 1, found
    return found[0]


S1 = step("s1", "http.request", {"url": "https://a.example"})
LISTED = step("s1", "fs.list", {"path": "docs"})
GOOD: list[Json] = [
    LISTED,
    step("s2", "fs.read_text", {"path": {"$item": "/path"}}, for_each={**taken("s1", "/entries"), "max": 100}),
    step("s3", "json.query", {"data": taken("s2"), "query": "[].path"}, why="the titles"),
    step(
        "s4",
        "fs.write_text",
        {"path": "index.md", "text": taken("s3", "/result")},
        after=["s1"],
        on_error="continue",
        expect=[
            {"path": "/bytes", "op": "gt", "value": 0},
            {"path": "/path", "op": "exists"},
            {"path": "/error", "op": "absent"},
        ],
    ),
]


def test_a_good_plan_has_no_faults_and_all_its_steps() -> None:
    report = check_steps(GOOD, CAPABILITIES, LIMITS)
    assert report.faults == ()
    assert report.ok
    assert [read.id for read in report.require()] == ["s1", "s2", "s3", "s4"]
    assert report.steps[1].for_each == ForEach(Reference("s1", "/entries"), 100)
    assert report.steps[3].on_error == "continue"
    assert [check.op for check in report.steps[3].expect] == ["gt", "exists", "absent"]
    assert set(report.facts) == {"s1", "s2", "s3", "s4"}


def test_a_faulty_plan_is_raised_with_all_its_faults() -> None:
    report = check_steps([step("s1", "x.y"), step("s1", "x.y")], CAPABILITIES, LIMITS)
    with pytest.raises(PlanInvalid) as raised:
        report.require()
    assert raised.value.faults == report.faults
    assert len(report.faults) == 3


# -- structure -------------------------------------------------------------------------------------------------

NOT_STEPS: list[tuple[Json, str]] = [
    (None, "not null"),
    ({}, "not object"),
    ("s1", "not string"),
    (3, "not integer"),
    ({"steps": []}, "not object"),
]


@pytest.mark.parametrize(("raw", "words"), NOT_STEPS)
def test_steps_are_an_array(raw: Json, words: str) -> None:
    (fault,) = check_steps(raw, CAPABILITIES, LIMITS).faults
    assert fault.pointer == "/steps"
    assert words in fault.message
    assert fault.suggestion


def test_a_plan_wrapped_in_an_object_is_told_so() -> None:
    (fault,) = check_steps({"steps": [S1]}, CAPABILITIES, LIMITS).faults
    assert fault.suggestion == "send the array under 'steps' itself"


def test_a_plan_needs_a_step() -> None:
    assert only().message == "a plan needs at least one step"


def test_too_many_steps_are_one_fault() -> None:
    many = [step(f"s{i}", "clock.now") for i in range(6)]
    fault = only(*many, limits=Limits(steps_max=5))
    assert (fault.pointer, fault.message) == ("/steps", "6 steps are more than the 5 allowed")
    assert faults(*many[:5], limits=Limits(steps_max=5)) == []


STRUCTURE: list[tuple[Json, str, str, str | None]] = [
    (1, "/steps/0", "a step is an object, not integer", None),
    ([], "/steps/0", "a step is an object, not array", None),
    ({**S1, "tool": "x"}, "/steps/0/tool", "unknown key 'tool'", "did you mean 'capability'?"),
    ({**S1, "args": {}}, "/steps/0/args", "unknown key 'args'", "did you mean 'arguments'?"),
    ({**S1, "onerror": "stop"}, "/steps/0/onerror", "unknown key 'onerror'", "did you mean 'on_error'?"),
    ({**S1, "q/r": 1}, "/steps/0/q~1r", "unknown key 'q/r'", "known keys: id, capability"),
    ({"capability": "clock.now"}, "/steps/0/id", "every step needs an id", "use 's1'"),
    (step("", "clock.now"), "/steps/0/id", "not ''", "use 's1'"),
    (step("1s", "clock.now"), "/steps/0/id", "not '1s'", "use 's1'"),
    (step("s 1", "clock.now"), "/steps/0/id", "not 's 1'", "use 's1'"),
    (step("s1\n", "clock.now"), "/steps/0/id", "not 's1\\n'", "use 's1'"),
    (step("s" * 65, "clock.now"), "/steps/0/id", "at most 63", "use 's1'"),
    (step("é", "clock.now"), "/steps/0/id", "not '\\xe9'", "use 's1'"),
    ({"id": 1, "capability": "clock.now"}, "/steps/0/id", "not 1", "use 's1'"),
    ({"id": None, "capability": "clock.now"}, "/steps/0/id", "not null", "use 's1'"),
    ({"id": "s1"}, "/steps/0/capability", "every step names a capability", None),
    ({"id": "s1", "capability": 1}, "/steps/0/capability", "must be text, not integer", None),
    ({"id": "s1", "capability": "x" * 201}, "/steps/0/capability", "201 characters, at most 200", None),
    ({"id": "s1", "capability": "clock.now", "arguments": []}, "/steps/0/arguments", "an object, not array", "name"),
    ({"id": "s1", "capability": "clock.now", "arguments": None}, "/steps/0/arguments", "an object, not null", "name"),
    ({**S1, "after": "s0"}, "/steps/0/after", "an array of step ids, not string", "write ['s0']"),
    ({**S1, "after": {}}, "/steps/0/after", "an array of step ids, not object", '["s1"]'),
    ({**S1, "after": [1]}, "/steps/0/after/0", "must be a step id, not integer", None),
    ({**S1, "after": ["s1"] * 51}, "/steps/0/after", "51 ids, more than there can be steps (50)", None),
    ({**S1, "why": 1}, "/steps/0/why", "must be text, not integer", None),
    ({**S1, "why": "x" * 2_001}, "/steps/0/why", "2001 characters, at most 2000", None),
    ({**S1, "on_error": "retry"}, "/steps/0/on_error", "'stop' or 'continue', not 'retry'", None),
    ({**S1, "on_error": None}, "/steps/0/on_error", "'stop' or 'continue', not null", None),
    ({**S1, "on_error": ["stop"]}, "/steps/0/on_error", "'stop' or 'continue'", None),
    ({**S1, "expect": {}}, "/steps/0/expect", "an array of checks, not object", "write [{"),
    ({**S1, "expect": [1]}, "/steps/0/expect/0", "a check is an object, not integer", "write {"),
    ({**S1, "expect": [{"path": "/status", "op": "exists"}] * 51}, "/steps/0/expect", "51 checks, at most 50", None),
    ({**S1, "for_each": "s1"}, "/steps/0/for_each", "must be an object, not string", '"max": 100'),
    ({**S1, "for_each": []}, "/steps/0/for_each", "must be an object, not array", '"max": 100'),
]


@pytest.mark.parametrize(("raw", "pointer", "words", "suggestion"), STRUCTURE)
def test_a_structural_fault_is_named_with_its_place(
    raw: Json, pointer: str, words: str, suggestion: str | None
) -> None:
    _, found = parse_steps([raw], LIMITS)
    assert [fault.pointer for fault in found] == [pointer]
    assert words in found[0].message
    assert suggestion is None or suggestion in (found[0].suggestion or "")


CHECKS: list[tuple[Json, str, str]] = [
    ({"op": "exists"}, "/path", "required"),
    ({"path": "/status"}, "/op", "required"),
    ({"path": "status", "op": "exists"}, "/path", "not a JSON Pointer"),
    ({"path": 0, "op": "exists"}, "/path", "must be a JSON Pointer, not integer"),
    ({"path": "/status", "op": "=="}, "/op", "'==' is not an operator"),
    ({"path": "/status", "op": None}, "/op", "null is not an operator"),
    ({"path": "/status", "op": ["eq"]}, "/op", "is not an operator"),
    ({"path": "/status", "op": "eq"}, "/value", "'eq' needs a value"),
    ({"path": "/status", "op": "exists", "value": 1}, "/value", "'exists' takes no value"),
    ({"path": "/status", "op": "absent", "value": None}, "/value", "'absent' takes no value"),
    ({"path": "/status", "op": "lt", "value": None}, "/value", "a number or text, not null"),
    ({"path": "/status", "op": "ge", "value": True}, "/value", "a number or text, not true"),
    ({"path": "/status", "op": "in", "value": "200"}, "/value", "an array of values, not '200'"),
    ({"path": "/status", "op": "type", "value": "int"}, "/value", "one of null, boolean, integer"),
    ({"path": "/status", "op": "type", "value": ["string"]}, "/value", "one of null, boolean, integer"),
    ({"path": "/status", "op": "length", "value": -1}, "/value", "a whole number from 0, not -1"),
    ({"path": "/status", "op": "length", "value": 1.5}, "/value", "a whole number from 0, not 1.5"),
    ({"path": "/status", "op": "length", "value": True}, "/value", "a whole number from 0, not true"),
    ({"path": "/status", "op": "exists", "every": 1}, "/every", "true or false, not 1"),
    ({"path": "/status", "op": "exists", "valeu": 1}, "/valeu", "unknown key 'valeu'"),
]


@pytest.mark.parametrize(("check", "at", "words"), CHECKS)
def test_a_check_that_says_nothing_clear_is_a_fault(check: Json, at: str, words: str) -> None:
    fault = only({**S1, "expect": [{"path": "/status", "op": "exists"}, check]})
    assert fault.pointer == "/steps/0/expect/1" + at
    assert words in fault.message


@pytest.mark.parametrize(
    ("written", "meant"), [("==", "eq"), ("<=", "le"), ("gte", "ge"), ("equals", "eq"), ("includes", "contains")]
)
def test_an_operator_in_other_words_is_told_in_ours(written: str, meant: str) -> None:
    fault = only({**S1, "expect": [{"path": "/status", "op": written, "value": 1}]})
    assert fault.suggestion == f"did you mean {meant!r}?"


LOOPS: list[tuple[Json, str, str]] = [
    ({"path": "/entries", "max": 5}, "/$from", "'$from' is required"),
    ({"$from": "s1", "path": "/entries"}, "/max", "'max' is required"),
    ({"$from": 1, "path": "/entries", "max": 5}, "/$from", "must be a step id, not integer"),
    ({"$from": "s1", "path": "entries", "max": 5}, "/path", "not a JSON Pointer"),
    ({"$from": "s1", "path": None, "max": 5}, "/path", "must be a JSON Pointer, not null"),
    ({"$from": "s1", "path": "/entries", "max": 0}, "/max", "from 1 to 1000, not 0"),
    ({"$from": "s1", "path": "/entries", "max": 1_001}, "/max", "from 1 to 1000, not 1001"),
    ({"$from": "s1", "path": "/entries", "max": 1.0}, "/max", "from 1 to 1000, not 1.0"),
    ({"$from": "s1", "path": "/entries", "max": True}, "/max", "from 1 to 1000, not true"),
    ({"$from": "s1", "path": "/entries", "max": "5"}, "/max", "from 1 to 1000, not '5'"),
    ({"$from": "s1", "path": "/entries", "max": 5, "min": 1}, "/min", "unknown key 'min'"),
    ({"$from": "s9", "path": "/entries", "max": 5}, "/$from", "there is no step 's9'"),
    ({"$from": "s2", "path": "/entries", "max": 5}, "/$from", "is this step itself"),
    ({"$from": "s1", "path": "/files", "max": 5}, "/path", "has no '/files'"),
    ({"$from": "s1", "path": "", "max": 5}, "/path", "needs an array, s1 is object"),
    ({"$from": "s1", "path": "/entries/0/path", "max": 5}, "/path", "needs an array, s1/entries/0/path is string"),
]


@pytest.mark.parametrize(("for_each", "at", "words"), LOOPS)
def test_a_fan_out_that_cannot_be_is_a_fault(for_each: Json, at: str, words: str) -> None:
    fault = only(LISTED, step("s2", "fs.read_text", {"path": {"$item": "/path"}}, for_each=for_each))
    assert fault.pointer == "/steps/1/for_each" + at
    assert words in fault.message


def test_a_step_whose_fan_out_is_at_fault_counts_as_not_read() -> None:
    steps, _ = parse_steps([LISTED, step("s2", "clock.now", for_each={**taken("s1", "/entries"), "max": 0})], LIMITS)
    assert [read.id for read in steps] == ["s1"]


def test_an_id_named_twice_in_after_counts_once() -> None:
    steps, found = parse_steps([S1, step("s2", "clock.now", after=["s1", "s1"])], LIMITS)
    assert found == ()
    assert steps[1].after == ("s1",)


def test_a_fan_out_over_no_array_names_the_arrays_there_are() -> None:
    fault = only(LISTED, step("s2", "clock.now", for_each={"$from": "s1", "path": "", "max": 5}))
    assert fault.suggestion == "arrays there: /entries"


def test_the_bound_of_items_is_the_operators() -> None:
    raw = step(
        "s2", "fs.read_text", {"path": {"$item": "/path"}}, for_each={"$from": "s1", "path": "/entries", "max": 9}
    )
    assert faults(LISTED, raw, limits=Limits(items_max=9)) == []
    assert "from 1 to 8" in only(LISTED, raw, limits=Limits(items_max=8)).message


# -- items -----------------------------------------------------------------------------------------------------


def looped(arguments: Json, capability: str = "fs.read_text") -> dict[str, Json]:
    return {
        "id": "s2",
        "capability": capability,
        "arguments": arguments,
        "for_each": {"$from": "s1", "path": "/entries", "max": 5},
    }


def test_an_item_is_only_there_in_a_fan_out() -> None:
    fault = only(step("s1", "fs.read_text", {"path": {"$item": ""}}))
    assert (fault.pointer, fault.message) == ("/steps/0/arguments/path", "$item stands in a step without for_each")


def test_an_item_without_the_path_is_a_fault_that_names_what_there_is() -> None:
    fault = only(LISTED, looped({"path": {"$item": "/name"}}))
    assert fault.pointer == "/steps/1/arguments/path/$item"
    assert fault.suggestion == "an item has /path, /kind, /bytes"


def test_an_item_of_another_type_is_a_fault() -> None:
    fault = only(LISTED, looped({"path": {"$item": "/bytes"}}))
    assert (fault.pointer, fault.message) == (
        "/steps/1/arguments/path",
        "fs.read_text: needs string, gets integer",
    )


def test_the_output_of_a_fan_out_is_an_array_of_results() -> None:
    many = looped({"path": {"$item": "/path"}})
    fault = only(LISTED, many, step("s3", "json.query", {"data": taken("s2", "/text"), "query": "x"}))
    assert fault.pointer == "/steps/2/arguments/data/path"
    assert "'s2' is array, one element per item of for_each; begin with an index" in (fault.suggestion or "")
    assert faults(LISTED, many, step("s3", "json.query", {"data": taken("s2", "/0/text"), "query": "x"})) == []
    deep = step("s3", "fs.read_text", {"path": taken("s2", "/0/lines")})
    assert only(LISTED, many, deep).message == "fs.read_text: needs string, gets array"


def test_a_check_on_a_fan_out_sees_the_array() -> None:
    many = looped({"path": {"$item": "/path"}})
    every: Json = {"path": "", "op": "type", "value": "object", "every": True}
    assert faults(LISTED, {**many, "expect": [every, {"path": "/0/text", "op": "exists"}]}) == []
    assert "begin with an index" in (
        only(LISTED, {**many, "expect": [{"path": "/text", "op": "exists"}]}).suggestion or ""
    )


def test_results_of_a_fan_out_that_goes_on_may_be_null() -> None:
    many = {**looped({"path": {"$item": "/path"}}), "on_error": "continue"}
    assert faults(LISTED, many, step("s3", "fs.read_text", {"path": taken("s2", "/0/text")})) == []


def test_a_type_no_result_of_such_a_fan_out_fits_is_told_with_the_null() -> None:
    many = {**looped({"path": {"$item": "/path"}}), "on_error": "continue"}
    fault = only(LISTED, many, step("s3", "fs.read_text", {"path": taken("s2", "/0")}))
    assert fault.message == "fs.read_text: needs string, gets null or object"


def test_a_fan_out_can_go_over_the_results_of_another() -> None:
    many = looped({"path": {"$item": "/path"}})
    again = step("s3", "fs.read_text", {"path": {"$item": "/path"}}, for_each={"$from": "s2", "max": 5})
    assert faults(LISTED, many, again) == []
    wrong = step("s3", "fs.read_text", {"path": {"$item": "/entries"}}, for_each={"$from": "s2", "max": 5})
    assert only(LISTED, many, wrong).suggestion == "an item has /path, /text, /lines"


# -- capabilities and ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "near"),
    [("http.get", "http.request"), ("fs.readtext", "fs.read_text"), ("FS.LIST", "fs.list"), ("query", "json.query")],
)
def test_an_unknown_capability_is_told_the_nearest_names(written: str, near: str) -> None:
    fault = only(step("s1", written))
    assert fault.pointer == "/steps/0/capability"
    assert fault.message == f"there is no capability {written!r}"
    assert repr(near) in (fault.suggestion or "")


def test_an_unknown_capability_like_none_is_told_what_there_is() -> None:
    assert "'clock.now'" in (only(step("s1", "qqqqqqqq")).suggestion or "")


def test_without_capabilities_nothing_is_suggested() -> None:
    (fault,) = check_steps([S1], {}, LIMITS).faults
    assert fault.suggestion == "no capability is registered"


def test_an_id_used_twice_is_a_fault_at_the_second() -> None:
    fault = only(S1, step("s1", "clock.now"))
    assert (fault.pointer, fault.message) == ("/steps/1/id", "'s1' is the id of /steps/0 already")


BAD_SOURCES: list[tuple[list[Json], str, str, str]] = [
    (
        [step("s1", "fs.read_text", {"path": taken("s2", "/text")}), step("s2", "fs.read_text", {"path": "x"})],
        "/steps/0/arguments/path/$from",
        "'s2' comes later in the plan",
        "move it before 's1'",
    ),
    ([step("s1", "clock.now", after=["s1"])], "/steps/0/after/0", "'s1' is this step itself", "earlier steps"),
    ([step("s1", "clock.now", after=["s2"])], "/steps/0/after/0", "there is no step 's2'", "there is no earlier step"),
    ([S1, step("s2", "clock.now", after=["S1"])], "/steps/1/after/0", "there is no step 'S1'", "earlier steps: s1"),
    (
        [step("s1", "clock.now", after=["s2"]), step("s2", "clock.now")],
        "/steps/0/after/0",
        "'s2' comes later in the plan",
        "move it before 's1'",
    ),
    (
        [
            step("s1", "clock.now", after=["s3"]),
            step("s2", "clock.now", after=["s1"]),
            step("s3", "clock.now", after=["s2"]),
        ],
        "/steps/0/after/0",
        "these steps wait for each other: s1 → s3 → s2 → s1",
        "remove one of the references",
    ),
    (
        [
            step("s1", "fs.read_text", {"path": taken("s2", "/path")}),
            step("s2", "fs.read_text", {"path": taken("s1", "/path")}),
        ],
        "/steps/0/arguments/path/$from",
        "these steps wait for each other: s1 → s2 → s1",
        "remove one of the references",
    ),
]


@pytest.mark.parametrize(("steps", "pointer", "message", "suggestion"), BAD_SOURCES)
def test_a_step_that_is_not_earlier_is_a_fault(steps: list[Json], pointer: str, message: str, suggestion: str) -> None:
    fault = only(*steps)
    assert (fault.pointer, fault.message) == (pointer, message)
    assert suggestion in (fault.suggestion or "")


# -- references against schemas --------------------------------------------------------------------------------


def test_a_missing_output_path_is_told_what_there_is() -> None:
    fault = only(S1, step("s2", "fs.read_text", {"path": taken("s1", "/location")}))
    assert fault.pointer == "/steps/1/arguments/path/path"
    assert fault.message == "the output of 's1' has no '/location'"
    assert fault.suggestion == "'s1' has /status, /body, /headers"


def test_a_path_into_a_scalar_is_told_what_it_is() -> None:
    fault = only(S1, step("s2", "fs.read_text", {"path": taken("s1", "/body/title")}))
    assert fault.suggestion == "'s1' is at '/body' string"


@pytest.mark.parametrize("path", ["/headers/location", "/headers/x~1y", "/body", ""])
def test_a_path_that_may_be_there_is_no_fault(path: str) -> None:
    assert faults(S1, step("s2", "json.query", {"data": taken("s1", path), "query": "x"})) == []


@pytest.mark.parametrize(
    ("source", "path", "capability", "name", "problem"),
    [
        ("http.request", "/status", "fs.read_text", "path", "needs string, gets integer"),
        ("http.request", "", "fs.read_text", "path", "needs string, gets object"),
        ("fs.list", "/entries", "fs.read_text", "path", "needs string, gets array"),
        ("clock.now", "/seconds", "mail.send", "retries", "needs integer, gets number"),
        ("clock.now", "/seconds", "mail.send", "at", "needs integer or string, gets number"),
        ("clock.now", "/day", "mail.send", "priority", "needs string, gets integer"),
        ("fs.list", "/entries", "mail.send", "headers", "needs object, gets array"),
        ("fs.list", "/entries", "mail.send", "to", "its elements: needs an object with 'address', gets one with path"),
        ("fs.read_text", "/lines", "mail.send", "to", "its elements: needs object, gets string"),
    ],
)
def test_a_type_that_does_not_fit_is_a_fault(source: str, path: str, capability: str, name: str, problem: str) -> None:
    first = step(
        "s1", source, {"url": "x"} if source == "http.request" else {} if source == "clock.now" else {"path": "x"}
    )
    given: dict[str, Json] = {"to": []} if capability == "mail.send" else {}
    fault = only(first, step("s2", capability, {**given, name: taken("s1", path)}))
    assert fault.pointer == f"/steps/1/arguments/{name}"
    assert fault.message.startswith(f"{capability}: {problem}")


@pytest.mark.parametrize(
    ("source", "path", "capability", "name"),
    [
        ("http.request", "/status", "http.request", "timeout_seconds"),
        ("clock.now", "/seconds", "http.request", "timeout_seconds"),
        ("clock.now", "/day", "mail.send", "retries"),
        ("clock.now", "/day", "mail.send", "at"),
        ("fs.read_text", "/text", "mail.send", "at"),
        ("fs.read_text", "/text", "mail.send", "priority"),
        ("http.request", "/headers", "mail.send", "headers"),
        ("open.any", "", "mail.send", "to"),
        ("open.any", "/anything/at/all", "mail.send", "retries"),
        ("clock.now", "", "open.any", "whatever"),
    ],
)
def test_a_type_that_can_fit_is_no_fault(source: str, path: str, capability: str, name: str) -> None:
    first = step(
        "s1", source, {"url": "x"} if source == "http.request" else {} if source != "fs.read_text" else {"path": "x"}
    )
    given: dict[str, Json] = {"mail.send": {"to": []}, "http.request": {"url": "x"}}.get(capability, {})  # type: ignore[assignment]
    assert faults(first, step("s2", capability, {**given, name: taken("s1", path)})) == []


def test_a_reference_deep_in_an_argument_is_checked_where_it_stands() -> None:
    good = step("s2", "mail.send", {"to": [{"address": taken("s1", "/body"), "name": "x"}]})
    assert faults(S1, good) == []
    wrong = step("s2", "mail.send", {"to": [{"address": "x"}, {"address": taken("s1", "/status")}]})
    assert only(S1, wrong) == Fault("/steps/1/arguments/to/1/address", "mail.send: needs string, gets integer")


def test_an_escaped_key_is_checked_against_the_argument_it_means() -> None:
    counts = Capability("count.to", "", "low", closed({"$to": {"type": "integer"}}), {})
    plan = [S1, step("s2", "count.to", {"$$to": taken("s1", "/body")})]
    (fault,) = check_steps(plan, {**CAPABILITIES, "count.to": counts}, LIMITS).faults
    assert fault == Fault("/steps/1/arguments/$$to", "count.to: needs integer, gets string")


def test_a_malformed_reference_is_a_fault_at_its_place() -> None:
    fault = only(S1, step("s2", "json.query", {"data": [{"$from": "s1", "path": "/body", "max": 3}], "query": "x"}))
    assert fault.pointer == "/steps/1/arguments/data/0/max"


def test_arguments_cannot_be_one_reference() -> None:
    fault = only(S1, {"id": "s2", "capability": "json.query", "arguments": {"$from": "s1", "path": "/body"}})
    assert (fault.pointer, fault.message) == ("/steps/1/arguments", "arguments cannot be a reference as a whole")


# -- literals against schemas ----------------------------------------------------------------------------------

LITERALS: list[tuple[dict[str, Json], str, str]] = [
    ({}, "/to", "'to' is required but missing"),
    ({"to": "x"}, "/to", "must be array, not string"),
    ({"to": [], "tx": "x"}, "/tx", "unknown key 'tx'"),
    ({"to": [{"name": "x"}]}, "/to/0/address", "'address' is required but missing"),
    ({"to": [{"address": 1}]}, "/to/0/address", "must be string, not integer"),
    ({"to": [{"address": "x", "q": 1}]}, "/to/0/q", "unknown key 'q'"),
    ({"to": [], "retries": 1.5}, "/retries", "must be integer, not number"),
    ({"to": [], "priority": "urgent"}, "/priority", "'urgent' is not one of the 2 values allowed"),
    ({"to": [], "at": True}, "/at", "true fits none of the forms"),
    ({"to": [], "headers": {"a": 1}}, "/headers/a", "must be string, not integer"),
    ({"to": [], "headers": {"$$a": 1}}, "/headers/$$a", "must be string, not integer"),
    ({"to": [], "$$b": 1}, "/$$b", "unknown key '$b'"),
]


@pytest.mark.parametrize(("arguments", "at", "message"), LITERALS)
def test_a_literal_that_breaks_the_input_schema_is_a_fault(arguments: dict[str, Json], at: str, message: str) -> None:
    fault = only(step("s1", "mail.send", arguments))
    assert fault.pointer == "/steps/0/arguments" + at
    assert fault.message.startswith(message)


def test_an_unknown_argument_is_told_the_known_ones() -> None:
    assert only(step("s1", "fs.read_text", {"path": "x", "encoding": "x"})).suggestion == "known keys: path"


@pytest.mark.parametrize("value", ["x", {"$$from": "s1"}, {"$$a": {"$$b": [1]}}])
def test_a_literal_with_escaped_keys_is_checked_as_it_will_be_received(value: Json) -> None:
    assert faults(step("s1", "json.query", {"data": value, "query": "x"})) == []


def test_a_reference_makes_no_literal_beside_it_pass() -> None:
    raw = step("s2", "mail.send", {"to": [taken("s1", "/entries/0"), {"address": 1}], "retries": "x"})
    found = faults(LISTED, raw)
    assert [fault.pointer for fault in found] == [
        "/steps/1/arguments/to/0",
        "/steps/1/arguments/retries",
        "/steps/1/arguments/to/1/address",
    ]


def test_arguments_larger_than_the_bound_are_a_fault() -> None:
    raw = step("s1", "fs.read_text", {"path": "é" * 50})
    fault = only(raw, limits=Limits(argument_bytes_max=100))
    assert (fault.pointer, fault.message) == (
        "/steps/0/arguments",
        "the arguments have 111 bytes of JSON, at most 100 are allowed",
    )
    assert faults(raw, limits=Limits(argument_bytes_max=111)) == []


# -- checks against schemas ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "at"),
    [
        ({"path": "/bytes", "op": "exists"}, "/path"),
        ({"path": "/status/x", "op": "eq", "value": 1}, "/path"),
        ({"path": "/status", "op": "exists", "every": True}, "/every"),
        ({"path": "", "op": "exists", "every": True}, "/every"),
    ],
)
def test_a_check_on_what_cannot_be_there_is_a_fault(check: Json, at: str) -> None:
    assert only({**S1, "expect": [check]}).pointer == "/steps/0/expect/0" + at


@pytest.mark.parametrize(
    "check",
    [
        {"path": "", "op": "exists"},
        {"path": "/headers/x", "op": "exists"},
        {"path": "/nothing", "op": "absent"},
        {"path": "/status", "op": "eq", "value": None},
        {"path": "/body", "op": "length", "value": 3.0},
    ],
)
def test_a_check_on_what_may_be_there_is_no_fault(check: Json) -> None:
    assert faults({**S1, "expect": [check]}) == []


def test_a_check_on_an_open_output_is_no_fault() -> None:
    assert faults(step("s1", "open.any", expect=[{"path": "/a/b", "op": "exists", "every": True}])) == []


# -- all at once -----------------------------------------------------------------------------------------------


def test_all_faults_of_all_steps_are_answered_at_once_in_the_plans_order() -> None:
    found = faults(
        step("s1", "http.get", {"url": 1}, extra=1),
        {"id": "s2", "capability": "fs.read_text", "arguments": {"path": taken("s9"), "q": 1}, "after": "s1"},
        step("s2", "fs.list", {"path": taken("s2", "/nope")}, expect=[{"path": "x", "op": "?"}], on_error=1),
        7,
    )
    assert [fault.pointer for fault in found] == [
        "/steps/0/extra",
        "/steps/0/capability",
        "/steps/1/after",
        "/steps/1/arguments/path/$from",
        "/steps/1/arguments/q",
        "/steps/2/expect/0/path",
        "/steps/2/expect/0/op",
        "/steps/2/on_error",
        "/steps/2/arguments/path/path",
        "/steps/2/id",
        "/steps/3",
    ]


def test_a_fault_in_one_part_of_a_step_hides_no_fault_in_another() -> None:
    found = faults(
        {
            "id": "?",
            "capability": "fs.read_text",
            "arguments": {"path": 1},
            "why": 0,
            "for_each": {"$from": "s0", "max": 0},
            "expect": [{"path": "/nope", "op": "exists"}],
        }
    )
    assert {fault.pointer for fault in found} == {
        "/steps/0/id",
        "/steps/0/why",
        "/steps/0/for_each/max",
        "/steps/0/for_each/$from",
        "/steps/0/arguments/path",
        "/steps/0/expect/0/path",
    }


def test_steps_made_by_our_own_code_are_linted_alike() -> None:
    steps = [Step("s1", "fs.list", {"path": "x"}), Step("s2", "fs.read_text", {"path": {"$from": "s1", "path": "/x"}})]
    report = lint(steps, CAPABILITIES, LIMITS)
    assert [fault.pointer for fault in report.faults] == ["/steps/1/arguments/path/path"]
    assert report.steps == tuple(steps)


def test_linting_what_was_parsed_finds_what_checking_finds() -> None:
    raw = [*GOOD, step("s5", "nope.nope"), step("s6", "fs.list", {"path": taken("s7")})]
    steps, none = parse_steps(raw, LIMITS)
    assert none == ()
    assert lint(steps, CAPABILITIES, LIMITS) == check_steps(raw, CAPABILITIES, LIMITS)
