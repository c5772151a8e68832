"""``chaoscore install`` and ``uninstall``: each client's own file, through the installed command."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import SCRIPTS, SERVER, Desk

FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
}
CLAUDE_CODE = """{
  "numStartups": 41,
  "projects": {"/x": {"history": ["é"]}},
  "mcpServers": {
    "other": {"command": "x"}
  }
}
"""
VSCODE = """{
\t// my servers
\t"servers": {
\t\t"other": {"type": "stdio", "command": "x"}, // keep
\t},
\t"inputs": []
}
"""
THEIRS = {
    "claude-code": CLAUDE_CODE,
    "claude-desktop": '{\n  "globalShortcut": "Ctrl+Space",\n  "mcpServers": {}\n}\n',
    "cursor": '{"mcpServers": {"other": {"url": "https://example.org/mcp"}}}',
    "vscode": VSCODE,
    "codex": 'model = "gpt"  # mine\n\n[mcp_servers.other]\ncommand = "x"\n',
}


def entry(client: str, path: Path, name: str = "chaos-core") -> dict[str, Any] | None:
    text = path.read_text("utf-8")
    if client == "codex":
        servers = tomllib.loads(text).get("mcp_servers", {})
    else:
        text = re.sub(r"//[^\n\"]*\n", "\n", text)
        text = re.sub(r",(\s*})", r"\1", text)
        servers = json.loads(text)["servers" if client == "vscode" else "mcpServers"]
    found = servers.get(name)
    return None if found is None else dict(found)


@pytest.mark.parametrize("client", FILES)
def test_a_client_gains_the_server_keeps_everything_else_and_loses_it_again(client: str, desk: Desk) -> None:
    path = desk.home / FILES[client]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(THEIRS[client], encoding="utf-8")
    (desk.work / "notes").mkdir()

    arguments = ("install", "--client", client, "--root", "notes", "--env", "CHAOS_CORE_LOG_LEVEL=warning")
    done = desk.run(*arguments)
    assert done.code == 0, done.err
    made = entry(client, path)
    assert made is not None
    assert (made["command"], made["args"]) == (SERVER, ["--stdio"])
    assert made["env"] == {"CHAOS_CORE_FS_ROOTS": str(desk.work / "notes"), "CHAOS_CORE_LOG_LEVEL": "warning"}
    backups = [other for other in path.parent.iterdir() if other.name.endswith(".bak")]
    assert [backup.read_text("utf-8") for backup in backups] == [THEIRS[client]]

    text = path.read_text("utf-8")
    again = desk.run(*arguments)
    assert again.code == 0 and "nothing to do" in again.out
    assert path.read_text("utf-8") == text

    gone = desk.run("uninstall", "--client", client)
    assert gone.code == 0
    assert entry(client, path) is None
    kept = path.read_text("utf-8")
    for piece in THEIRS[client].splitlines():
        assert piece.rstrip("{}, \n") in kept
    assert desk.run("uninstall", "--client", client).code == 0


@pytest.mark.parametrize("client", FILES)
def test_where_there_is_no_file_yet_one_is_made(client: str, desk: Desk) -> None:
    answer = desk.run("install", "--client", client, "--json").json()
    assert answer["changed"] is True and answer["backup"] is None
    assert answer["path"] == str(desk.home / FILES[client])
    assert entry(client, desk.home / FILES[client]) == answer["entries"]["chaos-core"]


@pytest.mark.parametrize("client", FILES)
def test_print_shows_what_would_be_written_and_writes_nothing(client: str, desk: Desk) -> None:
    done = desk.run("install", "--client", client, "--print")
    assert done.code == 0 and FILES[client] in done.err
    read = tomllib.loads(done.out) if client == "codex" else json.loads(done.out)
    assert SERVER in json.dumps(read)
    assert list(desk.home.iterdir()) == []


@pytest.mark.parametrize("client", FILES)
def test_a_file_that_is_malformed_is_left_alone(client: str, desk: Desk) -> None:
    path = desk.home / FILES[client]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"mcpServers": [,', encoding="utf-8")
    for command in ("install", "uninstall"):
        done = desk.run(command, "--client", client)
        assert done.code == 2 and "left alone" in done.err and str(path) in done.err
    assert path.read_text() == '{"mcpServers": [,'
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_shared_names_the_command_alone(desk: Desk) -> None:
    assert desk.run("install", "--client", "claude-code", "--scope", "project").code == 0
    made = json.loads((desk.work / ".mcp.json").read_text())
    assert made["mcpServers"]["chaos-core"] == {"type": "stdio", "command": "chaos-core-mcp", "args": ["--stdio"]}


def test_another_command_or_a_running_server_can_be_named(desk: Desk) -> None:
    line = "uvx --from chaos-core chaos-core-mcp"
    assert desk.run("install", "--client", "cursor", "--command", line).code == 0
    made = entry("cursor", desk.home / FILES["cursor"])
    assert made is not None and made["command"] == "uvx" and made["args"] == line.split()[1:]
    assert desk.run("install", "--client", "cursor", "--url", "http://127.0.0.1:3000/mcp").code == 0
    assert entry("cursor", desk.home / FILES["cursor"]) == {"type": "http", "url": "http://127.0.0.1:3000/mcp"}
    assert desk.run("install", "--client", "claude-desktop", "--url", "http://127.0.0.1:3000/mcp").code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--root", "nowhere"),
        ("--env", "PATH=/x"),
        ("--env", "CHAOS_CORE_STEPS_MAX"),
        ("--scope", "local"),
        ("--command", ""),
        ("--repo-root", "."),
        ("--server", "interaction", "--repo-root", "nowhere"),
        ("--server", "interaction", "--root", "."),
        ("--server", "interaction", "--data-dir", "."),
        ("--server", "interaction", "--env", "CHAOS_CORE_LOG_LEVEL=info"),
        ("--server", "both", "--command", "uvx chaos"),
        ("--server", "both", "--url", "http://127.0.0.1:3000/mcp"),
        ("--server", "both", "--name", "one"),
    ],
)
def test_what_the_server_could_not_start_with_is_not_written(arguments: tuple[str, ...], desk: Desk) -> None:
    assert desk.run("install", "--client", "cursor", *arguments).code == 2
    assert list(desk.home.iterdir()) == []


def test_what_is_installed_starts(desk: Desk) -> None:
    assert desk.run("install", "--client", "claude-desktop", "--data-dir", str(desk.data)).code == 0
    made = entry("claude-desktop", desk.home / FILES["claude-desktop"])
    assert made is not None
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    environ = {"HOME": str(desk.home), **made["env"]}
    done = desk.run(*made["args"], program=made["command"], stdin=json.dumps(hello) + "\n", environ=environ)
    answer = json.loads(done.out)
    assert done.code == 0 and answer["result"]["serverInfo"]["name"] == "chaos-core"
    assert desk.data.is_dir()


# -- the decision server ---------------------------------------------------------------------------------------------

DECISIONS = str(SCRIPTS / "chaos-interaction-mcp")
PROJECT = {"claude-code": ".", "cursor": "${workspaceFolder}", "vscode": "${workspaceFolder}", "codex": "."}


@pytest.mark.parametrize("client", FILES)
def test_both_servers_come_into_one_file_in_one_step_and_leave_it_one_by_one(client: str, desk: Desk) -> None:
    path = desk.home / FILES[client]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(THEIRS[client], encoding="utf-8")

    levels = ("--env", "CHAOS_INTERACTION_LOG_LEVEL=error", "--env", "CHAOS_CORE_LOG_LEVEL=warning")
    arguments = ("install", "--client", client, "--server", "both", "--repo-root", ".", *levels)
    done = desk.run(*arguments)
    assert done.code == 0 and "chaos-core and chaos-interaction are written" in done.out, done.err
    core, decisions = entry(client, path), entry(client, path, "chaos-interaction")
    assert core is not None and decisions is not None
    assert (core["command"], core["args"], core["env"]) == (SERVER, ["--stdio"], {"CHAOS_CORE_LOG_LEVEL": "warning"})
    assert (decisions["command"], decisions["args"]) == (DECISIONS, ["--repo-root", str(desk.work)])
    assert decisions["env"] == {"CHAOS_INTERACTION_LOG_LEVEL": "error"}
    backups = [other for other in path.parent.iterdir() if other.name.endswith(".bak")]
    assert [backup.read_text("utf-8") for backup in backups] == [THEIRS[client]]

    text = path.read_text("utf-8")
    again = desk.run(*arguments)
    assert again.code == 0 and "nothing to do: they were there already" in again.out
    assert path.read_text("utf-8") == text

    assert desk.run("uninstall", "--client", client, "--server", "interaction").code == 0
    assert entry(client, path, "chaos-interaction") is None and entry(client, path) == core
    assert desk.run("uninstall", "--client", client, "--server", "both").code == 0
    assert entry(client, path) is None
    kept = path.read_text("utf-8")
    for piece in THEIRS[client].splitlines():
        assert piece.rstrip("{}, \n") in kept


@pytest.mark.parametrize("client", PROJECT)
def test_without_a_repository_the_decision_server_works_in_the_project_that_the_client_has_open(
    client: str, desk: Desk
) -> None:
    assert desk.run("install", "--client", client, "--server", "interaction").code == 0
    made = entry(client, desk.home / FILES[client], "chaos-interaction")
    assert made is not None and made["args"] == ["--repo-root", PROJECT[client]]


def test_a_shared_file_names_the_repository_as_everybody_has_it(desk: Desk) -> None:
    (desk.work / "part").mkdir()
    for repository, argument in ((".", "${workspaceFolder}"), ("part", "${workspaceFolder}/part")):
        arguments = ("install", "--client", "vscode", "--scope", "project", "--server", "interaction")
        assert desk.run(*arguments, "--repo-root", repository).code == 0
        made = json.loads((desk.work / ".vscode/mcp.json").read_text())["servers"]["chaos-interaction"]
        assert made["command"] == "chaos-interaction-mcp" and made["args"] == ["--repo-root", argument]


def test_an_entry_for_one_folder_names_that_folder(desk: Desk) -> None:
    assert desk.run("install", "--client", "claude-code", "--scope", "local", "--server", "interaction").code == 0
    made = json.loads((desk.home / ".claude.json").read_text())["projects"][str(desk.work)]["mcpServers"]
    assert made["chaos-interaction"]["args"] == ["--repo-root", str(desk.work)]


def test_a_client_without_projects_is_told_which_repository(desk: Desk) -> None:
    refused = desk.run("install", "--client", "claude-desktop", "--server", "both")
    assert refused.code == 2 and "--repo-root" in refused.err
    assert list(desk.home.iterdir()) == []


def test_the_decision_server_that_is_installed_starts_and_works_in_its_repository(desk: Desk) -> None:
    install = ("install", "--client", "claude-desktop", "--server", "interaction", "--repo-root", ".")
    assert desk.run(*install).code == 0
    made = entry("claude-desktop", desk.home / FILES["claude-desktop"], "chaos-interaction")
    assert made is not None
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = {"name": "chaos_begin_command", "arguments": {"sourceCommand": "chaos:run"}}
    messages: list[dict[str, Any]] = [
        {"method": "initialize", "id": 1, "params": hello},
        {"method": "notifications/initialized"},
        {"method": "tools/call", "id": 2, "params": begin},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = desk.run(*made["args"], program=made["command"], stdin=lines, environ={"HOME": str(desk.home)})
    greeting, begun = (json.loads(line) for line in done.out.splitlines())
    assert done.code == 0 and greeting["result"]["serverInfo"]["name"] == "chaos-interaction"
    run = begun["result"]["structuredContent"]["data"]["commandRunId"]
    assert (desk.work / f".chaos/interactions/sessions/{run}.json").is_file()


def test_a_variable_that_the_client_did_not_replace_is_no_folder(desk: Desk) -> None:
    done = desk.run("--repo-root", "${workspaceFolder}", program=DECISIONS)
    assert done.code == 2 and "--repo-root" in done.err and "${workspaceFolder}" in done.err
    assert list(desk.work.iterdir()) == []
