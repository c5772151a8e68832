"""The MCP clients that can be set up: where each keeps its servers, and how one entry looks there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaoscore.cli.clients import jsonc, toml
from chaoscore.cli.clients.members import at
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.settings.paths import home

Scope = Literal["user", "project", "local"]


@dataclass(frozen=True, slots=True)
class Client:
    """``title`` for people, ``scopes`` with the default first, ``after`` what to do once the entry is there.

    ``project`` is what the client makes the folder of its project out of, in the arguments of a server: it starts
    servers there (``.``), or it replaces a variable. ``None`` where it knows no project.
    """

    name: str
    title: str
    scopes: tuple[Scope, ...]
    after: str
    typed: bool = True
    comments: bool = False
    takes_urls: bool = True
    project: str | None = "."


CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude-code", "Claude Code", ("user", "project", "local"), "start a new session; /mcp shows the server"
        ),
        Client(
            "claude-desktop",
            "Claude Desktop",
            ("user",),
            "quit Claude Desktop completely and start it again",
            typed=False,
            takes_urls=False,
            project=None,
        ),
        Client(
            "cursor",
            "Cursor",
            ("user", "project"),
            "restart Cursor; its MCP settings show the server",
            project="${workspaceFolder}",
        ),
        Client(
            "vscode",
            "VS Code",
            ("user", "project"),
            "run 'MCP: List Servers' from the command palette",
            comments=True,
            project="${workspaceFolder}",
        ),
        Client("codex", "Codex", ("user", "project"), "start a new session; /mcp shows the server", typed=False),
    )
}


@dataclass(frozen=True, slots=True)
class Target:
    """One entry in one file: ``keys`` lead to it."""

    client: Client
    path: Path
    keys: tuple[str, ...]

    def installed(self, text: str, entry: JsonObject) -> str:
        """The file's text with the entry. What somebody added to an earlier entry stays; its environment is merged."""
        if self.is_toml:
            return toml.set_table(text, self.keys, _merged(at(toml.read(text), self.keys), entry))
        found = at(jsonc.read(text, comments=self.client.comments), self.keys)
        return jsonc.set_member(text, self.keys, _merged(found, entry), comments=self.client.comments)

    def removed(self, text: str) -> str:
        """The file's text without the entry."""
        if self.is_toml:
            return toml.remove_table(text, self.keys)
        return jsonc.remove_member(text, self.keys, comments=self.client.comments)

    @property
    def is_toml(self) -> bool:
        return self.path.suffix == ".toml"


def target(
    client: Client, scope: Scope, name: str, environ: Mapping[str, str], cwd: Path, platform: str = sys.platform
) -> Target:
    """Where the entry of ``client`` stands. Raises ``InvalidInput`` for a scope the client does not have."""
    if scope not in client.scopes:
        scopes = ", ".join(client.scopes)
        raise InvalidInput(f"{client.title} has no scope {scope!r}; there are {scopes}", key="scope")
    match client.name, scope:
        case "claude-code", "project":
            return Target(client, cwd / ".mcp.json", ("mcpServers", name))
        case "claude-code", "local":
            return Target(client, _claude_code(environ), ("projects", str(cwd), "mcpServers", name))
        case "claude-code", _:
            return Target(client, _claude_code(environ), ("mcpServers", name))
        case "claude-desktop", _:
            folder = _application_data(environ, platform) / "Claude"
            return Target(client, folder / "claude_desktop_config.json", ("mcpServers", name))
        case "cursor", _:
            folder = cwd if scope == "project" else home(environ)
            return Target(client, folder / ".cursor" / "mcp.json", ("mcpServers", name))
        case "vscode", "project":
            return Target(client, cwd / ".vscode" / "mcp.json", ("servers", name))
        case "vscode", _:
            folder = _application_data(environ, platform) / "Code" / "User"
            return Target(client, folder / "mcp.json", ("servers", name))
        case _:
            own = Path(environ["CODEX_HOME"]) if environ.get("CODEX_HOME") else home(environ) / ".codex"
            folder = cwd / ".codex" if scope == "project" else own
            return Target(client, folder / "config.toml", ("mcp_servers", name))


def stdio_entry(client: Client, command: str, arguments: list[str], env: Mapping[str, str]) -> dict[str, Json]:
    """The entry that makes ``client`` start the server itself."""
    entry: dict[str, Json] = {"type": "stdio"} if client.typed else {}
    entry.update(command=command, args=list(arguments))
    if env:
        entry["env"] = dict(env)
    return entry


def url_entry(client: Client, url: str) -> dict[str, Json]:
    """The entry that makes ``client`` speak to a running HTTP server."""
    if not client.takes_urls:
        raise InvalidInput(f"{client.title} takes no address in its file; add it as a connector there", key="url")
    return {"type": "http", "url": url} if client.typed else {"url": url}


def _merged(found: Json, entry: JsonObject) -> JsonObject:
    if not is_object(found):
        return entry
    other = {"command", "args"} if "url" in entry else {"url"}
    kept = {key: value for key, value in found.items() if key not in other}
    env, new_env = kept.get("env"), entry.get("env")
    merged: dict[str, Json] = {**kept, **entry}
    if is_object(env) and is_object(new_env):
        merged["env"] = {**env, **new_env}
    return merged


def _claude_code(environ: Mapping[str, str]) -> Path:
    named = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(named) if named else home(environ)) / ".claude.json"


def _application_data(environ: Mapping[str, str], platform: str) -> Path:
    if platform == "darwin":
        return home(environ) / "Library" / "Application Support"
    if platform == "win32":
        return Path(environ.get("APPDATA") or home(environ) / "AppData" / "Roaming")
    base = environ.get("XDG_CONFIG_HOME", "")
    return Path(base) if os.path.isabs(base) else home(environ) / ".config"
