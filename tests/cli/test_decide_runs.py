"""``chaoscore decide`` for questions of runs: shown from the database, answered by hand at a terminal or by flags."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chaoscore.adapters.files.approver_pin import FilePin
from chaoscore.adapters.system import SystemClock
from tests.cli.harness import Desk, Ended, at_a_terminal
from tests.interaction_surface.support import Repository, wire

PIN = "tulpe-19-mond"
DOWN, ENTER = "\x1b[B", "\r"


def writes(*texts: str) -> list[dict[str, object]]:
    return [
        {"id": f"w{n}", "capability": "fs.write_text", "arguments": {"path": f"{n}.txt", "text": text}}
        for n, text in enumerate(texts, start=1)
    ]


def ask(desk: Desk, *steps: Mapping[str, object]) -> dict[str, Any]:
    """Start a run that waits for a person; its question."""
    done = desk.run("achieve", "--plan", desk.plan(*steps), "--root", ".", "--no-input", *policy(desk))
    assert done.code == 3, done.err
    return waiting(desk)[-1]


def waiting(desk: Desk, *more: str) -> list[dict[str, Any]]:
    found = desk.run("decide", "--json", *policy(desk), *more).json()["waiting"]
    assert isinstance(found, list)
    return found


def policy(desk: Desk) -> tuple[str, ...]:
    path = desk.place / "policy.json"
    return ("--policy", str(path)) if path.exists() else ()


def wants_a_person(desk: Desk, *doors: str) -> None:
    desk.policy(requireConfirmationFor=["fs.write_text"], approvalMode="human", approvalDoors=list(doors))
    FilePin(desk.data, SystemClock()).create(PIN)


def go_on(desk: Desk) -> Ended:
    return desk.run("run", "continue", "last", "--root", ".", "--no-input", *policy(desk))


def written(desk: Desk) -> list[str]:
    return sorted(path.name for path in desk.work.glob("*.txt"))


def flat(text: str) -> str:
    return " ".join(text.split())


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_without_a_database_nothing_waits_and_nothing_is_made(desk: Desk) -> None:
    done = desk.run("decide", "--json")
    assert done.code == 0 and done.json()["waiting"] == [] and done.json()["unreadable"] == []
    assert not desk.data.exists()
    desk.data.mkdir()
    assert "nothing waits" in desk.run("decide").out
    assert list(desk.data.iterdir()) == [] and list(desk.work.iterdir()) == []


def test_a_question_is_shown_with_everything_an_answer_is_for(desk: Desk) -> None:
    query = {"id": "q", "capability": "json.query", "arguments": {"data": {"k": "hello"}, "query": "k"}}
    keep = {
        "id": "w",
        "capability": "fs.write_text",
        "arguments": {"path": "1.txt", "text": {"$from": "q", "path": "/result"}},
        "why": "to keep it",
    }
    after = {"id": "z", "capability": "json.query", "arguments": {"data": 1, "query": "@"}, "after": ["w"]}
    question = ask(desk, query, keep, after)
    done = desk.run("decide", question["decision"])
    shown = flat(done.out)
    for fact in (
        "Approve fs.write_text in run",
        "confirm",
        "goal a test",
        "Plan written by: caller",
        question["run"],
        "without an answer it counts as no",
        "an answer here, or the word of the agent that runs it",
        "fs.write_text high risk",
        "why to keep it",
        "asked by requireConfirmationFor[1]: fs.write_text",
        f"confined to roots {desk.work}",
        'path: "1.txt"',
        'text: "hello"',
        "step q, output /result",
        "made from q json.query",
        "approve Approve: run it once, exactly as shown",
        "it runs once with exactly these arguments",
        "what depends on it is skipped: z",
        "it does not run, now or later in this run",
        question["digest"],
        f"chaoscore decide {question['decision']} --approve-all, --deny-all or --option ID",
    ):
        assert fact in shown, fact
    one = desk.run("decide", question["decision"], "--json").json()["decision"]
    assert one["asked_by"] == "run" and one["goal"] == "a test"
    assert one["actions"][0]["arguments"] == {"path": "1.txt", "text": "hello"}


def test_what_somebody_outside_wrote_is_marked(desk: Desk) -> None:
    (desk.work / "in.md").write_text("evil", "utf-8")
    read = {"id": "r", "capability": "fs.read_text", "arguments": {"path": "in.md"}}
    save = {
        "id": "w",
        "capability": "fs.write_text",
        "arguments": {"path": {"$from": "r", "path": "/text"}, "text": "x"},
    }
    question = ask(desk, read, save)
    shown = flat(desk.run("decide", question["decision"]).out)
    assert "step r, output /text (untrusted, written outside)" in shown
    assert "made from r fs.read_text (untrusted, written outside): it decides where this goes" in shown


def test_long_arguments_are_shown_to_their_end_only_when_asked_and_that_is_said(desk: Desk) -> None:
    question = ask(desk, *writes("\n".join(f"line {n}" for n in range(400))))
    cut = desk.run("decide", question["decision"]).out
    assert "line 399" not in cut and f"chaoscore decide {question['decision']} --full" in cut
    whole = desk.run("decide", question["decision"], "--full").out
    assert "line 399" in whole and "--full" not in whole


def test_what_changed_since_the_last_time_is_shown_before_and_after(desk: Desk) -> None:
    desk.policy(requireConfirmationFor=["fs.write_text"])
    first = ask(desk, *writes("x"))
    desk.policy(requireConfirmationFor=["fs.*"])
    assert desk.run("decide", first["decision"], "--approve-all", *policy(desk)).code == 0
    assert go_on(desk).code == 3 and written(desk) == []
    (second,) = waiting(desk)
    shown = flat(desk.run("decide", second["decision"], *policy(desk)).out)
    assert "changed since it was last shown" in shown
    assert '/verdict/rule: "requireConfirmationFor[0]: fs.write_text" → "requireConfirmationFor[0]: fs.*"' in shown


def test_no_text_of_a_plan_can_play_tricks_on_whoever_reads_it(desk: Desk) -> None:
    evil = "safe\x1b[2K\rtext \u202egnp"
    question = ask(desk, {**writes(evil)[0], "why": evil})
    for shown in (desk.run("decide"), desk.run("decide", question["decision"], "--full")):
        assert "\x1b" not in shown.out and "\u202e" not in shown.out
    assert "\\u001b[2K\\rtext \\u202egnp" in desk.run("decide", question["decision"]).out


def test_the_copy_in_a_folder_is_never_what_is_shown(desk: Desk) -> None:
    question = ask(desk, *writes("the real text"))
    copy = next((Path(question["root"]) / "decisions").rglob("decision.json"))
    document = json.loads(copy.read_text("utf-8"))
    document |= {"title": "Forged", "context": "Forged", "options": [{"id": "approve", "label": "Forged"}]}
    copy.write_text(json.dumps(document), "utf-8")
    for arguments in ((), (question["decision"],), (question["decision"], "--json"), ("--json",)):
        shown = desk.run("decide", "--root", question["root"], *arguments)
        assert shown.code == 0 and "Forged" not in shown.out and question["decision"] in shown.out
    assert [item["decision"] for item in waiting(desk, "--root", question["root"])] == [question["decision"]]


# -- both kinds ------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def both(repository: Repository) -> Desk:
    """A desk in a repository with a folder of agents' questions."""
    desk = Desk(repository.place)
    desk.work.rmdir()
    desk.work.symlink_to(repository.path)
    return desk


