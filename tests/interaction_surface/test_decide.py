"""``chaoscore decide``: by flags, at a terminal with the arrow keys, and what it refuses."""

from __future__ import annotations

import json

import pytest

from chaoscore.cli.exits import Exit
from chaoscore.cli.picker import Picker
from tests.cli.harness import Desk, at_a_terminal
from tests.interaction_surface.support import OPTIONS, Repository, wire

UP, DOWN, ENTER = "\x1b[A", "\x1b[B", "\r"


def ask(repository: Repository, *titles: str, **more: object) -> list[str]:
    """The decisions of one run, asked by a server that is gone again."""
    with wire(repository) as server:
        run = server.begin(changeId="c1", commandRunId="RUN-1")
        return [server.ask(run, title, **more) for title in titles]


def response(repository: Repository, decision: str) -> dict[str, object]:
    value = repository.read(f"decisions/{decision}/response.json")
    assert isinstance(value, dict)
    return value


def test_nothing_waits_where_nothing_was_asked_and_nothing_is_made(desk: Desk, repository: Repository) -> None:
    done = desk.run("decide")
    assert done.code == Exit.OK and "nothing waits" in done.out
    assert desk.run("decide", "--json").json()["waiting"] == []
    assert list(repository.path.iterdir()) == []


def test_what_waits_is_listed_and_one_is_shown_with_everything_needed_to_answer(
    desk: Desk, repository: Repository
) -> None:
    wanted = {"recommendedOptionId": "compact", "requiresRationale": True}
    first, second = ask(repository, "Which profile?", "Which day?", **wanted)
    listed = desk.run("decide").out
    assert first in listed and second in listed and "Which day?" in listed
    shown = desk.run("decide", first).out
    for words in ("Which profile?", "Pick one.", "Takes a minute.", "May miss something.", "recommended", "RUN-1"):
        assert words in shown
    assert "a reason is required" in shown
    question = desk.run("decide", first, "--json").json()["decision"]
    assert question["options"][0]["risk"] == "None." and question["decisionHash"].startswith("sha256:")


def test_it_is_found_from_a_folder_inside_the_repository(desk: Desk, repository: Repository) -> None:
    (decision,) = ask(repository, "Which profile?")
    inside = repository.path / "src" / "deep"
    inside.mkdir(parents=True)
    assert decision in desk.run("decide", cwd=inside).out


def test_flags_answer_with_one_option_several_or_text_and_a_reason(desk: Desk, repository: Repository) -> None:
    with wire(repository) as server:
        run = server.begin(commandRunId="RUN-1")
        one = server.ask(run, "One", requiresRationale=True)
        several = server.ask(run, "Several", interactionType="multi-choice-decision")
        written = server.ask(run, "Written", interactionType="freeform-input", options=[])
    assert desk.run("decide", one, "--option", "full").code == Exit.USAGE
    done = desk.run("decide", one, "--option", "full", "--rationale", "because", "--by", "ann", "--json")
    assert done.code == Exit.OK and done.json()["status"] == "ANSWERED"
    assert desk.run("decide", several, "--option", "none", "--option", "full").code == Exit.OK
    last = desk.run("decide", written, "--text", "-", stdin="two\nlines\n")
    assert last.code == Exit.OK and "can be resumed" in last.out
    stored = response(repository, one)
    assert (stored["selectedOptionId"], stored["rationale"], stored["selectedBy"], stored["source"]) == (
        "full", "because", "ann", "manual-file",
    )  # fmt: skip
    assert str(stored["validatesAgainstDecisionHash"]).startswith("sha256:")
    assert response(repository, several)["selectedOptionIds"] == ["none", "full"]
    assert response(repository, written)["freeformValue"] == "two\nlines"
    assert repository.read("sessions/RUN-1.json")["state"] == "ready-to-resume"


def test_an_answer_is_final_and_the_same_one_again_is_no_error(desk: Desk, repository: Repository) -> None:
    (decision,) = ask(repository, "Which profile?")
    assert desk.run("decide", decision, "--option", "full", "--by", "ann").code == Exit.OK
    assert desk.run("decide", decision, "--option", "full").code == Exit.OK
    other = desk.run("decide", decision, "--option", "none")
    assert other.code == Exit.FAILED and "ann" in other.err
    assert response(repository, decision)["selectedOptionId"] == "full"
    past = desk.run("decide", decision)
    assert past.code == Exit.OK and "answered" in past.out and "full" in past.out


def test_an_answer_to_another_version_of_the_question_is_refused(desk: Desk, repository: Repository) -> None:
    (decision,) = ask(repository, "Which profile?")
    done = desk.run("decide", decision, "--option", "full", "--hash", "sha256:" + "0" * 64)
    assert done.code == Exit.USAGE and "decisionHash" in done.err
    assert not (repository.root / f"decisions/{decision}/response.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [["--option", "full"], ["DEC-none"], ["DEC-none", "--option", "full"], ["../../x", "--option", "full"]],
)
def test_what_cannot_be_answered_is_said(desk: Desk, repository: Repository, arguments: list[str]) -> None:
    ask(repository, "Which profile?")
    done = desk.run("decide", *arguments)
    assert done.code in (Exit.FAILED, Exit.USAGE) and done.err.startswith("error: ")


