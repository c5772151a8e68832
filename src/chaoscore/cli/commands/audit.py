"""``chaoscore audit``: verify the whole chain, or read its newest events."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import Subcommands, add_common, examples, whole

if TYPE_CHECKING:
    from chaoscore.bootstrap import Kernel
    from chaoscore.domain.json import Json

EXAMPLES = examples(
    ("chaoscore audit verify", "walk the chain from the first event; altered, missing and cut-off ones are found"),
    ("chaoscore audit tail --run last", "what one run did, newest first"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = Subcommands(parser)
    verifying = commands.add("verify", "walk the whole chain and say whether it holds", _verify)
    tailing = commands.add("tail", "the newest events of everybody", _tail)
    tailing.add_argument("-n", "--limit", type=whole(1, 1000), default=20, metavar="N", help="1 to 1000 (20)")
    tailing.add_argument("--run", metavar="RUN", help="only this run's")
    tailing.add_argument("--before", type=whole(1, 10**15), metavar="SEQ", help="older than this event")
    for command in (verifying, tailing):
        add_common(command)


def _verify(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.cli.views.words import plain

        chain = await kernel.stores.audit.verify()
        if chain.fault is None:
            call.terminal.show(plain(f"the audit is whole: {chain.events} events, head {chain.head.mac[:16]}", "green"))
        else:
            call.terminal.error(
                f"the audit is not whole: {chain.fault}", "docs/operating.md tells how to find out more"
            )
        if call.terminal.as_json:
            head: dict[str, Json] = {"seq": chain.head.seq, "mac": chain.head.mac}
            call.terminal.answer(
                {"ok": chain.fault is None, "events": chain.events, "head": head, "fault": chain.fault, "at": chain.at}
            )
        return Exit.OK if chain.fault is None else Exit.FAILED

    return call.run(work)


def _tail(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.cli.find import find_run
        from chaoscore.cli.views.words import one_line, plain, rows, when

        label: str | None = None
        if call.args.run is not None:
            request = await find_run(kernel, call.args.run)
            label = (await kernel.services.runs.look(request, kernel.local_context())).run.label
        found = await kernel.stores.audit.tail(None, label, call.args.limit, call.args.before)
        if call.terminal.as_json:
            call.terminal.answer({"events": [{"seq": seq, **event} for seq, event in found]})
        lines = []
        for seq, event in found:
            where = " ".join(str(event[key]) for key in ("run", "step", "item") if event.get(key) is not None)
            kind, who = str(event.get("kind")), str(event.get("principal"))
            lines.append((str(seq), when(event.get("at")), kind, where, who, one_line(event.get("data"), 60)))
        call.terminal.show(rows(("event", "when", "what", "where", "who", ""), lines) if lines else plain("no event"))
        return Exit.OK

    return call.run(work)
