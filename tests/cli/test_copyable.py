"""Suggested commands lead to where they were suggested: same data directory, policy, folders."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.settings import load_settings
from tests.cli.harness import SCRIPTS, SERVER, Desk
from tests.cli.test_server import HELLO

DATA = ("--data-dir", "/a b")


def test_a_command_is_quoted_for_a_shell_and_carries_what_it_takes() -> None:
    made = Copyable(DATA, ("--root", "/f"), ("/notes",))
    assert made("decide", "d-1") == "chaoscore decide d-1 --data-dir '/a b' --root /f"
    assert made("resume", "RUN-1") == "chaoscore resume RUN-1 --root /f"
    assert made("resolve", "r-1", "s1,2", "WORD") == "chaoscore resolve r-1 s1,2 WORD --data-dir '/a b'"
    assert made.going_on("r-1", ["/x; rm", "/notes"]) == (
        "chaoscore run continue r-1 --root '/x; rm' --root /notes --data-dir '/a b'"
    )
    assert shlex.split(made("decide", "d'1"))[2] == "d'1"


def test_where_every_default_holds_a_command_stays_short() -> None:
    assert PLAIN("decide", "d-1") == "chaoscore decide d-1"
    assert PLAIN.going_on("r-1") == "chaoscore run continue r-1"


@pytest.mark.parametrize(
    ("flags", "environ", "wanted"),
    [
        ({}, {}, ()),
        ({"data_dir": "{home}/.local/share/chaos-core"}, {}, ()),
        ({"data_dir": "{home}/d"}, {}, ("--data-dir", "{home}/d")),
        ({}, {"CHAOS_CORE_DATA_DIR": "{home}/d"}, ("--data-dir", "{home}/d")),
        ({"policy_path": "{home}/p.json"}, {}, ("--policy", "{home}/p.json")),
        (
            {"data_dir": "{home}/d", "policy_path": "{home}/p.json"},
            {},
            ("--data-dir", "{home}/d", "--policy", "{home}/p.json"),
        ),
        ({"data_dir": "{home}/d", "policy_path": "{home}/d/policy.json"}, {}, ("--data-dir", "{home}/d")),
    ],
)
def test_settings_know_which_flags_lead_to_them(
    tmp_path: Path, flags: dict[str, str], environ: dict[str, str], wanted: tuple[str, ...]
) -> None:
    home = str(tmp_path)
    given = {name: text.format(home=home) for name, text in flags.items()}
    around = {"HOME": home} | {name: text.format(home=home) for name, text in environ.items()}
    settings = load_settings(given, around, tmp_path)
    assert settings.copy_flags == tuple(part.format(home=home) for part in wanted)


SUGGESTED = re.compile(r"chaoscore (?:decide|resume|resolve|run|pin|audit|policy|sessions|locks) [^`'\n]*")


def test_every_command_that_a_command_suggests_leads_back_to_its_data_directory(desk: Desk) -> None:
    """Of a run that waits, through everything that shows it; the suggested command itself is then run as it stands."""
    kept, policy = desk.place / "a b", str(desk.policy(requireConfirmationFor=["fs.write_text"]))
    write = {"id": "s1", "capability": "fs.write_text", "arguments": {"path": str(desk.work / "x.txt"), "text": "x"}}
    flags = ("--data-dir", str(kept), "--policy", policy)
    plan = desk.plan(write)
    said = desk.run("achieve", "--plan", plan, "--root", ".", "--no-input", *flags).out
    label, decision = re.findall(r"\br-[0-9a-z]{16}\b", said)[0], re.findall(r"\bDEC-\S+", said)[0]
    for command in (("run", "list"), ("run", "show", label), ("decide",), ("decide", decision)):
        said += desk.run(*command, *flags).out
    told = desk.run("run", "show", label, *flags, "--json").json()
    said += str(told["decisions"][0]["answer_with"])
    found = SUGGESTED.findall(said)
    assert len(found) >= 5, said
    for line in found:
        assert shlex.quote(str(kept)).strip("'") in line or "--data-dir" in line, line
    continuing = f"chaoscore run continue {label} --root {desk.work} --data-dir '{kept}' --policy {policy}"
    assert continuing in said.replace("\n", " ")
    answered = desk.run(*shlex.split(told["decisions"][0]["answer_with"])[1:], "--approve-all", "--json").json()
    assert answered["status"] == "ANSWERED"
    done = desk.run(*shlex.split(answered["go_on_with"])[1:], "--no-input")
    assert done.code == 0 and (desk.work / "x.txt").read_text() == "x"


def test_an_agent_is_told_the_command_with_the_servers_data_directory(desk: Desk) -> None:
    """The person's terminal has nothing of the environment that a client gives its server."""
    policy = desk.policy(requireConfirmationFor=["fs.write_text"])
    write = {"id": "s1", "capability": "fs.write_text", "arguments": {"path": str(desk.work / "x.txt"), "text": "x"}}
    goal = {"name": "chaoscore_achieve", "arguments": {"steps": [write]}}
    lines = [HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    lines.append({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": goal})
    sent = "".join(json.dumps(line) + "\n" for line in lines)
    done = desk.run("--policy", str(policy), "--root", str(desk.work), program=SERVER, stdin=sent)
    told = next(line for line in map(json.loads, done.out.splitlines()) if line.get("id") == 2)
    envelope = told["result"]["structuredContent"]
    (decision,) = envelope["data"]["decisions"]
    command = f"chaoscore decide {decision['decision']} --data-dir {desk.data} --policy {policy}"
    assert decision["answer_with"] == command and command in envelope["nextAction"]
    environ = {name: value for name, value in desk.environ().items() if name != "CHAOS_CORE_DATA_DIR"}
    answered = desk.run(*shlex.split(command)[1:], "--deny-all", environ=environ)
    assert answered.code == 0 and "answered" in answered.out


def test_commands_about_the_interactions_folder_lead_back_to_it(desk: Desk) -> None:
    root = desk.place / "else where"
    refused = desk.run("sessions", "--cancel", "--root", str(root))
    assert refused.code == 2 and f"chaoscore sessions RUN --cancel --root '{root}'" in refused.err


def test_what_the_doctor_suggests_leads_back_to_the_folder_it_looked_at(desk: Desk) -> None:
    root = desk.place / "else where"
    server = str(SCRIPTS / "chaos-interaction-mcp")
    begin = {"sourceCommand": "chaos:apply", "changeId": "c1", "commandRunId": "RUN-1"}
    options = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
    ask = {"commandRunId": "RUN-1", "title": "Which?", "context": "C", "options": options}
    calls = [("chaos_begin_command", begin), ("chaos_create_decision", ask)]
    lines = [HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    for number, (name, arguments) in enumerate(calls, 2):
        params = {"name": name, "arguments": arguments}
        lines.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    sent = "".join(json.dumps(line) + "\n" for line in lines)
    assert desk.run("--root", str(root), program=server, stdin=sent).code == 0
    found = desk.run("doctor", "--root", str(root))
    assert f"chaoscore decide --root '{root}'" in " ".join(found.out.split()), found.out
    listed = desk.run("decide", "--root", str(root), "--json").json()["waiting"]
    assert [question["title"] for question in listed] == ["Which?"]
