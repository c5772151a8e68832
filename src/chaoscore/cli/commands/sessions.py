"""``chaoscore sessions``: the command runs of this repository, one of them, and ending one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.interactions import add_interaction_options, told, with_interactions
from chaoscore.cli.options import examples, whole
from chaoscore.cli.suggesting import command

if TYPE_CHECKING:
    from chaoscore.bootstrap_interaction import Interactions

EXAMPLES = examples(
    ("chaoscore sessions --state waiting-for-decision", "the runs that wait for a human"),
    ("chaoscore sessions RUN-2026-…", "one run with its decisions"),
    (
        "chaoscore sessions RUN-2026-… --cancel --reason 'superseded'",
        "end it: its questions and locks go, answers stay",
    ),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("run", nargs="?", metavar="RUN", help="one command run (default: a list)")
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument("--cancel", action="store_true", help="end the run for good")
    ending.add_argument("--complete", action="store_true", help="say that the run is done")
    parser.add_argument("--reason", metavar="TEXT", help="why it is ended; kept with it")
    listing = parser.add_argument_group("which ones")
    listing.add_argument("--change", metavar="CHANGE", help="only runs on this change")
    listing.add_argument("--state", metavar="STATE", help="only runs in this state")
    listing.add_argument("--command", dest="source_command", metavar="COMMAND", help="only runs of this command")
    listing.add_argument("--ready", action="store_true", help="only runs that can be resumed")
    listing.add_argument("--limit", type=whole(1, 500), metavar="N", help="1 to 500 (20)")
    listing.add_argument("--cursor", metavar="CURSOR", help="continue where an earlier list ended")
    add_interaction_options(parser)


def work(call: Call) -> int:
    args = call.args
    if args.run is None:
        if args.cancel or args.complete:
            from chaoscore.domain.errors import InvalidInput

            raise InvalidInput(f"name the run to end: {command('sessions', 'RUN', '--cancel')}", key="run")
        return with_interactions(call, lambda runtime: _list(runtime, call))
    if args.cancel or args.complete:
        return with_interactions(call, lambda runtime: _end(runtime, call))
    return with_interactions(call, lambda runtime: _show(runtime, call))


async def _list(runtime: Interactions, call: Call) -> int:
    from chaoscore.app.interaction_ports import SessionFilter
    from chaoscore.cli.views.decision import sessions_table
    from chaoscore.cli.views.words import plain, unbroken
    from chaoscore.domain.json import is_array, is_object

    args = call.args
    wanted = SessionFilter(args.change, args.state, args.source_command, args.ready)
    envelope = await runtime.service.list_sessions(wanted, args.limit, args.cursor)
    found = envelope.data.get("sessions")
    sessions = [item for item in found if is_object(item)] if is_array(found) else []
    if envelope.ok:
        call.terminal.show(sessions_table(sessions) if sessions else plain("there is no such command run"))
        after = envelope.data.get("next")
        if isinstance(after, str):
            call.terminal.show(unbroken(f"more: {command('sessions', '--cursor', after)}", "dim"))
    return told(call, envelope)


async def _show(runtime: Interactions, call: Call) -> int:
    from rich.text import Text

    from chaoscore.app.interactions.resources import BASE
    from chaoscore.cli.views.words import in_full
    from chaoscore.domain.interaction.names import is_id

    body = await runtime.service.read_resource(f"{BASE}sessions/{call.args.run}") if is_id(call.args.run) else None
    if body is None or body.get("status") in ("NOT_FOUND", "ERROR"):
        message = body.get("message") if body is not None else None
        said = message if isinstance(message, str) else f"{call.args.run!r} is not the id of a command run"
        call.terminal.error(said, f"{command('sessions')} lists them")
        return Exit.FAILED
    call.terminal.show(*(Text(line) for line in in_full(body)))
    if call.terminal.as_json:
        call.terminal.answer(body)
    return Exit.OK


async def _end(runtime: Interactions, call: Call) -> int:
    from chaoscore.app.interactions.progress import EndRequest
    from chaoscore.cli.views.words import plain

    request = EndRequest(call.args.run, call.args.reason, "manual" if call.args.complete else None)
    ending = runtime.service.complete if call.args.complete else runtime.service.cancel
    envelope = await ending(request)
    if envelope.ok:
        call.terminal.show(plain(envelope.message))
    return told(call, envelope)
