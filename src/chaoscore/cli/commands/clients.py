"""``chaoscore install`` and ``uninstall``: the server's entry in an MCP client's configuration."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import examples
from chaoscore.domain.errors import InvalidInput

if TYPE_CHECKING:
    from chaoscore.cli.clients.known import Target
    from chaoscore.domain.json import JsonObject

CLIENT_NAMES = ("claude-code", "claude-desktop", "cursor", "vscode", "codex")
SCOPES = ("user", "project", "local")
SERVER_SCRIPT = "chaos-core-mcp"

INSTALL_EXAMPLES = examples(
    ("chaoscore install --client claude-code --root ~/notes", "for every project of yours; fs.* may touch ~/notes"),
    ("chaoscore install --client vscode --scope project", "in .vscode/mcp.json of this folder, to be shared"),
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
        "--root", dest="roots", action="append", default=[], metavar="DIR", help="a folder for fs.* (repeat)"
    )
    what.add_argument("--data-dir", dest="server_data_dir", metavar="DIR", help="the server's data directory")
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
    parser.add_argument("--scope", choices=SCOPES, metavar="SCOPE", help="user (default), project or local")
    parser.add_argument("--name", default="chaos-core", metavar="NAME", help="the server's name there (chaos-core)")


def _common(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("common options")
    group.add_argument("--debug", action="store_true", help="show the traceback of an unexpected error")
    group.add_argument("--json", action="store_true", help="answer with one JSON document on standard output")


def install(call: Call) -> int:
    from chaoscore.cli.clients.file import edit

    target, scope = _target(call)
    entry = _entry(call, target, scope)
    if call.args.only_print:
        return _print(call, target, entry)
    done = edit(target.path, lambda text: target.installed(text, entry))
    words = "added to" if done.backup is None else "written to"
    _tell(call, target, done.changed, f"{call.args.name} is {words} {target.path}", "it was there already")
    if done.backup is not None:
        call.terminal.show(f"the file as it was: {done.backup}")
    call.terminal.show(f"next: {target.client.after}")
    _answer(call, target, done.changed, done.backup, entry)
    return Exit.OK


def uninstall(call: Call) -> int:
    from chaoscore.cli.clients.file import edit

    target, _ = _target(call)
    done = edit(target.path, target.removed)
    _tell(call, target, done.changed, f"{call.args.name} is taken out of {target.path}", "it was not there")
    if done.backup is not None:
        call.terminal.show(f"the file as it was: {done.backup}")
    _answer(call, target, done.changed, done.backup, None)
    return Exit.OK


def _target(call: Call) -> tuple[Target, str]:
    from chaoscore.cli.clients.known import CLIENTS, target

    client = CLIENTS[call.args.client]
    scope = call.args.scope or client.scopes[0]
    return target(client, scope, call.args.name, call.environ, call.cwd), scope


def _entry(call: Call, target: Target, scope: str) -> JsonObject:
    from chaoscore.cli.clients.known import stdio_entry, url_entry

    args = call.args
    if args.url is not None:
        if args.server_command or args.roots or args.server_data_dir or args.env:
            raise InvalidInput("--url is for a server that already runs; its settings are given where it is started")
        return url_entry(target.client, args.url)
    if args.server_command is not None:
        command, *arguments = shlex.split(args.server_command) or [""]
        if not command:
            raise InvalidInput("--command is empty", key="command")
    else:
        command, arguments = _command(scope), ["--stdio"]
    return stdio_entry(target.client, command, arguments, _env(call))


def _command(scope: str) -> str:
    """The server's script: by its full path, because programs with windows know no PATH; shared files name it alone."""
    if scope == "project":
        return SERVER_SCRIPT
    script = Path(sys.executable).with_name(SERVER_SCRIPT)
    if not script.exists():
        raise InvalidInput(f"{str(script)!r} is not there; say what to start with --command", key="command")
    return str(script)


def _env(call: Call) -> dict[str, str]:
    from chaoscore.settings.sources import KNOWN_NAMES

    env: dict[str, str] = {}
    for text in call.args.env:
        name, equals, value = text.partition("=")
        if not equals or name not in KNOWN_NAMES:
            raise InvalidInput(f"--env {name!r} is not a setting; docs/settings.md lists them", key="env")
        env[name] = value
    roots = [str(_folder(call, root)) for root in call.args.roots]
    if roots:
        env["CHAOS_CORE_FS_ROOTS"] = os.pathsep.join(roots)
    if call.args.server_data_dir is not None:
        env["CHAOS_CORE_DATA_DIR"] = os.path.abspath(call.cwd / Path(call.args.server_data_dir).expanduser())
    return env


def _folder(call: Call, text: str) -> Path:
    path = Path(os.path.abspath(call.cwd / Path(text).expanduser()))
    if not path.is_dir():
        raise InvalidInput(f"--root {text!r} is not an existing folder", key="root")
    return path


def _print(call: Call, target: Target, entry: JsonObject) -> int:
    from chaoscore.cli.clients import jsonc, toml

    nested = (
        toml.set_table("", target.keys, entry)
        if target.is_toml
        else jsonc.set_member("", target.keys, entry, comments=False)
    )
    if call.terminal.as_json:
        call.terminal.answer({"client": target.client.name, "path": str(target.path), "text": nested, "entry": entry})
        return Exit.OK
    sys.stderr.write(f"for {target.client.title}, in {target.path}:\n")
    call.terminal.write(nested)
    return Exit.OK


def _tell(call: Call, target: Target, changed: bool, done: str, not_needed: str) -> None:
    call.terminal.show(done if changed else f"nothing to do: {not_needed} ({target.path})")


def _answer(call: Call, target: Target, changed: bool, backup: Path | None, entry: JsonObject | None) -> None:
    if call.terminal.as_json:
        call.terminal.answer(
            {
                "client": target.client.name,
                "path": str(target.path),
                "changed": changed,
                "backup": None if backup is None else str(backup),
                "entry": None if entry is None else json.loads(json.dumps(entry)),
            }
        )
