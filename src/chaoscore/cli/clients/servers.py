"""The two servers that a client can be made to start: their scripts, their names there, and where each is to work.

``known`` beside it knows the clients. Flags of ``chaoscore install`` that concern only one server are refused for the
other, so that nobody believes that a folder was opened or closed which was not.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaoscore.cli.clients.known import Client, Scope, stdio_entry, url_entry
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json
from chaoscore.settings.interaction import VARIABLES as INTERACTION_VARIABLES
from chaoscore.settings.sources import KNOWN_NAMES


@dataclass(frozen=True, slots=True)
class Server:
    """``title`` is the name of its entry in a client's file, ``variables`` the settings that it reads and ``page``
    where they are explained."""

    name: str
    title: str
    script: str
    variables: frozenset[str]
    page: str


CORE = Server("core", "chaos-core", "chaos-core-mcp", KNOWN_NAMES, "docs/settings.md")
INTERACTION = Server(
    "interaction", "chaos-interaction", "chaos-interaction-mcp", INTERACTION_VARIABLES, "docs/decisions.md"
)
CHOICES: Mapping[str, tuple[Server, ...]] = {
    "core": (CORE,),
    "interaction": (INTERACTION,),
    "both": (CORE, INTERACTION),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller asked for. Paths are as typed; ``env`` are ``NAME=VALUE``."""

    cwd: Path
    command: str | None = None
    url: str | None = None
    roots: Sequence[str] = ()
    data_dir: str | None = None
    repository: str | None = None
    env: Sequence[str] = field(default_factory=tuple)


def entries(servers: Sequence[Server], client: Client, scope: Scope, wanted: Wanted) -> list[dict[str, Json]]:
    """One entry per server, in order. Raises ``InvalidInput`` for what a server could not start with."""
    _require_fitting(servers, wanted)
    if wanted.url is not None:
        return [url_entry(client, wanted.url)]
    env = _environment(servers, wanted)
    return [_entry(server, client, scope, wanted, env) for server in servers]


def _require_fitting(servers: Sequence[Server], wanted: Wanted) -> None:
    both = len(servers) > 1
    if wanted.url is not None:
        if wanted.command or wanted.roots or wanted.data_dir or wanted.repository or wanted.env:
            raise InvalidInput("--url is for a server that already runs; its settings are given where it is started")
        if both:
            raise InvalidInput("--url is one server; install the other with a second command", key="url")
    if both and wanted.command is not None:
        raise InvalidInput("--command starts one server; say which with --server", key="command")
    if CORE not in servers:
        for given, flag in ((wanted.roots, "root"), (wanted.data_dir, "data-dir")):
            if given:
                raise InvalidInput(f"--{flag} is for --server core or both", key=flag)
    if INTERACTION not in servers and wanted.repository is not None:
        raise InvalidInput("--repo-root is for --server interaction or both", key="repo-root")


def _entry(server: Server, client: Client, scope: Scope, wanted: Wanted, env: Mapping[str, str]) -> dict[str, Json]:
    command, arguments = _command(server, scope, wanted.command)
    own = {name: value for name, value in env.items() if name in server.variables}
    if server is INTERACTION:
        arguments += ["--repo-root", _repository(client, scope, wanted)]
        return stdio_entry(client, command, arguments, own)
    if wanted.roots:
        own["CHAOS_CORE_FS_ROOTS"] = os.pathsep.join(str(_folder(wanted.cwd, root, "root")) for root in wanted.roots)
    if wanted.data_dir is not None:
        own["CHAOS_CORE_DATA_DIR"] = os.path.abspath(wanted.cwd / Path(wanted.data_dir).expanduser())
    return stdio_entry(client, command, arguments, own)


def _command(server: Server, scope: Scope, line: str | None) -> tuple[str, list[str]]:
    """The server's script: by its full path, because programs with windows know no PATH; shared files name it alone."""
    if line is not None:
        command, *arguments = shlex.split(line) or [""]
        if not command:
            raise InvalidInput("--command is empty", key="command")
        return command, arguments
    arguments = ["--stdio"] if server is CORE else []
    if scope == "project":
        return server.script, arguments
    script = Path(sys.executable).with_name(server.script)
    if not script.exists():
        raise InvalidInput(f"{str(script)!r} is not there; say what to start with --command", key="command")
    return str(script), arguments


def _repository(client: Client, scope: Scope, wanted: Wanted) -> str:
    """What ``--repo-root`` of the entry says: the client's word for its project, unless another folder was named."""
    if wanted.repository is None:
        if scope == "local":
            return str(wanted.cwd)
        if client.project is None:
            raise InvalidInput(
                f"{client.title} does not start servers in a project; name the repository with --repo-root",
                key="repo-root",
            )
        return client.project
    named = _folder(wanted.cwd, wanted.repository, "repo-root")
    if scope == "project" and client.project is not None and named.is_relative_to(wanted.cwd):
        inside = named.relative_to(wanted.cwd).as_posix()
        return client.project if inside == "." else f"{client.project}/{inside}"
    return str(named)


def _environment(servers: Sequence[Server], wanted: Wanted) -> dict[str, str]:
    known = frozenset().union(*(server.variables for server in servers))
    env: dict[str, str] = {}
    for text in wanted.env:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            pages = " and ".join(server.page for server in servers)
            raise InvalidInput(f"--env {name!r} is not a setting; see {pages}", key="env")
        env[name] = value
    return env


def _folder(cwd: Path, text: str, flag: str) -> Path:
    path = Path(os.path.abspath(cwd / Path(text).expanduser()))
    if not path.is_dir():
        raise InvalidInput(f"--{flag} {text!r} is not an existing folder", key=flag)
    return path