def agent_asks(repository: Repository, title: str) -> str:
    with wire(repository) as server:
        return server.ask(server.begin(f"chaos:{title}"), title)


def test_questions_of_runs_and_of_agents_are_one_list_oldest_first(both: Desk, repository: Repository) -> None:
    first = agent_asks(repository, "Alpha")
    second = ask(both, *writes("x"))["decision"]
    third = agent_asks(repository, "Omega")
    found = [item.get("decisionId") or item["decision"] for item in waiting(both)]
    assert found == [first, second, third]
    assert [item["asked_by"] for item in waiting(both)] == ["agent", "run", "agent"]
    lines = both.run("decide").out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("DEC-")] == found
    assert [item["decision"] for item in waiting(both, "--run", second.split("-", 4)[4].rsplit("-", 1)[0])] == [second]
    assert len(waiting(both, "--change", "none")) == 0


def test_each_kind_is_picked_from_the_one_list_and_answered_in_its_store(both: Desk, repository: Repository) -> None:
    agents = agent_asks(repository, "Alpha")
    runs = ask(both, *writes("x"))["decision"]
    with at_a_terminal(both, "decide") as person:
        person.until(f"> {agents}")
        person.type(DOWN + ENTER)
        person.until("approval 1 of 1")
        person.until("> approve")
        person.type(ENTER)
        person.until("reason")
        person.type("\n")
        assert "approves  w1" in person.until("it is final")
        person.type("y\n")
        assert person.end() == 0
    with at_a_terminal(both, "decide") as person:
        person.until("> full")
        person.type(ENTER)
        person.until("reason")
        person.type("\n")
        person.until("it is final")
        person.type("y\n")
        assert person.end() == 0
    assert repository.read(f"decisions/{agents}/response.json")["selectedOptionId"] == "full"
    assert both.run("decide", runs, "--json").json()["decision"]["response"]["options"] == ["approve"]


