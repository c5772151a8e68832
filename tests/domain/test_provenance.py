"""Where data comes from is known before anything runs: dependencies, derivation, untrusted values and their sinks."""

from __future__ import annotations

from hypothesis import given, settings

from chaoscore.domain.capability import Capability, Sink
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import check_steps
from chaoscore.domain.plan import Reference, StepFacts, dependencies
from chaoscore.domain.references import find_references
from tests.domain.capabilities import CAPABILITIES, step, taken
from tests.domain.plans import sound_plans

LIMITS = Limits()


def facts(*steps: Json) -> dict[str, StepFacts]:
    report = check_steps(list(steps), CAPABILITIES, LIMITS)
    assert report.faults == ()
    return dict(report.facts)


NOW = step("now", "clock.now")
PAGE = step("page", "http.request", {"url": "https://a.example"})


def test_a_step_of_literals_depends_on_nothing_and_carries_nothing() -> None:
    assert facts(PAGE)["page"] == StepFacts()
    assert facts(PAGE)["page"].arguments_known


def test_dependencies_are_references_and_after_and_the_source_of_a_fan_out() -> None:
    found = facts(
        NOW,
        PAGE,
        step("list", "fs.list", {"path": "x"}),
        step(
            "each",
            "fs.read_text",
            {"path": {"$item": "/path"}},
            for_each={**taken("list", "/entries"), "max": 3},
            after=["now"],
        ),
        step("ask", "json.query", {"data": [taken("each"), {"deep": taken("page", "/body")}], "query": "x"}),
    )
    assert found["each"].depends_on == {"list", "now"}
    assert found["ask"].depends_on == {"each", "page"}
    assert not found["ask"].arguments_known


def test_derivation_goes_back_through_every_step_in_the_plans_order() -> None:
    found = facts(
        PAGE,
        NOW,
        step("ask", "json.query", {"data": taken("page", "/body"), "query": "x"}),
        step("again", "json.query", {"data": [taken("ask", "/result"), taken("now", "/day")], "query": "x"}),
        step("write", "fs.write_text", {"path": "x", "text": taken("again", "/result")}),
    )
    assert found["again"].derives_from == {"/data/0": ("page", "ask"), "/data/1": ("now",)}
    assert found["write"].derives_from == {"/text": ("page", "now", "ask", "again")}


def test_after_orders_steps_and_carries_no_data() -> None:
    found = facts(PAGE, step("write", "fs.write_text", {"path": "x", "text": "y"}, after=["page"]))
    assert found["write"].depends_on == {"page"}
    assert found["write"].derives_from == {}
    assert found["write"].untrusted == ()


def test_an_untrusted_output_stays_untrusted_through_steps_whose_arguments_carry_it() -> None:
    trusted = step("ask", "json.query", {"data": taken("now", "/day"), "query": "x"})
    carrying = step("ask", "json.query", {"data": taken("page", "/body"), "query": "x"})
    write = step("write", "fs.write_text", {"path": "x", "text": taken("ask", "/result")})
    assert facts(NOW, trusted, write)["write"].untrusted == ()
    assert facts(PAGE, carrying, write)["write"].untrusted == ("/text",)


def test_only_arguments_that_carry_untrusted_values_are_named() -> None:
    found = facts(
        NOW,
        PAGE,
        step("send", "mail.send", {"to": [], "text": taken("page", "/body"), "retries": taken("now", "/day")}),
    )
    assert found["send"].untrusted == ("/text",)
    assert found["send"].untrusted_sinks == ()


def test_an_untrusted_value_that_decides_where_something_goes_is_a_sink() -> None:
    url = step("next", "http.request", {"url": taken("page", "/headers/location")})
    assert facts(PAGE, url)["next"].untrusted_sinks == ("/url",)
    path = step("write", "fs.write_text", {"path": taken("page", "/body"), "text": taken("page", "/body")})
    found = facts(PAGE, path)["write"]
    assert found.untrusted == ("/path", "/text")
    assert found.untrusted_sinks == ("/path",)


def test_a_part_of_a_sink_and_the_whole_around_one_are_sinks_too() -> None:
    part = step("send", "mail.send", {"to": [{"address": taken("page", "/body")}]})
    assert facts(PAGE, part)["send"].untrusted_sinks == ("/to/0/address",)
    whole = step("send", "mail.send", {"to": taken("any", "/people")})
    assert facts(step("any", "open.any"), whole)["send"].untrusted_sinks == ("/to",)


def test_the_whole_around_a_sink_is_one_and_a_name_that_only_begins_like_it_is_none() -> None:
    post = Capability("hook.post", "", "high", {"type": "object"}, {}, sinks=(Sink("/target/url", "url"),))

    def sinks(arguments: JsonObject) -> tuple[str, ...]:
        plan = [PAGE, step("post", "hook.post", arguments)]
        return check_steps(plan, {**CAPABILITIES, "hook.post": post}, LIMITS).facts["post"].untrusted_sinks

    body = taken("page", "/body")
    assert sinks({"target": body}) == ("/target",)
    assert sinks({"target": {"url": body}}) == ("/target/url",)
    assert sinks({"target": {"url": [body]}}) == ("/target/url/0",)
    assert sinks({"target": {"url2": body}, "targe": body, "targets": body, "url": body}) == ()


def test_items_carry_what_their_array_carries() -> None:
    listed = step("list", "fs.list", {"path": "x"})
    each = step("each", "fs.read_text", {"path": {"$item": "/path"}}, for_each={**taken("list", "/entries"), "max": 3})
    found = facts(listed, each)["each"]
    assert found.derives_from == {"/path": ("list",)}
    assert found.untrusted == found.untrusted_sinks == ("/path",)


def test_how_many_results_there_are_is_data_of_the_array_too() -> None:
    """A trusted step run once per untrusted element says by its length what the untrusted array held."""
    listed = step("list", "fs.list", {"path": "x"})
    ticks = step("ticks", "clock.now", for_each={**taken("list", "/entries"), "max": 3})
    count = step("ask", "json.query", {"data": taken("ticks"), "query": "length(@)"})
    found = facts(listed, ticks, count)
    assert found["ticks"].untrusted == ()
    assert found["ask"].untrusted == ("/data",)
    assert found["ask"].derives_from == {"/data": ("list", "ticks")}


def test_what_is_not_declared_is_untrusted() -> None:
    found = facts(step("any", "open.any"), step("ask", "json.query", {"data": taken("any"), "query": "x"}))
    assert found["ask"].untrusted == ("/data",)


def test_escaped_keys_are_named_as_the_capability_receives_them() -> None:
    found = facts(PAGE, step("any", "open.any", {"$$ref": {"$$x": taken("page")}}))
    assert found["any"].untrusted == ("/$ref/$x",)


@settings(max_examples=200)
@given(sound_plans())
def test_facts_agree_with_the_plan_they_are_about(raw: Json) -> None:
    report = check_steps(raw, CAPABILITIES, LIMITS)
    order = [read.id for read in report.steps]
    for read in report.steps:
        known = report.facts[read.id]
        named = [found for _, found in find_references(read.arguments) if isinstance(found, Reference)]
        looped = [] if read.for_each is None else [read.for_each.source]
        assert known.depends_on == dependencies(read, [*named, *looped])
        assert known.arguments_known is (list(find_references(read.arguments)) == [])
        assert set(known.untrusted_sinks) <= set(known.untrusted) <= set(known.derives_from)
        for sources in known.derives_from.values():
            assert list(sources) == sorted(set(sources), key=order.index)
            for source in sources:
                for inner in report.facts[source].derives_from.values():
                    assert set(inner) <= set(sources), "derivation is transitive"
