"""``chaoscore locks``: which changes are held, by whom, and which locks hold nothing any more."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.interactions import add_interaction_options, told, with_interactions
from chaoscore.cli.options import examples, whole
from chaoscore.cli.suggesting import command

if TYPE_CHECKING:
    from chaoscore.bootstrap_interaction import Interactions

EXAMPLES = examples(
    ("chaoscore locks", "active locks"),
    ("chaoscore locks --change add-login --all", "every lock there was on one change"),
    ("chaoscore sessions RUN-… --cancel", "how a lock is given back: end the run that holds it"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--change", metavar="CHANGE", help="only locks on this change")
    parser.add_argument("--all", action="store_true", help="released locks too")
    parser.add_argument("--limit", type=whole(1, 500), metavar="N", help="1 to 500 (500)")
    parser.add_argument("--cursor", metavar="CURSOR", help="continue where an earlier list ended")
    add_interaction_options(parser)


def work(call: Call) -> int:
    return with_interactions(call, lambda runtime: _list(runtime, call))


async def _list(runtime: Interactions, call: Call) -> int:
    from chaoscore.cli.views.decision import locks_table
    from chaoscore.cli.views.words import plain, unbroken
    from chaoscore.domain.json import is_array, is_object

    args = call.args
    envelope = await runtime.service.list_locks(args.change, True, args.limit, args.cursor)
    found = envelope.data.get("locks")
    locks = [item for item in found if is_object(item)] if is_array(found) else []
    shown = [lock for lock in locks if args.all or lock.get("state") == "active"]
    if envelope.ok:
        hidden = len(locks) - len(shown)
        call.terminal.show(locks_table(shown) if shown else plain("no change is locked"))
        if hidden:
            call.terminal.show(plain(f"{hidden} released: --all shows them", "dim"))
        after = envelope.data.get("next")
        if isinstance(after, str):
            call.terminal.show(unbroken(f"more: {command('locks', '--cursor', str(after))}", "dim"))
    return told(call, envelope)