def test_the_arrow_keys_choose_an_option_and_a_yes_records_it(desk: Desk, repository: Repository) -> None:
    (decision,) = ask(repository, "Which profile?", requiresRationale=True)
    with at_a_terminal(desk, "decide") as person:
        person.until("Which profile?")
        person.until("> full")
        person.type(DOWN)
        person.until("> compact")
        person.type(DOWN + DOWN)
        person.until("> full")
        person.type(UP + UP)
        person.until("> compact")
        person.type(ENTER)
        person.until("reason (required): ")
        person.type("\n")
        person.until("reason (required): ")
        person.type("small change\n")
        person.until("it is final")
        person.type("y\n")
        assert person.end() == Exit.OK
    stored = response(repository, decision)
    assert (stored["selectedOptionId"], stored["rationale"]) == ("compact", "small change")


def test_space_marks_several_and_enter_takes_them(desk: Desk, repository: Repository) -> None:
    (decision,) = ask(repository, "Which ones?", interactionType="multi-choice-decision")
    with at_a_terminal(desk, "decide", decision) as person:
        person.until("> [ ] full")
        person.type(" " + DOWN + DOWN + " ")
        person.until("> [x] none")
        person.type(ENTER)
        person.until("reason (enter: none): ")
        person.type("\n")
        person.until("it is final")
        person.type("y\n")
        assert person.end() == Exit.OK
    assert response(repository, decision)["selectedOptionIds"] == ["full", "none"]


def test_one_of_several_questions_is_picked_first(desk: Desk, repository: Repository) -> None:
    decisions = sorted(ask(repository, "Alpha?", "Beta?", "Gamma?"))
    with at_a_terminal(desk, "decide") as person:
        person.until(f"> {decisions[0]}")
        person.type(DOWN + ENTER)
        person.until("Beta?")
        person.until("> full")
        person.type(ENTER)
        person.until("reason")
        person.type("\n")
        person.until("it is final")
        person.type("y\n")
        assert person.end() == Exit.OK
    assert response(repository, decisions[1])["selectedOptionId"] == "full"


def test_text_is_typed_over_several_lines(desk: Desk, repository: Repository) -> None:
    (decision,) = ask(repository, "Why?", interactionType="freeform-input", options=[])
    with at_a_terminal(desk, "decide") as person:
        person.until("your answer")
        person.type("first\n")
        person.until("first\n")
        person.type("second\n")
        person.until("second\n")
        person.type("\n")
        person.until("reason")
        person.type("\n")
        person.until("it is final")
        person.type("y\n")
        assert person.end() == Exit.OK
    assert response(repository, decision)["freeformValue"] == "first\nsecond"


@pytest.mark.parametrize("leave", ["q", "\x1b", "\x03"])
def test_a_question_that_is_left_goes_on_waiting_and_the_terminal_is_as_before(
    desk: Desk, repository: Repository, leave: str
) -> None:
    (decision,) = ask(repository, "Which profile?")
    with at_a_terminal(desk, "decide") as person:
        person.until("> full")
        person.type(leave)
        assert person.end() == Exit.WAITING
    assert not (repository.root / f"decisions/{decision}/response.json").exists()


def test_a_no_at_the_end_records_nothing(desk: Desk, repository: Repository) -> None:
    (decision,) = ask(repository, "Which profile?")
    with at_a_terminal(desk, "decide") as person:
        person.until("> full")
        person.type(ENTER)
        person.until("reason")
        person.type("\n")
        person.until("it is final")
        person.type("n\n")
        assert person.end() == Exit.WAITING
    assert not (repository.root / f"decisions/{decision}/response.json").exists()


def test_text_that_hides_something_is_made_visible(desk: Desk, repository: Repository) -> None:
    evil = "safe\x1b[2K\u202eevil"
    (decision,) = ask(repository, evil, options=[{**OPTIONS[0], "label": evil}])
    shown = desk.run("decide", decision).out
    assert "\x1b" not in shown and "\u202e" not in shown and "\\u202e" in shown


@pytest.mark.parametrize("several", [False, True])
def test_the_list_is_a_value_that_keys_change(several: bool) -> None:
    picker = Picker([(f"o{number}", "label") for number in range(40)], several)
    assert picker.press("up") is None and picker.at == 39
    assert len(picker.lines(80)) == 16 and any(line.startswith("> ") for line in picker.lines(80))
    assert picker.press("down") is None and picker.at == 0
    assert picker.press("space") is None
    assert picker.press("enter") == "chosen"
    assert picker.chosen() == ("o0",)
    assert picker.press("leave") == "left"
    assert all(len(line) < 30 for line in picker.lines(30)[:-1])


def test_the_json_of_an_answer_is_the_envelope(desk: Desk, repository: Repository) -> None:
    (decision,) = ask(repository, "Which profile?")
    refused = desk.run("decide", decision, "--option", "nope", "--json")
    assert refused.code == Exit.USAGE
    envelope = json.loads(refused.out)
    assert envelope["error"]["code"] == "VALIDATION_ERROR" and "nope" in envelope["message"]