def test_flags_of_the_other_kind_are_refused(both: Desk, repository: Repository) -> None:
    agents, runs = agent_asks(repository, "Alpha"), ask(both, *writes("x"))["decision"]
    for arguments in (
        (agents, "--approve-all"),
        (agents, "--option", "full", "--go-on"),
        (runs, "--text", "yes"),
        (runs, "--option", "approve", "--by", "ann"),
        (runs, "--option", "approve", "--approve-all"),
        (runs, "--option", "nothing"),
        (runs, "--pin-stdin"),
        ("--deny-all",),
    ):
        done = both.run("decide", *arguments)
        assert done.code == 2 and done.err.startswith("error: "), arguments
    assert len(waiting(both)) == 2


def test_one_store_that_cannot_be_read_is_named_and_the_other_is_shown(both: Desk, repository: Repository) -> None:
    agents, runs = agent_asks(repository, "Alpha"), ask(both, *writes("x"))["decision"]
    kept = both.place / "kept"
    shutil.copytree(both.data, kept)
    for path in both.data.glob("chaoscore.db*"):
        path.write_bytes(b"this is no database" * 100)
    done = both.run("decide")
    assert done.code == 8 and agents in done.out and runs not in done.out
    assert str(both.data) in done.err and "cannot be read" in done.err
    told = both.run("decide", "--json")
    assert [item["decisionId"] for item in told.json()["waiting"]] == [agents]
    assert str(both.data) in told.json()["unreadable"][0]["store"]
    assert both.run("decide", agents, "--option", "full").code == 0
    shutil.rmtree(both.data)
    shutil.copytree(kept, both.data)
    no_folder = both.place / "a file"
    no_folder.write_text("no folder", "utf-8")
    done = both.run("decide", "--root", str(no_folder))
    assert done.code == 5 and runs in done.out and "interactions folder cannot be read" in done.err
    assert both.run("decide", runs, "--deny-all", "--root", str(no_folder)).code == 0


def test_a_copy_of_a_run_of_another_data_directory_is_told_and_not_shown(desk: Desk) -> None:
    question = ask(desk, *writes("x"))
    elsewhere = ("--data-dir", str(desk.place / "elsewhere"), "--root", question["root"])
    listed = desk.run("decide", *elsewhere)
    assert question["decision"] not in listed.out and "another data directory" in listed.err
    for answer in ((), ("--option", "approve")):
        done = desk.run("decide", question["decision"], *answer, *elsewhere)
        assert done.code == 1 and "--data-dir" in done.err and "fs.write_text" not in done.out
    assert not (desk.place / "elsewhere").exists()


