"""Plans as Hypothesis draws them: sound ones over the test capabilities, and raw steps that are wrong in many ways."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chaoscore.domain.evaluation import OPERATORS, TYPE_NAMES, Check
from chaoscore.domain.json import Json
from chaoscore.domain.plan import Author, ForEach, Plan, Reference, Step
from tests.domain.capabilities import CAPABILITIES
from tests.domain.values import json_objects, json_values, keys, numbers, scalars, tame_text, wild_json

pointers = st.lists(keys, max_size=3).map(
    lambda tokens: "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)
)
step_ids = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,5}", fullmatch=True)


def _check(op: str) -> st.SearchStrategy[Check]:
    values: dict[str, st.SearchStrategy[Any]] = {
        "exists": st.none(),
        "absent": st.none(),
        "in": st.lists(json_values, max_size=3),
        "type": st.sampled_from(TYPE_NAMES),
        "length": st.integers(0, 5),
    }
    ordered = st.one_of(numbers, tame_text)
    value = values.get(op, ordered if op in ("lt", "le", "gt", "ge") else json_values)
    return st.builds(Check, pointers, st.just(op), value, st.booleans())


checks = st.sampled_from(OPERATORS).flatmap(_check)
steps: st.SearchStrategy[Step] = st.builds(
    Step,
    step_ids,
    st.one_of(st.sampled_from(sorted(CAPABILITIES)), tame_text),
    json_objects,
    st.lists(step_ids, max_size=3, unique=True).map(tuple),
    tame_text,
    st.lists(checks, max_size=3).map(tuple),
    st.sampled_from(["stop", "continue"]),
    st.none() | st.builds(ForEach, st.builds(Reference, step_ids, pointers), st.integers(1, 1_000)),
)
plans: st.SearchStrategy[Plan] = st.builds(
    Plan,
    tame_text,
    tame_text,
    st.lists(steps, max_size=4).map(tuple),
    st.builds(
        Author,
        st.sampled_from(["caller", "provider", "rules"]),
        st.none() | tame_text,
        st.none() | tame_text,
        st.none() | st.integers(0, 10**6),
    ),
    tame_text,
    st.floats(0, 2e9),
    tame_text,
    st.none() | json_objects,
    st.none() | tame_text,
    st.none() | tame_text,
    st.booleans(),
    st.integers(1, 9),
)

# -- raw steps that go wrong -----------------------------------------------------------------------------------

few_ids = st.sampled_from(["s1", "s2", "s3", "s4", "S1", "", "s 1"])
few_paths = st.sampled_from(["", "/entries", "/entries/0/path", "/text", "/lines", "/0", "/nope", "x", "/~"])
odd = st.one_of(wild_json, st.none())


def _mostly(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(good, good, good, good, odd)


raw_references: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"$from": _mostly(few_ids)}, optional={"path": _mostly(few_paths), "max": st.integers(0, 3)}),
    st.fixed_dictionaries({"$item": _mostly(few_paths)}),
)
raw_arguments = st.dictionaries(
    st.sampled_from(["path", "text", "url", "data", "query", "to", "recursive", "$$x", "$y"]),
    st.one_of(raw_references, st.text(max_size=3), wild_json, st.lists(raw_references, max_size=2)),
    max_size=3,
)
raw_checks = st.fixed_dictionaries(
    {},
    optional={
        "path": _mostly(few_paths),
        "op": _mostly(st.sampled_from([*OPERATORS, "==", ""])),
        "value": odd,
        "every": _mostly(st.booleans()),
        "q": odd,
    },
)
raw_steps: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"id": _mostly(few_ids), "capability": _mostly(st.sampled_from([*CAPABILITIES, "fs.lst"]))},
    optional={
        "arguments": _mostly(raw_arguments),
        "after": _mostly(st.lists(_mostly(few_ids), max_size=3)),
        "why": _mostly(st.text(max_size=5)),
        "expect": _mostly(st.lists(_mostly(raw_checks), max_size=2)),
        "on_error": _mostly(st.sampled_from(["stop", "continue", "go"])),
        "for_each": _mostly(
            st.fixed_dictionaries(
                {},
                optional={"$from": _mostly(few_ids), "path": _mostly(few_paths), "max": _mostly(st.integers(-1, 5))},
            )
        ),
        "extra": odd,
    },
)
raw_plans: st.SearchStrategy[Json] = st.one_of(
    st.lists(_mostly(raw_steps), max_size=5), st.lists(_mostly(raw_steps), max_size=5), wild_json
)

# -- sound plans -----------------------------------------------------------------------------------------------


@st.composite
def sound_plans(draw: st.DrawFn) -> list[Any]:
    """Steps without a fault: every reference leads to an earlier output of a type that fits."""
    written: list[Any] = []
    texts: list[Any] = []  # references to text
    anything: list[Any] = []
    arrays: list[Any] = []  # sources of a fan-out, with the path to text within an item
    for number in range(draw(st.integers(1, 6))):
        name = f"s{number + 1}"
        text = st.sampled_from([*texts, "literal", "x/y"])
        data = st.recursive(
            st.one_of(st.sampled_from([*anything, {"$$from": "s1"}, None]), scalars),
            lambda parts: st.one_of(st.lists(parts, max_size=2), st.dictionaries(st.just("k"), parts, max_size=1)),
            max_leaves=3,
        )
        kind = draw(st.sampled_from(["list", "read", "query", "write", "clock", "http", "any"]))
        more: dict[str, Any] = {}
        if kind == "list":
            made = {"capability": "fs.list", "arguments": {"path": draw(text)}}
        elif kind == "read":
            made = {"capability": "fs.read_text", "arguments": {"path": draw(text)}}
            if len(arrays) > 0 and draw(st.booleans()):
                source, within = draw(st.sampled_from(arrays))
                more["for_each"] = {**source, "max": draw(st.integers(1, 1_000))}
                made["arguments"] = {"path": {"$item": within}}
        elif kind == "query":
            made = {"capability": "json.query", "arguments": {"data": draw(data), "query": draw(text)}}
        elif kind == "write":
            made = {"capability": "fs.write_text", "arguments": {"path": draw(text), "text": draw(text)}}
        elif kind == "http":
            made = {"capability": "http.request", "arguments": {"url": draw(text)}}
        elif kind == "any":
            made = {"capability": "open.any", "arguments": {"data": draw(data)}}
        else:
            made = {"capability": "clock.now", "arguments": {}}
        if len(written) > 0 and draw(st.booleans()):
            more["after"] = [draw(st.sampled_from(written))["id"]]
        if draw(st.booleans()):
            more["on_error"] = "continue"
        written.append({"id": name, **made, **more})

        def out(path: str, step: str = name) -> dict[str, str]:
            return {"$from": step, "path": path}

        anything.append(out(""))
        if "for_each" in more:
            texts.append(out("/0/text"))
            arrays.append((out(""), "/text"))
        elif kind == "list":
            texts.append(out("/entries/0/path"))
            arrays.append((out("/entries"), "/path"))
        elif kind == "read":
            texts += [out("/text"), out("/lines/0")]
            arrays.append((out("/lines"), ""))
        elif kind in ("query", "any"):
            texts.append(out("/result"))
        elif kind == "http":
            texts += [out("/body"), out("/headers/location")]
    return written
