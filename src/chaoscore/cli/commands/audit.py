"""``chaoscore audit``: verify the whole chain, read its newest events, or accept the loss of its checkpoint."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import Subcommands, add_common, examples, whole
from chaoscore.cli.suggesting import command

if TYPE_CHECKING:
    from chaoscore.adapters.sqlite.verifying import Verification
    from chaoscore.bootstrap import Kernel
    from chaoscore.domain.json import Json

EXAMPLES = examples(
    ("chaoscore audit verify", "is every event there as it was written, and every effect accounted for"),
    ("chaoscore audit verify --data-dir /mnt/backup", "a copy that can only be read; nothing is made there"),
    ("chaoscore audit tail --run last", "what one run did, newest first"),
    ("chaoscore audit accept-head", "audit.head is lost: what that means, and how to go on"),
)
HELP = "docs/operating.md tells how to find out more and how to go on"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = Subcommands(parser)
    verifying = commands.add(
        "verify", "walk the whole audit: does the chain hold, and is every effect accounted for", _verify
    )
    tailing = commands.add("tail", "the newest events of everybody", _tail)
    tailing.add_argument("-n", "--limit", type=whole(1, 1000), default=20, metavar="N", help="1 to 1000 (20)")
    tailing.add_argument("--run", metavar="RUN", help="only this run's")
    tailing.add_argument("--before", type=whole(1, 10**15), metavar="SEQ", help="older than this event")
    accepting = commands.add(
        "accept-head", "say what a lost or moved checkpoint means; with --accept, begin anew from here", _accept_head
    )
    accepting.add_argument("--accept", action="store_true", help="take the loss for good; the audit records who did")
    for each in (verifying, tailing, accepting):
        add_common(each)


def _verify(call: Call) -> int:
    from chaoscore.bootstrap import verify_audit
    from chaoscore.cli.views.audit import accounted_for
    from chaoscore.cli.views.words import count, plain

    found = verify_audit(call.settings(read_only=True))
    report = found.report
    if found.is_whole:
        call.terminal.show(plain(f"the audit is whole: {report.events} events, head {report.head.mac[:16]}", "green"))
    elif report.fault is not None:
        call.terminal.error(f"the audit is not whole: {report.fault}", HELP)
    else:
        gaps = "; ".join(found.unchecked)
        call.terminal.error(f"the audit has {count(report.events, 'event')}, and nobody could check here {gaps}", HELP)
    mediation = report.mediation
    if mediation is not None and mediation.fault is not None:
        call.terminal.error(f"not everything is accounted for: {mediation.fault}", _accounts_help())
    elif mediation is not None:
        call.terminal.show(accounted_for(mediation, whole=report.fault is None))
    if call.terminal.as_json:
        call.terminal.answer(_verified(found))
    return Exit.OK if found.is_proven else Exit.FAILED


def _verified(found: Verification) -> dict[str, Json]:
    report = found.report
    return {
        "ok": found.is_proven,
        "events": report.events,
        "head": {"seq": report.head.seq, "mac": report.head.mac},
        "fault": report.fault,
        "at": report.at,
        "unchecked": list(found.unchecked),
        "checkpoint": found.head_state,
        "mediation": report.mediation.to_json() if report.mediation is not None else None,
    }


def _accept_head(call: Call) -> int:
    from chaoscore.bootstrap import accept_audit_head, verify_audit
    from chaoscore.cli.views.words import plain

    found = verify_audit(call.settings())
    terminal = call.terminal
    if found.is_whole:
        terminal.show(
            plain(f"the checkpoint fits the audit of {found.chain.events} events; there is nothing to accept")
        )
        if terminal.as_json:
            terminal.answer({**_verified(found), "accepted": None})
        return Exit.OK
    mendable = found.chain.fault is None and found.chain.head.seq == found.chain.events
    if not mendable:
        why = found.chain.fault or "; ".join(found.unchecked)
        terminal.error(f"the audit itself does not hold, and a checkpoint cannot mend that: {why}", HELP)
    elif not call.args.accept:
        terminal.error(
            _lost(found), f"if that is so, accept the loss for good: {command('audit', 'accept-head', '--accept')}"
        )
    else:

        async def work(kernel: Kernel) -> int:
            head = await accept_audit_head(kernel, found)
            terminal.show(
                plain(_lost(found)),
                plain(f"accepted: event {head.seq} says who did it, and the checkpoint stands there again", "yellow"),
            )
            if terminal.as_json:
                terminal.answer({**_verified(found), "accepted": {"seq": head.seq, "mac": head.mac}})
            return Exit.OK

        return call.run(work)
    if terminal.as_json:
        terminal.answer({**_verified(found), "accepted": None})
    return Exit.FAILED


def _lost(found: Verification) -> str:
    """What accepting means, in the words of what is there."""
    from chaoscore.cli.views.words import count

    end, kept = found.chain.head.seq, found.kept
    here = f"what is here ({count(end, 'event')})"
    if found.head_state == "ahead" and kept is not None:
        return (
            f"the audit ends at event {end}, the checkpoint knows {kept.seq}: "
            f"{count(kept.seq - end, 'event')} at its end went missing. an older copy of the database was put back, "
            "or somebody cut them off; accepting gives them up"
        )
    if found.head_state == "differs" and kept is not None:
        return (
            f"event {kept.seq} is another one than the checkpoint knows: this is not the chain it was made of. "
            f"events of that chain are gone, nobody can tell which; {here} holds in itself"
        )
    what = "is missing" if found.head_state == "missing" else "is no checkpoint"
    return (
        f"audit.head {what}: {here} holds, but nobody can tell any more whether later events were cut off. "
        "if a backup has it, put that back instead; accepting gives this knowledge up for good"
    )


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


def _accounts_help() -> str:
    return (
        f"docs/operating.md#mediation lists the rules; {command('audit', 'tail', '--run', 'RUN')} shows what led to it"
    )
