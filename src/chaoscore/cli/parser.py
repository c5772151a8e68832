"""The tree of commands. Each command describes itself; here they are only put in order."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from chaoscore import __version__
from chaoscore.cli.commands import (
    achieve,
    audit,
    clients,
    decide,
    doctor,
    inspect,
    locks,
    memory,
    pin,
    policy,
    resolve,
    resume,
    run,
    serve,
    sessions,
)
from chaoscore.cli.options import Parser, examples

if TYPE_CHECKING:
    from chaoscore.cli.call import Call

ABOUT = "The governed decision kernel for AI agents: hand over a goal; policy decides, people approve, runs survive."
EXAMPLES = examples(
    ('chaoscore achieve "read README.md" --root .', "one goal, here and now"),
    ("chaoscore install --client claude-code", "let an agent use it over MCP"),
    ("chaoscore serve --http", "serve many clients at http://127.0.0.1:3000/mcp"),
    ("chaoscore run list", "what was done, what waits"),
)
MORE = "\nexit codes: 0 done, 1 failed, 2 usage, 3 waits for approval, 4 needs attention, 5 configuration (docs/cli.md)"


def chaoscore_parser() -> Parser:
    parser = Parser("chaoscore", description=ABOUT, epilog=EXAMPLES + "\n" + MORE)
    parser.add_argument("--version", action="version", version=f"chaoscore {__version__}")
    group = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def command(
        name: str,
        about: str,
        configure: Callable[[argparse.ArgumentParser], None],
        work: Callable[[Call], int] | None = None,
    ) -> None:
        made = group.add_parser(name, help=about, description=about[:1].upper() + about[1:] + ".")
        if work is not None:
            made.set_defaults(work=work)
        configure(made)

    command("achieve", "take a goal to its result", achieve.configure, achieve.work)
    command("run", "list, show, continue or cancel runs", run.configure)
    command("resolve", "say what became of an action whose outcome is unknown", resolve.configure, resolve.work)
    command("inspect", "show what is there", inspect.configure, inspect.work)
    command("memory", "list, get, set, search or forget memories", memory.configure)
    command("policy", "check, explain or show the policy", policy.configure)
    command("pin", "set, change or remove the PIN of whoever approves", pin.configure)
    command("audit", "verify or read the audit, or accept the loss of its checkpoint", audit.configure)
    command("decide", "show the questions that wait for a human, and answer them", decide.configure, decide.work)
    command("sessions", "the command runs of a repository; end one", sessions.configure, sessions.work)
    command("locks", "which changes are held, and by whom", locks.configure, locks.work)
    command("resume", "the command runs that can go on; take one up", resume.configure, resume.work)
    command("doctor", "check the human-decision folder; changes nothing", doctor.configure, doctor.work)
    command("serve", "serve MCP clients over stdio or HTTP", serve.configure, serve.work)
    command("install", "add the server to an MCP client's configuration", clients.configure_install, clients.install)
    command("uninstall", "take the server out of it again", clients.configure_uninstall, clients.uninstall)
    return parser


def server_parser() -> Parser:
    """``chaos-core-mcp``: the options of ``chaoscore serve`` and nothing else."""
    about = "The Chaos Core MCP server: stdio for one client (default), or Streamable HTTP for many."
    parser = Parser("chaos-core-mcp", description=about, epilog=serve.SERVER_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"chaos-core-mcp {__version__}")
    serve.configure(parser)
    parser.epilog = serve.SERVER_EXAMPLES
    return parser
