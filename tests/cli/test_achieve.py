"""``chaoscore achieve`` and ``run continue``: the main job over real files, with and without a person."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.cli.harness import INDEX_PLAN, Desk, at_a_terminal

MAIN_JOB = ("achieve", "--plan", str(INDEX_PLAN), "--root", ".")


def test_the_main_job_is_done_in_a_script_with_yes(desk: Desk) -> None:
    desk.documents()
    done = desk.run(*MAIN_JOB, "--yes", "--remember", "docs.index")
    assert done.code == 0, done.err
    index = (desk.work / "DOCS.md").read_text("utf-8")
    assert "[One](docs/one.md)" in index and "[Two](docs/two.md)" in index
    for shown in ("REQUIRE_APPROVAL", "requireConfirmationFor", "achieved", "docs.index version 1", "verified"):
        assert shown in done.out


def test_every_step_is_told_while_it_goes_also_where_nobody_draws(desk: Desk) -> None:
    desk.documents()
    done = desk.run(*MAIN_JOB, "--yes")
    told = [line.split() for line in done.out.splitlines() if line.startswith("  ✓")]
    assert [line[1] for line in told] == ["find", "read", "extract", "write_index", "save"]
    assert "2 items done" in done.out
    assert "\x1b" not in done.out


def test_with_json_standard_output_is_one_document_and_the_rest_is_on_standard_error(desk: Desk) -> None:
    desk.documents()
    done = desk.run(*MAIN_JOB, "--yes", "--json")
    answer = done.json()
    assert (done.code, answer["ok"], answer["status"]) == (0, True, "ACHIEVED")
    assert answer["audit"]["verified"] is True and answer["audit"]["events"] > 0
    assert answer["data"]["evaluation"]["outcome"] == "achieved"
    assert "fs.write_text" in done.err


def test_without_anybody_to_ask_the_action_waits_and_nothing_is_written(desk: Desk) -> None:
    desk.documents()
    waiting = desk.run(*MAIN_JOB, "--no-input")
    assert waiting.code == 3
    assert not (desk.work / "DOCS.md").exists()
    assert "chaoscore run continue r-" in waiting.out
    done = desk.run("run", "continue", "last", "--root", ".", "--yes")
    assert done.code == 0 and (desk.work / "DOCS.md").exists()


def test_a_pipe_on_standard_input_is_nobody_to_ask(desk: Desk) -> None:
    desk.documents()
    assert desk.run(*MAIN_JOB, stdin="y\ny\n").code == 3
    assert not (desk.work / "DOCS.md").exists()


def test_a_person_sees_what_they_approve_and_says_yes(desk: Desk) -> None:
    desk.documents()
    with at_a_terminal(desk, *MAIN_JOB) as session:
        asked = session.until("[y]es")
        for shown in (
            "fs.write_text",
            "high risk",
            "requireConfirmationFor[1]: fs.write_text",
            f"roots {desk.work}",
            '"DOCS.md"',
            "| [One](docs/one.md) |",
            "made from find fs.list, read fs.read_text, extract json.query, write_index json.query",
            "(untrusted, written outside)",
        ):
            assert shown in " ".join(asked.split()), shown
        assert not (desk.work / "DOCS.md").exists()
        session.type("maybe\n")
        session.until("please answer")
        session.type("yes\n")
        assert session.end() == 0
        assert "achieved" in session.screen
    assert (desk.work / "DOCS.md").exists()


def test_a_persons_no_is_final(desk: Desk) -> None:
    desk.documents()
    with at_a_terminal(desk, *MAIN_JOB) as session:
        session.until("[n]o")
        session.type("n\n")
        assert session.end() == 1
        assert "DENIED_BY_PERSON" in session.screen
    again = desk.run("run", "continue", "last", "--root", ".", "--yes")
    assert again.code == 1
    assert not (desk.work / "DOCS.md").exists()


def test_later_leaves_the_action_waiting(desk: Desk) -> None:
    desk.documents()
    with at_a_terminal(desk, *MAIN_JOB) as session:
        session.until("[l]ater")
        session.type("l\n")
        assert session.end() == 3
    with at_a_terminal(desk, "run", "continue", "last", "--root", ".") as session:
        session.until("[y]es")
        session.type("y\n")
        assert session.end() == 0


def test_the_end_of_input_answers_nothing(desk: Desk) -> None:
    desk.documents()
    with at_a_terminal(desk, *MAIN_JOB) as session:
        session.until("> ")
        session.type("\x04")
        assert session.end() == 3
    assert not (desk.work / "DOCS.md").exists()


def test_one_yes_for_many_is_taken_only_after_all_were_shown(desk: Desk) -> None:
    steps = [
        {"id": f"w{n}", "capability": "fs.write_text", "arguments": {"path": f"{n}.txt", "text": f"text number {n}"}}
        for n in (1, 2, 3)
    ]
    with at_a_terminal(desk, "achieve", "--plan", desk.plan(*steps), "--root", ".") as session:
        session.until("approval 1 of 3")
        session.until("> ")
        session.type("y\n")
        session.until("approval 2 of 3")
        session.until("[a]ll")
        session.type("a\n")
        assert "text number 3" in session.until("yes to all 2?")
        session.type("y\n")
        assert session.end() == 0
    assert sorted(path.name for path in desk.work.iterdir()) == ["1.txt", "2.txt", "3.txt"]


def test_what_cannot_be_seen_is_made_visible_before_it_is_approved(desk: Desk) -> None:
    text = "harmless\x1b[2K\rtext \u202egnp.exe\u200b"
    step = {"id": "w", "capability": "fs.write_text", "arguments": {"path": "a.txt", "text": text}}
    with at_a_terminal(desk, "achieve", "--plan", desk.plan(step), "--root", ".") as session:
        asked = session.until("[y]es")
        assert "\\u001b[2K\\rtext \\u202egnp.exe\\u200b" in asked.replace("\n", "").replace("    ", "")
        assert "\x1b[2K\rtext" not in session.raw and "\u202e" not in session.raw
        session.type("n\n")
        session.end()


def test_a_key_that_is_set_is_shown_nowhere_and_recorded_nowhere_but_in_the_plan_it_was_written_into(
    desk: Desk,
) -> None:
    key = "hunter2-unusual-key"
    desk.extra["OPENAI_API_KEY"] = key
    leak = {"id": "q", "capability": "json.query", "arguments": {"data": {"k": f"it is {key}!"}, "query": "k"}}
    write = {
        "id": "w",
        "capability": "fs.write_text",
        "arguments": {"path": "a.txt", "text": {"$from": "q", "path": "/result"}},
        "why": f"because {key}",
    }
    desk.extra["CHAOS_CORE_LOG_LEVEL"] = "debug"
    shown = [
        desk.run("achieve", "--plan", desk.plan(leak, write), "--root", ".", "--yes", "--remember", "leak"),
        desk.run("achieve", "--plan", desk.plan(leak, write), "--root", ".", "--no-input", "--json"),
        desk.run("achieve", f"tell {key}"),
        *(desk.run("inspect", *what, "--json") for what in (["run", "last"], ["audit"], ["memory"], ["providers"], [])),
        desk.run("run", "show", "last", "--step", "q"),
        desk.run("audit", "tail", "--limit", "100", "--json"),
        desk.run("memory", "list"),
    ]
    for done in shown:
        assert key not in done.out and key not in done.err
    assert (desk.work / "a.txt").read_text() == f"it is {key}!"  # between steps nothing is changed
    events = desk.run("audit", "tail", "--limit", "100", "--json", environ={**desk.environ(), "OPENAI_API_KEY": ""})
    assert events.code == 0 and key not in events.out


def test_a_long_text_is_shown_in_full_to_whoever_wants_to_see_it(desk: Desk) -> None:
    text = "\n".join(f"line {n}" for n in range(400))
    step = {"id": "w", "capability": "fs.write_text", "arguments": {"path": "a.txt", "text": text}}
    with at_a_terminal(desk, "achieve", "--plan", desk.plan(step), "--root", ".") as session:
        assert "line 399" not in session.until("[v]iew")
        session.until("> ")
        session.type("v\n")
        assert "line 399" in session.until("> ")
        session.type("n\n")
        session.end()


def test_where_policy_wants_a_person_yes_does_nothing(desk: Desk) -> None:
    desk.documents()
    policy = desk.policy(requireConfirmationFor=["fs.write_text"], approvalMode="human")
    done = desk.run(*MAIN_JOB, "--yes", "--policy", str(policy))
    assert done.code == 3
    assert "approvalMode is human" in done.err
    assert not (desk.work / "DOCS.md").exists()


def test_a_dry_run_lints_and_shows_verdicts_and_runs_nothing(desk: Desk) -> None:
    desk.documents()
    done = desk.run(*MAIN_JOB, "--dry-run")
    assert done.code == 0 and "REQUIRE_APPROVAL" in done.out
    assert desk.run("run", "list", "--json").json()["runs"] == []


def test_a_goal_in_words_goes_through_the_rules_without_a_key(desk: Desk) -> None:
    (desk.work / "README.md").write_text("# Hello\nworld\n", encoding="utf-8")
    done = desk.run("achieve", "read README.md", "--root", ".")
    assert done.code == 0
    assert "written by rules" in done.out and "world" in done.out


def test_a_goal_that_nobody_can_plan_is_told_how_a_plan_is_written(desk: Desk) -> None:
    done = desk.run("achieve", "make me happy")
    assert done.code == 6
    assert "--plan FILE" in done.err and '"capability": "fs.list"' in done.out
    assert desk.run("achieve", "make me happy", "--json").json()["status"] == "NEEDS_PLAN"


def test_every_fault_of_a_plan_is_listed_at_once(desk: Desk) -> None:
    bad = desk.plan(
        {"id": "a", "capability": "fs.raed_text", "arguments": {}},
        {"id": "b", "capability": "fs.read_text", "arguments": {"path": {"$from": "zz", "path": ""}}},
    )
    done = desk.run("achieve", "--plan", bad, "--root", ".")
    assert done.code == 2
    assert "/steps/0/capability" in done.err and "fs.read_text" in done.err and "/steps/1" in done.err
    answer = desk.run("achieve", "--plan", bad, "--json").json()
    assert answer["error"]["code"] == "PLAN_INVALID" and len(answer["error"]["details"]["faults"]) >= 2


def test_plan_files_that_are_not_plans_are_refused_with_the_place(desk: Desk) -> None:
    cases = {
        "{": "line 1",
        "3": "not a plan",
        '{"objective": "x"}': "not a plan",
        '{"steps": [], "stepz": 1}': "'stepz'",
        '{"steps": [], "steps": []}': "twice",
        '{"steps": NaN}': "NaN",
    }
    for text, says in cases.items():
        done = desk.run("achieve", "--plan", "-", stdin=text)
        assert done.code == 2 and says in done.err, text
    assert desk.run("achieve", "--plan", "nowhere.json").code == 2
    assert desk.run("achieve").code == 2


def test_a_plan_on_standard_input_runs(desk: Desk) -> None:
    desk.documents()
    plan = json.dumps([{"id": "a", "capability": "fs.list", "arguments": {"path": "docs"}}])
    assert desk.run("achieve", "list them", "--plan", "-", "--root", ".", stdin=plan).code == 0


def test_a_step_that_policy_denies_never_runs_and_is_announced(desk: Desk) -> None:
    desk.documents()
    policy = desk.policy(deniedCapabilities=["fs.write_text"])
    done = desk.run(*MAIN_JOB, "--yes", "--policy", str(policy))
    assert done.code == 1
    assert "save will never run" in done.out
    assert not (desk.work / "DOCS.md").exists()


# -- interruption ----------------------------------------------------------------------------------------------------


@contextmanager
def slow_server() -> Iterator[tuple[int, list[str], threading.Event, threading.Event]]:
    """Answers ``/slow`` only once it is released: its port, the paths it was asked for, asked, release."""
    paths: list[str] = []
    asked, release = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            asked.set()
            if self.path == "/slow":
                release.wait(60)
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], paths, asked, release
    finally:
        release.set()
        server.shutdown()
        server.server_close()


def two_requests(desk: Desk, port: int) -> tuple[str, ...]:
    policy = desk.policy(httpAllowedDomains=["localhost"], httpAllowPrivate=[f"localhost:{port}"])
    plan = desk.plan(
        {"id": "a", "capability": "http.request", "arguments": {"url": f"http://localhost:{port}/slow"}},
        {"id": "b", "capability": "http.request", "arguments": {"url": f"http://localhost:{port}/b"}, "after": ["a"]},
    )
    return ("achieve", "--plan", plan, "--policy", str(policy))


def test_ctrl_c_finishes_the_effect_in_flight_starts_nothing_more_and_says_how_to_go_on(desk: Desk) -> None:
    with slow_server() as (port, paths, asked, release):
        arguments = two_requests(desk, port)
        with at_a_terminal(desk, *arguments) as session:
            assert asked.wait(60)
            session.type("\x03")
            release.set()
            assert session.end() == 130
            assert "is paused" in session.screen and "chaoscore run continue r-" in session.screen
        assert paths == ["/slow"]
        done = desk.run("run", "continue", "last", "--policy", arguments[-1])
        assert done.code == 0
        assert paths == ["/slow", "/b"]


def test_ctrl_c_at_a_question_leaves_it_open(desk: Desk) -> None:
    desk.documents()
    with at_a_terminal(desk, *MAIN_JOB) as session:
        session.until("> ")
        session.type("\x03")
        assert session.end() == 130
        assert "chaoscore run continue r-" in session.screen
    assert desk.run("run", "continue", "last", "--root", ".", "--yes").code == 0


def test_the_time_to_wait_bounds_the_command_and_the_run_can_go_on(desk: Desk) -> None:
    with slow_server() as (port, paths, _, release):
        arguments = two_requests(desk, port)
        threading.Timer(1.0, release.set).start()
        paused = desk.run(*arguments, "--wait", "0.2")
        assert paused.code == 7 and "chaoscore run continue r-" in paused.out
        assert desk.run("run", "continue", "last", "--policy", arguments[-1]).code == 0
        assert paths == ["/slow", "/b"]
