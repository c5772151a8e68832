"""Every other command, through the installed script and a data directory of the test's own."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pwd
import sqlite3
import subprocess
from pathlib import Path

import pytest

from chaoscore.cli.commands.inspect import TOPICS
from chaoscore.cli.exits import MEANINGS, Exit
from chaoscore.cli.parser import chaoscore_parser, server_parser
from chaoscore.domain.json import JsonObject
from chaoscore.domain.principal import Principal
from tests.app.harness import Bench, bench, step, write_policy
from tests.cli.harness import (
    CHAOSCORE,
    SERVER,
    Desk,
    at_a_terminal,
    needs_modes,
    needs_mount,
    only_read,
    without_powers,
)

# -- help and errors -------------------------------------------------------------------------------------------------


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found += parsers(child)
    return found


def test_alone_it_shows_what_it_can_do(desk: Desk) -> None:
    done = desk.run()
    assert done.code == 0
    for command in (
        "achieve",
        "run",
        "resolve",
        "inspect",
        "memory",
        "policy",
        "audit",
        "serve",
        "install",
        "uninstall",
    ):
        assert f"    {command} " in done.out
    assert not desk.data.exists()


@pytest.mark.parametrize("parser", [chaoscore_parser(), *parsers(chaoscore_parser())[1:], server_parser()])
def test_every_command_says_what_it_does_and_every_option_what_it_is_for(parser: argparse.ArgumentParser) -> None:
    assert parser.description
    for action in parser._actions:
        assert action.help or action.metavar, f"{parser.prog} {action.option_strings}"


@pytest.mark.parametrize("parser", parsers(chaoscore_parser())[1:], ids=lambda p: p.prog)
def test_every_command_of_the_first_level_has_examples_that_it_understands(parser: argparse.ArgumentParser) -> None:
    import shlex

    if parser.prog.count(" ") > 1:
        return
    assert parser.epilog and "examples:" in parser.epilog
    lines = [line.strip() for line in parser.epilog.splitlines() if line.startswith("  chaoscore ")]
    assert lines
    for line in lines:
        chaoscore_parser().parse_args(shlex.split(line)[1:])


def test_versions_are_told(desk: Desk) -> None:
    from chaoscore import __version__

    assert desk.run("--version").out == f"chaoscore {__version__}\n"
    assert desk.run("--version", program=SERVER).out == f"chaos-core-mcp {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("achive",), "did you mean 'achieve'?"),
        (("inspect", "helth"), "did you mean 'health'?"),
        (("run", "list", "--limit", "0"), "from 1 to 100"),
        (("run", "list", "--lim", "5"), "--lim"),
        (("achieve", "x", "--wait", "soon"), "seconds"),
        (("achieve", "x", "--yes", "--no-input"), "not allowed with"),
        (("install",), "--client"),
        (("inspect", "health", "x"), "takes no name"),
    ],
)
def test_a_wrong_command_line_is_explained_in_two_lines(arguments: tuple[str, ...], says: str, desk: Desk) -> None:
    done = desk.run(*arguments)
    assert (done.code, done.out) == (2, "")
    error, help_line = done.err.strip().split("\n")
    assert error.startswith("error: ") and says in error
    assert help_line.startswith("help: ")


def test_a_refused_setting_ends_with_its_own_code_and_no_traceback(desk: Desk) -> None:
    desk.extra["CHAOS_CORE_PROVIDER"] = "oracle"
    for program, arguments in ((CHAOSCORE, ("inspect",)), (SERVER, ())):
        done = desk.run(*arguments, program=program)
        assert (done.code, done.out) == (5, "")
        assert "CHAOS_CORE_PROVIDER" in done.err and "openai, anthropic" in done.err


def test_an_error_is_one_json_document_where_json_is_asked_for(desk: Desk) -> None:
    done = desk.run("run", "show", "r-nothing", "--json")
    assert done.code == 1
    assert done.json()["error"]["code"] == "NOT_FOUND"


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Exit)


# -- surroundings ----------------------------------------------------------------------------------------------------


def test_without_home_and_in_the_root_folder_it_works(desk: Desk) -> None:
    environ = {"PATH": os.environ["PATH"]}
    done = desk.run("inspect", "--data-dir", str(desk.data), environ=environ, cwd=Path("/"))
    assert done.code == 0 and 'status: "ok"' in done.out
    own = pwd.getpwuid(os.getuid()).pw_dir
    where = desk.run("policy", "path", environ=environ, cwd=Path("/"))
    assert where.out == f"{own}/.local/share/chaos-core/policy.json\n"


def test_a_data_directory_that_cannot_be_is_a_clear_error(desk: Desk) -> None:
    (desk.place / "file").write_text("")
    done = desk.run("inspect", "--data-dir", str(desk.place / "file" / "data"))
    assert done.code == 5 and "is not a folder" in done.err


@needs_mount
@pytest.mark.parametrize("program", [(CHAOSCORE, "inspect", "--json"), (CHAOSCORE, "memory", "list"), (SERVER,)])
@pytest.mark.parametrize("begun", [True, False], ids=["in use", "empty"])
def test_a_data_directory_on_a_read_only_file_system_is_told_as_such(
    program: tuple[str, ...], begun: bool, desk: Desk
) -> None:
    desk.data.mkdir()
    if begun:
        assert desk.run("memory", "set", "k", "v").code == 0
    before = {path.name: path.read_bytes() for path in desk.data.iterdir()}
    done = desk.run(*program[1:], program=program[0], around=only_read(desk.data))
    assert done.code == 8 and str(desk.data) in done.err and "can only be read" in done.err
    if "--json" in program:
        assert done.json()["error"]["code"] == "READ_ONLY"
    else:
        assert done.out == "" and "must be writable" in done.err
    assert {path.name: path.read_bytes() for path in desk.data.iterdir()} == before


@needs_mount
def test_a_data_directory_that_cannot_be_made_is_told_by_its_cause(desk: Desk) -> None:
    done = desk.run("inspect", "--data-dir", str(desk.work / "a" / "b"), "--json", around=only_read(desk.work))
    assert done.code == 8 and done.json()["error"]["code"] == "READ_ONLY"
    done = desk.run("inspect", "--data-dir", "/proc/chaos/data", "--json")
    assert done.code == 8 and done.json()["error"]["code"] in ("READ_ONLY", "PERMISSION", "IO_ERROR")


@needs_modes
@pytest.mark.parametrize(("mode", "code"), [(0o500, "READ_ONLY"), (0o000, "PERMISSION")])
def test_a_data_directory_whose_mode_forbids_it_is_told_as_such(mode: int, code: str, desk: Desk) -> None:
    assert desk.run("memory", "set", "k", "v").code == 0
    desk.data.chmod(mode)
    try:
        done = desk.run("memory", "get", "k", "--json", around=without_powers())
    finally:
        desk.data.chmod(0o700)
    assert done.code == 8 and done.json()["error"]["code"] == code


def test_an_empty_folder_can_be_the_data_directory(desk: Desk) -> None:
    desk.data.mkdir()
    assert desk.run("inspect").code == 0
    assert json.loads((desk.data / "policy.json").read_text())["httpAllowedDomains"] == []


def test_a_reader_who_goes_away_is_no_error(desk: Desk) -> None:
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        [CHAOSCORE, "inspect", "capabilities"],
        stdout=write,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=desk.environ(),
        cwd=desk.work,
        text=True,
    )
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, "")


def test_no_color_takes_every_colour_away(desk: Desk) -> None:
    with at_a_terminal(desk, "inspect", "capabilities") as session:
        assert session.end() == 0
        assert "\x1b[32m" in session.raw
    desk.extra["NO_COLOR"] = "1"
    with at_a_terminal(desk, "inspect", "capabilities") as session:
        assert session.end() == 0
        assert "\x1b[3" not in session.raw


def test_a_working_directory_that_is_gone_is_a_clear_error(desk: Desk) -> None:
    gone = desk.place / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["/bin/sh", "-c", f'cd "{gone}" && rmdir "{gone}" && exec "{CHAOSCORE}" inspect'],
        env=desk.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5 and "working directory is gone" in done.stderr


def test_a_dotenv_of_somebody_elses_folder_brings_no_policy_and_opens_nothing(desk: Desk) -> None:
    for line in (
        "CHAOS_CORE_POLICY_PATH=policy.json",
        "CHAOS_CORE_FS_ROOTS=/",
        "OPENAI_BASE_URL=https://elsewhere.example",
    ):
        (desk.work / ".env").write_text(line + "\n")
        for program, arguments in ((CHAOSCORE, ("inspect",)), (SERVER, ())):
            done = desk.run(*arguments, program=program)
            assert (done.code, done.out) == (5, ""), line
            assert line.split("=")[0] in done.err and str(desk.work / ".env") in done.err
    (desk.work / ".env").write_text("CHAOS_CORE_LOG_LEVEL=error\n")
    assert desk.run("inspect").code == 0


# -- looking ---------------------------------------------------------------------------------------------------------


def made_run(desk: Desk) -> str:
    desk.documents()
    plan = desk.plan({"id": "a", "capability": "fs.list", "arguments": {"path": "docs"}})
    done = desk.run("achieve", "--plan", plan, "--root", ".", "--json")
    assert done.code == 0, done.err
    return str(done.json()["data"]["label"])


def test_every_topic_is_shown(desk: Desk) -> None:
    label = made_run(desk)
    plan = desk.run("run", "list", "--json").json()["runs"][0]["plan_id"]
    names = {"plan": [plan], "run": ["last"], "audit": [label]}
    for number, topic in enumerate(TOPICS):
        flags = ["--json"] if number % 3 == 0 else []
        done = desk.run("inspect", topic, *names.get(topic, []), *flags)
        assert done.code == 0, topic
        assert done.json()["ok"] is True if flags else done.out.strip(), topic


def test_runs_are_listed_shown_and_ended_by_any_of_their_names(desk: Desk) -> None:
    label = made_run(desk)
    listed = desk.run("run", "list", "--json").json()["runs"]
    assert [run["label"] for run in listed] == [label]
    names = (label, "last", listed[0]["run_id"], listed[0]["plan_id"])
    shown = [desk.run("run", "show", name, "--json").json() for name in names]
    assert all(run["label"] == label for run in shown)
    assert "docs/one.md" in desk.run("run", "show", "last", "--step", "a").out
    assert desk.run("run", "show", "last", "--step", "zz").code == 1
    assert desk.run("run", "cancel", "last").code == 1  # it had ended
    assert desk.run("run", "show", "r-unknown").code == 1


def test_a_waiting_run_can_be_ended_for_good(desk: Desk) -> None:
    write = {"id": "w", "capability": "fs.write_text", "arguments": {"path": "a.txt", "text": "x"}}
    assert desk.run("achieve", "--plan", desk.plan(write), "--root", ".", "--no-input").code == 3
    assert desk.run("run", "cancel", "last").code == 0
    assert desk.run("run", "continue", "last", "--root", ".", "--yes").code == 1
    assert list(desk.work.iterdir()) == []


# -- memory ----------------------------------------------------------------------------------------------------------


def test_memories_are_kept_found_shown_and_forgotten(desk: Desk) -> None:
    assert desk.run("memory", "list").code == 0
    assert desk.run("memory", "set", "team.city", "we meet in 東京 on Mondays", "--tag", "team").code == 0
    assert desk.run("memory", "set", "limits", '{"rpm": 60}', "--as-json").code == 0
    assert desk.run("memory", "set", "limits", "-", "--as-json", stdin='{"rpm": 90}').code == 0
    found = desk.run("memory", "search", "東京", "--json").json()["memories"]
    assert [memory["key"] for memory in found] == ["team.city"]
    got = desk.run("memory", "get", "limits", "--history", "--json").json()
    assert got["memory"]["value"] == {"rpm": 90} and got["history"][0]["value"] == {"rpm": 60}
    assert "team.city" in desk.run("memory", "list", "--tag", "team").out
    conflict = desk.run("memory", "set", "limits", "x", "--expect-version", "1")
    assert conflict.code == 1
    assert desk.run("memory", "forget", "limits").code == 0
    assert desk.run("memory", "forget", "limits").code == 1
    assert desk.run("memory", "get", "limits").code == 1
    assert desk.run("memory", "set", "k", "{", "--as-json").code == 2


# -- policy ----------------------------------------------------------------------------------------------------------


def test_a_policy_that_is_understood_is_said_to_be(desk: Desk) -> None:
    done = desk.run("policy", "check", str(desk.policy()))
    assert done.code == 0 and "understood in full" in done.out
    assert not desk.data.exists()


def test_every_fault_of_a_policy_is_listed_with_what_to_write(desk: Desk) -> None:
    path = desk.policy(deniedCapability=[], httpAllowedDomains="x", deniedCapabilities=["fs.wirte_text"])
    done = desk.run("policy", "check", str(path))
    assert done.code == 5
    for shown in (str(path), "'deniedCapabilities'", "must be a list", "'fs.write_text'"):
        assert shown in done.err, shown
    assert "httpAllowedDomains: must be a list of texts, not string" in done.err
    assert "deniedCapabilities[0]: 'fs.wirte_text' is not" in done.err
    answer = desk.run("policy", "check", str(path), "--json").json()
    assert len(answer["error"]["details"]["faults"]) == 3
    assert desk.run("inspect", "--policy", str(path)).code == 5


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"requireConfirmationFor": ["fs.list", "fs.lst"]}, "requireConfirmationFor[1]: 'fs.lst' is not a registered"),
        ({"allowedCapabilities": 1}, "allowedCapabilities: must be a list of texts, not integer"),
        ({"approvalMode": "robot"}, "approvalMode: must be 'caller' or 'human', not 'robot'"),
        ({"approvalDoors": []}, "approvalDoors: must name at least one of"),
        ({"httpAllowPrivate": ["a"]}, "httpAllowPrivate[0]: 'a' must name a port"),
    ],
)
def test_a_single_fault_of_a_policy_is_told_once(changes: dict[str, object], says: str, desk: Desk) -> None:
    done = desk.run("policy", "check", str(desk.policy(**changes)))
    assert done.code == 5
    assert done.err.count(says) == 1 and done.err.count(says.partition(":")[0]) == 1


def test_a_policy_that_is_not_there_is_told_apart_from_one_that_is_not_made_yet(desk: Desk) -> None:
    assert "first start makes one" in desk.run("policy", "check").err
    assert desk.run("policy", "show").code == 0
    assert desk.run("policy", "check").code == 0
    (desk.data / "policy.json").unlink()
    gone = desk.run("inspect")
    assert gone.code == 5 and "policy.json" in gone.err
    assert not (desk.data / "policy.json").exists()


def test_policy_explains_its_verdict_and_every_rule_that_spoke(desk: Desk) -> None:
    policy = desk.policy(httpAllowedDomains=["example.org"], requireConfirmationFor=["http.*"])
    asked = ("policy", "explain", "http.request", "--policy", str(policy))
    allowed = desk.run(*asked, "--url", "https://example.org/x")
    assert (
        allowed.out.startswith("REQUIRE_APPROVAL  http.request") and "requireConfirmationFor[0]: http.*" in allowed.out
    )
    denied = desk.run(*asked, "--url", "https://evil.example/", "--json").json()
    assert denied["verdict"]["effect"] == "DENY"
    unknown = desk.run("policy", "explain", "http.reqest", "--policy", str(policy))
    assert unknown.code == 1 and "http.request" in unknown.err


# -- audit -----------------------------------------------------------------------------------------------------------


def test_an_audit_that_holds_is_verified_and_read(desk: Desk) -> None:
    label = made_run(desk)
    verified = desk.run("audit", "verify", "--json").json()
    assert verified["ok"] is True and verified["events"] > 4
    events = desk.run("audit", "tail", "--run", "last", "--json").json()["events"]
    assert events and all(event["run"] == label for event in events)
    assert "run-completed" in desk.run("audit", "tail").out


def test_an_audit_that_somebody_altered_is_found_out(desk: Desk) -> None:
    made_run(desk)
    with sqlite3.connect(desk.data / "chaoscore.db") as database:
        guards = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'")
        for (guard,) in guards.fetchall():
            database.execute(f"DROP TRIGGER {guard}")
        database.execute("DELETE FROM audit WHERE seq = 3")
    database.close()
    done = desk.run("audit", "verify")
    assert done.code == 1 and "not whole" in done.err
    answer = desk.run("audit", "verify", "--json").json()
    assert answer["ok"] is False and answer["at"] == 3


# -- unknown outcomes ------------------------------------------------------------------------------------------------

EXPLODE = step("boom", "test.explode")


def unknown_run(desk: Desk, principal: Principal) -> None:
    """A run whose only action ended without anybody knowing whether it happened."""

    async def make() -> None:
        async with bench(desk.place) as kernel:
            caller = Bench(kernel.kernel, kernel.world, principal)
            answer = await caller.execute(await caller.plan(EXPLODE))
            assert answer["status"] == "NEEDS_ATTENTION", answer

    write_policy(desk.place)
    asyncio.run(make())


def known(desk: Desk) -> JsonObject:
    shown = desk.run("run", "show", "last", "--json", "--policy", str(desk.place / "policy.json")).json()
    assert isinstance(shown, dict)
    return shown


def me() -> Principal:
    return Principal("local", str(os.getuid()))


@pytest.mark.parametrize(("word", "state"), [("happened", "succeeded"), ("give-up", "failed"), ("retry", "pending")])
def test_a_persons_word_settles_an_unknown_outcome(word: str, state: str, desk: Desk) -> None:
    unknown_run(desk, me())
    policy = ("--policy", str(desk.place / "policy.json"))
    assert known(desk)["status"] == "needs-attention"
    assert desk.run("resolve", "last", "boom", word, *policy).code == 0
    steps = known(desk)["steps"]
    assert isinstance(steps, list) and steps[0]["state"] == state
    again = desk.run("resolve", "last", "boom", word, *policy)
    assert again.code == 1 and "ILLEGAL" not in again.out


def test_a_person_is_shown_what_is_known_and_asked(desk: Desk) -> None:
    unknown_run(desk, me())
    with at_a_terminal(desk, "resolve", "last", "--policy", str(desk.place / "policy.json")) as session:
        asked = session.until("> ")
        for shown in ("boom", "test.explode", "arguments", "look at the thing itself", "give-up", "happened"):
            assert shown in asked
        session.type("h\n")
        assert session.end() == 0
        assert "achieved" in session.screen


def test_nobody_is_asked_where_nobody_is(desk: Desk) -> None:
    unknown_run(desk, me())
    policy = ("--policy", str(desk.place / "policy.json"))
    done = desk.run("resolve", "last", *policy)
    assert done.code == 4 and "boom" in done.out
    assert desk.run("resolve", "last", "boom", *policy).code == 2
    assert desk.run("resolve", "last", "boom,x", "retry", *policy).code == 2
    assert desk.run("resolve", "last", "nowhere", "retry", *policy).code == 1


def test_the_operator_answers_for_a_caller_whose_id_is_stored_nowhere(desk: Desk) -> None:
    unknown_run(desk, Principal("anonymous"))
    policy = ("--policy", str(desk.place / "policy.json"))
    events = desk.run("audit", "tail", "--json", *policy).json()["events"]
    label = next(event["run"] for event in events if event["run"])
    assert desk.run("run", "list", "--json", *policy).json()["runs"] == []
    assert desk.run("resolve", label, "boom", "give-up", *policy).code == 0
    assert desk.run("run", "show", label, "--json", *policy).json()["steps"][0]["state"] == "failed"