# -- answering by flags ----------------------------------------------------------------------------------------------


def test_what_is_not_chosen_is_denied_and_that_is_said_before_it_is_sent(desk: Desk) -> None:
    question = ask(desk, *writes("a", "b", "c"))
    chosen = ("--option", "approve:w1", "--option", "approve:w3")
    done = desk.run("decide", question["decision"], *chosen, "--rationale", "two are enough")
    assert done.code == 0, done.err
    said = flat(done.out)
    assert "approves w1" in said and "denies w2" in said and "1 action not chosen: what is not chosen is denied" in said
    assert said.index("not chosen") < said.index("answered:")
    assert f"chaoscore run continue {question['run']} --root {desk.work}" in said and "serve --http" in said
    assert written(desk) == []
    assert go_on(desk).code == 1
    assert written(desk) == ["1.txt", "3.txt"]
    past = desk.run("decide", question["decision"])
    assert past.code == 0 and "two are enough" in past.out and "through the door terminal" in past.out


@pytest.mark.parametrize(
    ("flag", "texts", "options"),
    [
        ("--approve-all", ("a",), ["approve"]),
        ("--approve-all", ("a", "b"), ["approve:w1", "approve:w2"]),
        ("--deny-all", ("a",), ["deny"]),
        ("--deny-all", ("a", "b"), ["deny-all"]),
    ],
)
def test_all_at_once(flag: str, texts: tuple[str, ...], options: list[str], desk: Desk) -> None:
    question = ask(desk, *writes(*texts))
    done = desk.run("decide", question["decision"], flag, "--json")
    assert done.code == 0
    answer = done.json()
    assert (answer["ok"], answer["status"], answer["decision"]["response"]["options"]) == (True, "ANSWERED", options)
    assert len(answer["approved"]) + len(answer["denied"]) == len(texts)
    assert waiting(desk) == []
    go_on(desk)
    assert len(written(desk)) == len(answer["approved"])


def test_an_answer_to_another_version_of_the_question_is_refused(desk: Desk) -> None:
    question = ask(desk, *writes("x"))
    wrong = desk.run("decide", question["decision"], "--approve-all", "--hash", "sha256:" + "0" * 64)
    assert wrong.code == 2 and "something else than what was shown" in wrong.err
    assert desk.run("decide", question["decision"], "--approve-all", "--hash", question["digest"]).code == 0


def test_the_second_answer_hears_who_gave_the_first(desk: Desk) -> None:
    question = ask(desk, *writes("x"))
    assert desk.run("decide", question["decision"], "--deny-all").code == 0
    late = desk.run("decide", question["decision"], "--approve-all", "--json")
    assert late.code == 1 and "answered already by local:" in late.err and "approves" not in late.err
    assert late.json()["error"]["code"] == "VERSION_CONFLICT"


def test_going_on_right_there_shows_progress_and_ends_as_the_run_does(desk: Desk) -> None:
    question = ask(desk, *writes("a", "b"))
    refused = desk.run("decide", question["decision"], "--approve-all", "--go-on")
    assert refused.code == 2 and f"--fs-root {desk.work}" in refused.err
    assert len(waiting(desk)) == 1
    done = desk.run("decide", question["decision"], "--approve-all", "--go-on", "--fs-root", ".")
    assert done.code == 0, done.err
    assert "✓ w1" in done.out and "achieved" in done.out and written(desk) == ["1.txt", "2.txt"]
    again = ask(desk, *writes("c"))
    told = desk.run("decide", again["decision"], "--deny-all", "--go-on", "--fs-root", ".", "--json")
    assert told.code == 1
    assert told.json()["answered"]["response"]["options"] == ["deny"] and told.json()["data"]["label"] == again["run"]


