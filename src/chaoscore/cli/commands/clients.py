"""``chaoscore install`` and ``uninstall``: the servers' entries in an MCP client's configuration."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import examples
from chaoscore.domain.errors import InvalidInput

if TYPE_CHECKING:
    from chaoscore.cli.clients.file import Edit
    from chaoscore.cli.clients.known import Client, Scope, Target
    from chaoscore.cli.clients.servers import Server
    from chaoscore.domain.json import Json

CLIENT_NAMES = ("claude-code", "claude-desktop", "cursor", "vscode", "codex")
SERVER_NAMES = ("core", "interaction", "both")
SCOPES = ("user", "project", "local")

INSTALL_EXAMPLES = examples(
    ("chaoscore install --client claude-code --root ~/notes", "for every project of yours; fs.* may touch ~/notes"),
    ("chaoscore install --client vscode --scope project", "in .vscode/mcp.json of this folder, to be shared"),
    ("chaoscore install --client claude-code --server both", "the kernel, and decisions of whatever project is open"),
    ("chaoscore install --client codex --print", "show what would be written and where, change nothing"),
    ("chaoscore install --client cursor --url http://127.0.0.1:3000/mcp", "a server that already runs"),
)
UNINSTALL_EXAMPLES = examples(("chaoscore uninstall --client claude-code", "take the entry out, leave everything else"))


def configure_install(parser: argparse.ArgumentParser) -> None:
    parser.epilog = INSTALL_EXAMPLES
    _which(parser)
    parser.add_argument("--print", dest="only_print", action="store_true", help="write nothing, show what would be")
    what = parser.add_argument_group("what the client starts")
    what.add_argument(
        "--root", dest="roots", action="append", default=[], metavar="DIR", help="core: a folder for fs.* (repeat)"
    )
    what.add_argument("--data-dir", dest="server_data_dir", metavar="DIR", help="core: its data directory")
    what.add_argument(
        "--repo-root", dest="repository", metavar="DIR", help="interaction: the repository (the client's project)"
    )
    what.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="another setting (repeat)")
    what.add_argument("--command", dest="server_command", metavar="LINE", help="start this instead, e.g. through uvx")
    what.add_argument("--url", metavar="URL", help="speak to a running HTTP server instead of starting one")
    _common(parser)


def configure_uninstall(parser: argparse.ArgumentParser) -> None:
    parser.epilog = UNINSTALL_EXAMPLES
    _which(parser)
    _common(parser)


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--client", required=True, choices=CLIENT_NAMES, metavar="CLIENT", help=", ".join(CLIENT_NAMES))
    parser.add_argument(
        "--server",
        choices=SERVER_NAMES,
        default="core",
        metavar="SERVER",
        help="core (default): goals, plans and runs; interaction: human decisions in a repository; both",
    )
    parser.add_argument("--scope", choices=SCOPES, metavar="SCOPE", help="user (default), project or local")
    parser.add_argument(
        "--name", metavar="NAME", help="the server's name there (chaos-core, chaos-interaction); for one server"
    )


def _common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("common options")
    group.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    group.add_argument("--json", action="store_true", help="answer with one JSON document on standard output")


@dataclass(frozen=True, slots=True)
class _Choice:
    """The servers that were asked for, and where the entry of each stands; all in one file."""

    client: Client
    scope: Scope
    servers: tuple[Server, ...]
    targets: tuple[Target, ...]

    @property
    def names(self) -> str:
        return " and ".join(target.keys[-1] for target in self.targets)


def install(call: Call) -> int:
    from chaoscore.cli.clients.file import edit
    from chaoscore.cli.clients.servers import Wanted, entries

    choice, args = _choice(call), call.args
    wanted = Wanted(
        call.cwd, args.server_command, args.url, args.roots, args.server_data_dir, args.repository, args.env
    )
    made = entries(choice.servers, choice.client, choice.scope, wanted)

    def installed(text: str) -> str:
        for target, entry in zip(choice.targets, made, strict=True):
            text = target.installed(text, entry)
        return text

    if args.only_print:
        return _print(call, choice, installed(""), made)
    done = edit(choice.targets[0].path, installed)
    words = "added to" if done.backup is None else "written to"
    _tell(call, done, f"{choice.names} {_are(choice)} {words} {done.path}", f"{_it(choice)} there already")
    call.terminal.show(f"next: {choice.client.after}")
    _answer(call, choice, done, made)
    return Exit.OK


def uninstall(call: Call) -> int:
    from chaoscore.cli.clients.file import edit

    choice = _choice(call)

    def removed(text: str) -> str:
        for target in choice.targets:
            text = target.removed(text)
        return text

    done = edit(choice.targets[0].path, removed)
    _tell(call, done, f"{choice.names} {_are(choice)} taken out of {done.path}", f"{_it(choice)} not there")
    _answer(call, choice, done, [None] * len(choice.targets))
    return Exit.OK


def _choice(call: Call) -> _Choice:
    from chaoscore.cli.clients.known import CLIENTS, target
    from chaoscore.cli.clients.servers import CHOICES

    client, servers = CLIENTS[call.args.client], CHOICES[call.args.server]
    if call.args.name is not None and len(servers) > 1:
        raise InvalidInput("--name names one server; say which with --server", key="name")
    scope: Scope = call.args.scope or client.scopes[0]
    names = [call.args.name or server.title for server in servers]
    targets = tuple(target(client, scope, name, call.environ, call.cwd) for name in names)
    return _Choice(client, scope, servers, targets)


def _print(call: Call, choice: _Choice, text: str, made: Sequence[dict[str, Json]]) -> int:
    path = choice.targets[0].path
    if call.terminal.as_json:
        entries = _by_name(choice, made)
        call.terminal.answer({"client": choice.client.name, "path": str(path), "text": text, "entries": entries})
        return Exit.OK
    sys.stderr.write(f"for {choice.client.title}, in {path}:\n")
    call.terminal.write(text)
    return Exit.OK


def _are(choice: _Choice) -> str:
    return "are" if len(choice.targets) > 1 else "is"


def _it(choice: _Choice) -> str:
    return "they were" if len(choice.targets) > 1 else "it was"


def _tell(call: Call, done: Edit, words: str, not_needed: str) -> None:
    call.terminal.show(words if done.changed else f"nothing to do: {not_needed} ({done.path})")
    if done.backup is not None:
        call.terminal.show(f"the file as it was: {done.backup}")


def _answer(call: Call, choice: _Choice, done: Edit, made: Sequence[dict[str, Json] | None]) -> None:
    if call.terminal.as_json:
        call.terminal.answer(
            {
                "client": choice.client.name,
                "path": str(done.path),
                "changed": done.changed,
                "backup": None if done.backup is None else str(done.backup),
                "entries": _by_name(choice, made),
            }
        )


def _by_name(choice: _Choice, made: Sequence[dict[str, Json] | None]) -> dict[str, Json]:
    found = {target.keys[-1]: entry for target, entry in zip(choice.targets, made, strict=True)}
    copied: dict[str, Json] = json.loads(json.dumps(found))
    return copied
