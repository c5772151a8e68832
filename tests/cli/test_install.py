"""``chaoscore install`` and ``uninstall``: each client's own file, through the installed command."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import SERVER, Desk

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


def entry(client: str, path: Path) -> dict[str, Any] | None:
    text = path.read_text("utf-8")
    if client == "codex":
        servers = tomllib.loads(text).get("mcp_servers", {})
    else:
        text = re.sub(r"//[^\n\"]*\n", "\n", text)
        text = re.sub(r",(\s*})", r"\1", text)
        servers = json.loads(text)["servers" if client == "vscode" else "mcpServers"]
    found = servers.get("chaos-core")
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
    assert entry(client, desk.home / FILES[client]) == answer["entry"]


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