# -- the PIN ---------------------------------------------------------------------------------------------------------


def test_a_script_hands_the_pin_over_on_standard_input_alone(desk: Desk) -> None:
    wants_a_person(desk, "terminal")
    question = ask(desk, *writes("x"))
    where = (question["decision"], *policy(desk), "--approve-all")
    none = desk.run("decide", *where)
    assert none.code == 1 and "PIN is needed" in none.err
    wrong = desk.run("decide", *where, "--pin-stdin", "--json", stdin="wrong-pin-1\n")
    assert wrong.code == 1 and wrong.json()["error"]["code"] == "PIN_REFUSED" and "the PIN is wrong" in wrong.err
    assert desk.run("decide", *where, "--pin-stdin").code == 2
    assert desk.run("decide", *where, "--pin", PIN).code == 2
    desk.extra["CHAOS_PIN"] = PIN
    assert desk.run("decide", *where, environ={**desk.environ(), "PIN": PIN}).code == 1
    assert len(waiting(desk)) == 1
    right = desk.run("decide", *where, "--pin-stdin", stdin=f"{PIN}\n")
    assert right.code == 0 and PIN not in right.out + right.err
    assert go_on(desk).code == 0 and written(desk) == ["1.txt"]


def test_a_person_types_the_pin_and_it_is_not_shown(desk: Desk) -> None:
    wants_a_person(desk, "web", "terminal")
    question = ask(desk, *writes("a", "b"))
    with at_a_terminal(desk, "decide", *policy(desk), "--full") as person:
        asked = flat(person.until("> [ ] approve:w1"))
        assert (
            "only a person's answer through: web (with the approver's PIN), terminal (with the approver's PIN)" in asked
        )
        person.type(" " + ENTER)
        person.until("reason (enter: none): ")
        person.type("fine\n")
        said = person.until("it is final")
        assert "approves  w1" in said and "denies    w2" in said and "what is not chosen is denied" in said
        person.type("y\n")
        person.until("the approver's PIN: ")
        person.type(PIN + "\n")
        assert person.end() == 0
        assert "answered:" in person.screen and PIN not in person.raw
    go_on(desk)
    assert written(desk) == ["1.txt"]
    stored = desk.run("decide", question["decision"], "--json", *policy(desk)).json()["decision"]["response"]
    assert (stored["options"], stored["rationale"], stored["door"]) == (["approve:w1"], "fine", "terminal")


def test_a_wrong_pin_ends_with_its_code_and_the_question_waits(desk: Desk) -> None:
    wants_a_person(desk, "terminal")
    question = ask(desk, *writes("x"))
    with at_a_terminal(desk, "decide", question["decision"], "--approve-all", *policy(desk)) as person:
        person.until("the approver's PIN: ")
        person.type("wrong-pin-1\n")
        assert person.end() == 1
        assert "the PIN is wrong" in person.screen
    assert len(waiting(desk)) == 1
    assert FilePin(desk.data, SystemClock()).status().wrong_tries == 1


@pytest.mark.parametrize(
    ("keys", "code"), [("\x03", 130), ("\n", 3), ("\x04", 3)], ids=["Ctrl-C", "empty", "end of input"]
)
def test_whoever_stops_at_the_pin_has_answered_nothing(keys: str, code: int, desk: Desk) -> None:
    wants_a_person(desk, "terminal")
    question = ask(desk, *writes("x"))
    with at_a_terminal(desk, "decide", *policy(desk)) as person:
        person.until("> approve")
        person.type(ENTER)
        person.until("reason")
        person.type("\n")
        person.until("it is final")
        person.type("y\n")
        person.until("the approver's PIN: ")
        person.type(keys)
        assert person.end() == code
        assert "goes on waiting" in person.screen
    assert [item["decision"] for item in waiting(desk)] == [question["decision"]]
    assert FilePin(desk.data, SystemClock()).status().wrong_tries == 0


