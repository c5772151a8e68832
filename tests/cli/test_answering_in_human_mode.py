"""Where the policy wants a person: ``achieve``, ``run continue`` and ``resolve`` ask for the PIN at a real terminal."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from chaoscore.adapters.files.approver_pin import FilePin
from chaoscore.adapters.system import SystemClock
from chaoscore.domain.principal import Principal
from tests.app.harness import Bench, bench, step
from tests.cli.harness import CHAOSCORE, Desk, at_a_terminal

PIN = "tulpe-19-mond"


@pytest.fixture(autouse=True)
def a_pin(desk: Desk) -> FilePin:
    pin = FilePin(desk.data, SystemClock())
    pin.create(PIN)
    return pin


def two_writes(desk: Desk, *doors: str) -> tuple[str, ...]:
    """The command for a plan whose two writes need a person."""
    desk.policy(requireConfirmationFor=["fs.write_text"], approvalMode="human", approvalDoors=list(doors))
    steps = [
        {"id": f"w{n}", "capability": "fs.write_text", "arguments": {"path": f"{n}.txt", "text": f"text {n}"}}
        for n in (1, 2)
    ]
    return ("achieve", "--plan", desk.plan(*steps), *rest(desk))


def rest(desk: Desk) -> tuple[str, ...]:
    return ("--root", ".", "--policy", str(desk.place / "policy.json"))


def written(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.work.glob("*.txt"))


def waiting(desk: Desk) -> list[dict[str, Any]]:
    found = desk.run("decide", "--json", "--policy", str(desk.place / "policy.json")).json()["waiting"]
    assert isinstance(found, list)
    return found


def test_the_pin_is_asked_once_for_all_answers_of_a_question_and_not_shown(desk: Desk) -> None:
    with at_a_terminal(desk, *two_writes(desk, "terminal")) as person:
        person.until("approval 1 of 2")
        person.until("> ")
        person.type("y\n")
        person.until("approval 2 of 2")
        person.until("> ")
        person.type("n\n")
        person.until("the approver's PIN: ")
        person.type(PIN + "\n")
        assert person.end() == 1  # partial
        assert PIN not in person.raw and person.screen.count("the approver's PIN") == 1
    assert written(desk) == ["1.txt"]


def test_later_for_one_action_leaves_the_whole_question_waiting(desk: Desk) -> None:
    with at_a_terminal(desk, *two_writes(desk, "terminal")) as person:
        person.until("> ")
        person.type("y\n")
        person.until("approval 2 of 2")
        person.until("> ")
        person.type("l\n")
        assert person.end() == 3
        assert "none of these was answered" in person.screen and "PIN" not in person.screen
    (question,) = waiting(desk)
    assert len(question["actions"]) == 2 and written(desk) == []
    with at_a_terminal(desk, "run", "continue", "last", *rest(desk)) as person:
        person.until("[a]ll")
        person.until("> ")
        person.type("a\n")
        person.until("yes to all 2?")
        person.type("y\n")
        person.until("the approver's PIN: ")
        person.type(PIN + "\n")
        assert person.end() == 0
    assert written(desk) == ["1.txt", "2.txt"]


@pytest.mark.parametrize(
    ("keys", "code", "says"),
    [("wrong-pin-1\n", 3, "the PIN is wrong"), ("\n", 3, "left for later"), ("\x03", 130, "is paused")],
    ids=["wrong", "empty", "Ctrl-C"],
)
def test_without_the_right_pin_nothing_is_answered(keys: str, code: int, says: str, desk: Desk) -> None:
    with at_a_terminal(desk, *two_writes(desk, "terminal")) as person:
        person.until("[a]ll")
        person.until("> ")
        person.type("a\n")
        person.until("yes to all 2?")
        person.type("y\n")
        person.until("the approver's PIN: ")
        person.type(keys)
        assert person.end() == code
        assert says in person.screen
    assert len(waiting(desk)) == 1 and written(desk) == []


def test_after_ctrl_c_at_the_pin_the_terminal_shows_again_what_is_typed(desk: Desk) -> None:
    command = " ".join(f"'{word}'" for word in (CHAOSCORE, *two_writes(desk, "terminal")))
    script = desk.place / "twice.sh"
    script.write_text(f"trap : INT\n{command}\nstty -a | grep -o '[-]*echo '\n", "utf-8")
    with at_a_terminal(desk, around=("/bin/sh", str(script))) as person:
        for prompt, keys in (("[a]ll", "a\n"), ("yes to all 2?", "y\n"), ("the approver's PIN: ", "\x03")):
            person.until(prompt)
            person.type(keys)
        person.end()
        assert person.screen.rstrip().endswith("echo") and not person.screen.rstrip().endswith("-echo")


def test_where_the_terminal_is_no_door_the_question_is_shown_and_not_asked(desk: Desk) -> None:
    with at_a_terminal(desk, *two_writes(desk, "web")) as person:
        assert person.end() == 3
        assert "text 2" in person.screen and "approvalDoors are web" in person.screen and "[y]es" not in person.screen


# -- unknown outcomes ------------------------------------------------------------------------------------------------


def unknown(desk: Desk) -> tuple[str, str]:
    """A run whose only action ended without anybody knowing whether it happened; the policy to look at it with."""
    me = Principal("local", str(os.getuid()))

    async def make() -> None:
        async with bench(desk.place, approvalMode="human", approvalDoors=["terminal"]) as made:
            caller = Bench(made.kernel, made.world, me)
            answer = await caller.execute(await caller.plan(step("boom", "test.explode")))
            assert answer["status"] == "NEEDS_ATTENTION", answer

    asyncio.run(make())
    return ("--policy", str(desk.place / "policy.json"))


def state(desk: Desk) -> str:
    shown = desk.run("run", "show", "last", "--json", "--policy", str(desk.place / "policy.json")).json()
    return str(shown["steps"][0]["state"])


def test_resolve_answers_the_decision_behind_it_with_the_pin(desk: Desk) -> None:
    policy = unknown(desk)
    (question,) = waiting(desk)
    assert (question["kind"], question["mode"]) == ("outcome", "human")
    with at_a_terminal(desk, "resolve", "last", *policy) as person:
        person.until("later")
        person.until("> ")
        person.type("g\n")
        person.until("the approver's PIN: ")
        person.type(PIN + "\n")
        assert person.end() == 0
        assert "nothing is unknown" in person.screen and PIN not in person.raw
    assert state(desk) == "failed" and waiting(desk) == []
    answered = desk.run("decide", question["decision"], "--json", "--policy", str(desk.place / "policy.json")).json()
    assert answered["decision"]["response"]["options"] == ["give-up"]


def test_resolve_without_the_pin_changes_nothing(desk: Desk, a_pin: FilePin) -> None:
    policy = unknown(desk)
    for more, stdin, code in (((), "", 1), (("--pin-stdin",), "wrong-pin-1\n", 1), (("--pin-stdin",), "", 2)):
        done = desk.run("resolve", "last", "boom", "happened", *policy, *more, stdin=stdin)
        assert done.code == code and "PIN" in done.err, done.err
    with at_a_terminal(desk, "resolve", "last", *policy) as person:
        person.until("> ")
        person.type("h\n")
        person.until("the approver's PIN: ")
        person.type("\n")
        assert person.end() == 4
        assert "not answered" in person.screen
    assert state(desk) == "outcome-unknown" and len(waiting(desk)) == 1 and a_pin.status().wrong_tries == 1
    assert desk.run("resolve", "last", "boom", "happened", *policy, "--pin-stdin", stdin=f"{PIN}\n").code == 0
    assert state(desk) == "succeeded"


def test_an_outcome_that_decide_answered_is_final_for_resolve(desk: Desk) -> None:
    policy = unknown(desk)
    (question,) = waiting(desk)
    where = ("decide", question["decision"], "--policy", str(desk.place / "policy.json"), "--pin-stdin")
    assert desk.run(*where, "--approve-all", stdin=f"{PIN}\n").code == 2
    assert desk.run(*where, "--option", "give-up", stdin=f"{PIN}\n").code == 0
    other = desk.run("resolve", "last", "boom", "retry", *policy, "--pin-stdin", stdin=f"{PIN}\n")
    assert other.code == 1 and "answered already" in other.err and state(desk) == "outcome-unknown"
    assert desk.run("resolve", "last", "boom", "give-up", *policy).code == 0
    assert state(desk) == "failed"
