"""What a person is told of actions whose outcome nobody knows: enough to find out, and what each word leads to."""

from __future__ import annotations

import asyncio
import os
import re

from chaoscore.domain.json import Json
from chaoscore.domain.limits import Limits
from chaoscore.domain.principal import Principal
from tests.app.harness import Bench, bench, step, until, write_policy
from tests.cli.harness import Desk, at_a_terminal

ITEMS = 13
EACH: dict[str, Json] = {"$from": "s1", "path": "/value", "max": 400}


def me() -> Principal:
    return Principal("local", str(os.getuid()))


def many_unknown(desk: Desk) -> tuple[str, str]:
    """A run with one unknown action per item, and steps behind it."""

    async def make() -> None:
        async with bench(desk.place) as made:
            caller = Bench(made.kernel, made.world, me())
            plan = await caller.plan(
                step("s1", "test.give", {"value": list(range(ITEMS))}),
                step("s2", "test.explode", {}, for_each=EACH, why="tell everybody", on_error="continue"),
                step("s3", "test.give", {"value": {"$from": "s2", "path": ""}}),
            )
            answer = await caller.execute(plan)
            assert answer["status"] == "NEEDS_ATTENTION", answer

    write_policy(desk.place)
    asyncio.run(make())
    return ("--policy", str(desk.place / "policy.json"))


def late_result(desk: Desk) -> tuple[str, str]:
    """A run whose action outlived its time, and answered afterwards."""

    async def make() -> None:
        async with bench(desk.place, limits=Limits(step_seconds=0.2)) as made:
            caller = Bench(made.kernel, made.world, me())
            plan = await caller.plan(
                step("s1", "test.hold", {"text": "a letter"}), step("s2", "test.append", {"text": "x"}, after=["s1"])
            )
            answer = await caller.execute(plan)
            run_id = answer["data"]["run_id"]
            made.world.holds["a letter"].set()

            async def arrived() -> bool:
                seen = await caller.call("chaoscore_inspect", what="run", run_id=run_id)
                return bool(seen["data"]["unknown"][0]["evidence"])

            await until(arrived)

    write_policy(desk.place)
    asyncio.run(make())
    return ("--policy", str(desk.place / "policy.json"))


def test_an_unknown_action_is_told_with_all_that_helps_to_find_out(desk: Desk) -> None:
    policy = late_result(desk)
    done = desk.run("resolve", "last", *policy)
    assert done.code == 4, done.err
    said = re.sub(r"\s+", " ", done.out)
    for fact in (
        "unknown 1 of 1 s1",
        "capability test.hold",
        "tried once",
        "why TIMED_OUT",
        'arguments text: "a letter"',
        "late result it ended after all, and answered",
        'output: text: "a letter"',
        "retry it did not happen: test.hold is called again",
        "it then happens a second time",
        "happened it did happen: count it as done, never call it again",
        "give-up stop trying: count it as failed",
        "the run then stops: what has not begun is skipped",
    ):
        assert fact in said, (fact, said)
    assert re.search(r"began 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", said)
    assert re.search(r"say it with: chaoscore resolve r-\S+ s1 WORD", said)


def test_a_second_try_is_told_as_such(desk: Desk) -> None:
    policy = late_result(desk)
    assert desk.run("resolve", "last", "s1", "retry", *policy).code == 0
    (desk.place / "world").mkdir(exist_ok=True)

    async def again() -> None:
        async with bench(desk.place, limits=Limits(step_seconds=0.2)) as made:
            caller = Bench(made.kernel, made.world, me())
            listed = await caller.call("chaoscore_inspect", what="runs")
            answer = await caller.call("chaoscore_execute", run_id=listed["data"]["runs"][0]["run_id"])
            assert answer["status"] == "NEEDS_ATTENTION"
            made.world.holds["a letter"].set()

    asyncio.run(again())
    said = re.sub(r"\s+", " ", desk.run("resolve", "last", *policy).out)
    assert "this was attempt 2" in said and "(attempt 3)" in said


def test_many_unknown_actions_are_listed_within_bounds_and_nothing_else_is(desk: Desk) -> None:
    policy = many_unknown(desk)
    done = desk.run("resolve", "last", *policy)
    assert done.code == 4
    said = re.sub(r"\s+", " ", done.out)
    assert f"unknown 1 of {ITEMS} s2,0 tell everybody" in said and f"unknown 10 of {ITEMS} s2,9" in said
    assert "and s2,10, s2,11, s2,12" in said and "unknown 11 of" not in said
    assert "s3 needs that output and may fail" in said
    assert f"{ITEMS} actions of run" in said
    for noise in ("running", "verdict", "pending", f"{ITEMS} items", "s1"):
        assert noise not in said, noise


def test_each_word_is_answered_with_what_was_heard_and_what_is_left(desk: Desk) -> None:
    policy = many_unknown(desk)
    done = desk.run("resolve", "last", "s2,3", "give-up", *policy)
    assert done.code == 4
    first, second = done.out.strip().split("\n")
    assert first == "s2,3: stop trying: count it as failed" and second.startswith(f"{ITEMS - 1} actions of run r-")


def test_a_person_at_a_terminal_is_told_which_of_how_many_is_asked_about(desk: Desk) -> None:
    policy = many_unknown(desk)
    with at_a_terminal(desk, "resolve", "last", *policy) as session:
        for number, word in enumerate(("happened", "give-up", "later"), 1):
            asked = session.until("> ")
            assert f"unknown {number} of {ITEMS}" in asked and "what to say" in asked and "late result" in asked
            session.type(f"{word}\n")
        session.until(f"unknown 4 of {ITEMS}")
        session.until("> ")
        session.type("\x04")
        assert session.end() == 4
        assert f"{ITEMS - 2} actions of run" in session.screen


def test_a_script_gets_every_unknown_action_as_json(desk: Desk) -> None:
    policy = many_unknown(desk)
    done = desk.run("resolve", "last", "--json", *policy)
    unknown = done.json()["data"]["unknown"]
    assert done.code == 4 and len(unknown) == ITEMS
    assert {"capability", "arguments", "attempt", "started_at", "evidence", "error"} <= set(unknown[0])


def test_where_nothing_is_unknown_that_is_all_that_is_said(desk: Desk) -> None:
    policy = late_result(desk)
    assert desk.run("resolve", "last", "s1", "happened", *policy).code == 0
    done = desk.run("resolve", "last", *policy)
    assert done.code == 0 and done.out.startswith("nothing is unknown in run r-") and "run continue" in done.out