@pytest.mark.parametrize("leave", ["q", "\x03", "\x1b"])
def test_a_question_that_is_left_at_the_list_goes_on_waiting(leave: str, desk: Desk) -> None:
    ask(desk, *writes("a", "b"))
    with at_a_terminal(desk, "decide") as person:
        person.until("> [ ] approve:w1")
        person.type(" " + leave)
        assert person.end() == 3
    assert len(waiting(desk)) == 1


def test_deny_all_beside_an_approval_is_asked_again(desk: Desk) -> None:
    question = ask(desk, *writes("a", "b"))
    with at_a_terminal(desk, "decide") as person:
        person.until("> [ ] approve:w1")
        person.type(" " + DOWN + DOWN + " " + ENTER)
        assert "stands alone" in person.until("> [ ] approve:w1")
        person.type(DOWN + DOWN + " " + ENTER)
        person.until("reason")
        person.type("\n")
        assert "denies    w1" in person.until("it is final")
        person.type("y\n")
        assert person.end() == 0
    assert desk.run("decide", question["decision"], "--json").json()["decision"]["response"]["options"] == ["deny-all"]


def test_where_no_answer_here_can_count_nobody_is_asked_and_it_is_said_why(desk: Desk) -> None:
    wants_a_person(desk, "web")
    question = ask(desk, *writes("x"))
    with at_a_terminal(desk, "decide", *policy(desk)) as person:
        assert person.end() == 3
        assert "approvalDoors are web" in flat(person.screen) and "> approve" not in person.screen
    refused = desk.run("decide", question["decision"], "--approve-all", "--pin-stdin", *policy(desk), stdin=f"{PIN}\n")
    assert refused.code == 2 and "does not count" in refused.err


def test_without_a_pin_it_is_said_how_to_set_one(desk: Desk) -> None:
    desk.policy(requireConfirmationFor=["fs.write_text"], approvalMode="human")
    question = ask(desk, *writes("x"))
    with at_a_terminal(desk, "decide", *policy(desk)) as person:
        assert person.end() == 3
        assert "chaoscore pin set" in flat(person.screen)
    flags = desk.run("decide", question["decision"], "--approve-all", *policy(desk))
    assert flags.code == 1 and "no PIN is set" in flags.err


# -- lists elsewhere -------------------------------------------------------------------------------------------------


def test_lists_of_runs_and_decisions_name_the_command_that_answers(desk: Desk) -> None:
    desk.extra["COLUMNS"] = "200"
    question = ask(desk, *writes("a", "b"))
    command = f"chaoscore decide {question['decision']}"
    assert command in flat(desk.run("run", "list").out)
    assert command in desk.run("run", "show", "last").out
    listed = desk.run("run", "list", "--json").json()["runs"][0]["decisions"]
    assert [item["answer_with"] for item in listed] == [command]
    inspected = desk.run("inspect", "decisions").out
    assert question["decision"] in inspected and "approval" in inspected
    assert "w1 fs.write_text, w2 fs.write_text" in flat(inspected)
    assert desk.run("decide", question["decision"], "--deny-all").code == 0
    shown = desk.run("run", "show", "last").out
    assert command not in shown and "takes it into account when it goes on" in shown
    assert "waits for a person" not in desk.run("run", "list").out


def test_a_question_that_ran_out_of_time_is_no_longer_in_the_list(desk: Desk) -> None:
    question = ask(desk, *writes("x"))
    with sqlite3.connect(desk.data / "chaoscore.db") as database:
        database.execute("UPDATE decisions SET expires_at = 1")
    database.close()
    assert waiting(desk) == []
    shown = desk.run("decide", question["decision"])
    assert shown.code == 0 and "it has expired" in shown.out
    late = desk.run("decide", question["decision"], "--approve-all")
    assert late.code == 1 and "has expired" in late.err
