"""``chaoscore run``: the runs there are, one of them in full, go on with one, end one."""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.commands.achieve import add_answering
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import Subcommands, add_common, add_roots, examples, whole
from chaoscore.cli.suggesting import command, copyable

if TYPE_CHECKING:
    from chaoscore.bootstrap import Kernel
    from chaoscore.domain.approval import RunDecision

WAITING = ("waiting-for-decision", "needs-attention")
NAME = "its label (r-…), id (run_…), its plan's (p-…, plan_…), or last"
EXAMPLES = examples(
    ("chaoscore run list", "your runs, newest first"),
    ("chaoscore run show last --step s2", "one step's output in full"),
    ("chaoscore run continue r-1a2b3c4d", "answer what waits for approval and go on"),
    ("chaoscore run cancel last", "end it for good; what was done stays done"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = Subcommands(parser)
    listing = commands.add("list", "your runs, newest first", _list)
    listing.add_argument("--limit", type=whole(1, 100), default=20, metavar="N", help="1 to 100 (20)")
    listing.add_argument("--cursor", metavar="CURSOR", help="continue where an earlier list ended")
    shown = commands.add("show", "one run: steps, verdict, outputs", _show)
    shown.add_argument("run", metavar="RUN", help=NAME)
    shown.add_argument("--step", metavar="STEP", help="only this step's output, in full")
    going = commands.add("continue", "answer what waits and go on", _continue)
    going.add_argument("run", metavar="RUN", help=NAME)
    add_answering(going)
    add_roots(going)
    ending = commands.add("cancel", "end a run for good", _cancel)
    ending.add_argument("run", metavar="RUN", help=NAME)
    for each in (listing, shown, going, ending):
        add_common(each)


def _list(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.app.kernel.inspect import summary_json
        from chaoscore.app.kernel.report import decision_brief
        from chaoscore.cli.views.words import one_line, rows, unbroken, when, word

        found, cursor = await kernel.services.runs.list(kernel.principal, call.args.limit, call.args.cursor)
        asked = await _waiting_of(kernel, [run.label for run in found if run.status in WAITING])
        if call.terminal.as_json:
            runs = [
                {**summary_json(run), "decisions": [decision_brief(d, copyable()) for d in asked[run.label]]}
                for run in found
            ]
            call.terminal.answer({"runs": runs, "cursor": cursor})
        if not found:
            call.terminal.show(unbroken(f"there is no run yet; {command('achieve', 'GOAL')} starts one"))
            return Exit.OK
        lines = [(run.label, word(run.status), when(run.created_at), one_line(run.objective, 44)) for run in found]
        call.terminal.show(rows(("run", "status", "begun", "goal"), lines))
        for decision in (decision for decisions in asked.values() for decision in decisions):
            call.terminal.show(
                unbroken(f"{decision.run} waits for a person: {command('decide', decision.id)}", "yellow")
            )
        if cursor is not None:
            call.terminal.show(unbroken(f"more: {command('run', 'list', '--cursor', cursor)}", "dim"))
        return Exit.OK

    return call.run(work)


async def _waiting_of(kernel: Kernel, labels: Sequence[str]) -> defaultdict[str, list[RunDecision]]:
    """By run, the questions that wait for a person."""
    asked: defaultdict[str, list[RunDecision]] = defaultdict(list)
    for label in labels:
        run = await kernel.stores.runs.load_run(label)
        asked[label] = [decision for decision in run.decisions if decision.state == "waiting"] if run else []
    return asked


def _show(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.app.kernel.report import run_json
        from chaoscore.cli.find import find_run
        from chaoscore.cli.views.run import result_view, run_view
        from chaoscore.domain.errors import NotFound

        request = await find_run(kernel, call.args.run)
        report = await kernel.services.runs.look(request, kernel.local_context())
        step: str | None = call.args.step
        if step is not None and not any(view.step.id == step for view in report.state.views()):
            raise NotFound(f"run {report.run.label} has no step {step!r}", key="step")
        if call.terminal.as_json:
            call.terminal.answer(run_json(report, kernel.services.limits.run_output_bytes_max, copyable()))
        if step is None:
            call.terminal.show(*run_view(report))
        call.terminal.show(*result_view(report, step))
        return Exit.OK

    return call.run(work)


def _continue(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.cli.conversation import Conversation
        from chaoscore.cli.ending import finish, manners_of, tell_of_the_pause
        from chaoscore.cli.find import find_run

        conversation = Conversation(kernel, call.terminal, manners_of(call))
        request = await find_run(kernel, call.args.run)
        try:
            report = await conversation.go_on(request)
        except asyncio.CancelledError:
            await tell_of_the_pause(conversation, call.terminal)
            raise
        return await finish(kernel, call, conversation, report)

    return call.run(work)


def _cancel(call: Call) -> int:
    async def work(kernel: Kernel) -> int:
        from chaoscore.app.kernel.report import run_envelope
        from chaoscore.cli.find import find_run
        from chaoscore.cli.views.run import run_view

        request = await find_run(kernel, call.args.run)
        report = await kernel.services.runs.cancel(request, kernel.local_context())
        for note in report.notes:
            call.terminal.warn(note)
        call.terminal.show(*run_view(report))
        if call.terminal.as_json:
            call.terminal.answer(run_envelope(report, copyable=copyable()).to_json())
        return Exit.OK if report.run.status == "cancelled" else Exit.FAILED

    return call.run(work)
