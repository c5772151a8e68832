"""``chaoscore resolve``: a person's word on an action of which nobody knows whether it happened."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.commands.run import NAME
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import add_common, examples
from chaoscore.cli.suggesting import command, copyable, going_on

if TYPE_CHECKING:
    from chaoscore.app.runs.book import ExecuteRequest, RunReport
    from chaoscore.bootstrap import Kernel
    from chaoscore.domain.action import Action
    from chaoscore.domain.approval import RunDecision

WORDS = ("retry", "happened", "give-up")
MEANINGS = {
    "retry": "it did not happen: do it again when the run goes on",
    "happened": "it did happen: count it as done (its output stays unknown)",
    "give-up": "stop trying: count it as failed",
}
LISTED_MAX = 10
NAMED_MAX = 20
UNSETTLED = ("pending", "running", "waiting-for-decision", "outcome-unknown")
FINISHED = ("completed", "failed", "cancelled")
EXAMPLES = examples(
    ("chaoscore resolve last", "show what is known of each such action and ask"),
    ("chaoscore resolve r-1a2b3c4d s3 happened", "you looked, and it did happen"),
    ("chaoscore resolve r-1a2b3c4d s3,7 retry", "item 7 of step s3 did not happen"),
    ("chaoscore resolve last s3 give-up --pin-stdin", "the policy wants a person: the PIN comes on standard input"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("run", metavar="RUN", help=NAME)
    parser.add_argument("action", nargs="?", metavar="STEP[,ITEM]", help="which action (default: ask about each)")
    parser.add_argument("word", nargs="?", choices=WORDS, metavar="WORD", help=", ".join(WORDS))
    parser.add_argument(
        "--pin-stdin", action="store_true", help="read the approver's PIN from standard input, not from a prompt"
    )
    add_common(parser)


def work(call: Call) -> int:
    from chaoscore.domain.errors import InvalidInput

    action: str | None = call.args.action
    if action is not None and call.args.word is None:
        raise InvalidInput(f"say what became of {action!r}: {', '.join(WORDS)}", key="word")
    return call.run(lambda kernel: _resolve(kernel, call, action))


async def _resolve(kernel: Kernel, call: Call, action: str | None) -> int:
    from chaoscore.app.kernel.report import run_envelope
    from chaoscore.cli.find import find_run

    context = kernel.local_context()
    request = await find_run(kernel, call.args.run)
    if action is not None:
        step, item = _parse(action)
        report = await kernel.services.runs.look(request, context)
        report = await _say(kernel, call, report, (step, item), call.args.word)
    elif call.terminal.interactive:
        report = await _ask_about_each(kernel, call, request)
    else:
        report = await kernel.services.runs.look(request, context)
        _list(call, report)
    left = len(_unknown(report))
    _end(call, report, left)
    if call.terminal.as_json:
        call.terminal.answer(run_envelope(report, copyable=copyable()).to_json())
    return Exit.ATTENTION if left else Exit.OK


def _unknown(report: RunReport) -> list[Action]:
    return [action for action in report.state.actions() if action.state == "outcome-unknown"]


async def _ask_about_each(kernel: Kernel, call: Call, request: ExecuteRequest) -> RunReport:
    from chaoscore.cli.views.unknown import meanings_view, unknown_view

    context = kernel.local_context()
    report = await kernel.services.runs.look(request, context)
    unknown = _unknown(report)
    for number, action in enumerate(unknown, 1):
        place = f"{number} of {len(unknown)}"
        call.terminal.ask_about(*unknown_view(action, report, place), *meanings_view(action, report))
        try:
            word = await call.terminal.ask("    later     leave it as it is\n  > ", (*WORDS, "later"))
        except EOFError:
            break
        if word != "later":
            report = await _say(kernel, call, report, action.key, word)
    return report


async def _say(kernel: Kernel, call: Call, report: RunReport, key: tuple[str, int | None], word: str) -> RunReport:
    """Answer the decision that asks about this action, then let the run take it into account; where none asks, say it
    to the run. The run as it is then; as it was where the person left it at the PIN.

    Raises what ``Approvals.answer`` and ``RunService.resolve`` raise.
    """
    from chaoscore.app.runs.book import ExecuteRequest
    from chaoscore.cli.answering import choice_of, piped_pin, send
    from chaoscore.cli.views.words import plain
    from chaoscore.domain.approval import OUTCOME_WORDS
    from chaoscore.domain.errors import Busy, IllegalTransition

    context, request = kernel.local_context(), ExecuteRequest(label=report.run.label)
    said, decision, answered = OUTCOME_WORDS[word], _asking(report, key), None
    if decision is not None and decision.word != said:
        pin = piped_pin() if call.args.pin_stdin else None
        answered = await send(kernel, call.terminal, decision, choice_of((word,)), decision.question_digest, pin)
        if answered is None:
            call.terminal.tell(plain("not answered; it stays unknown", "yellow"))
            return report
    try:
        after = await kernel.services.runs.resolve(request, *key, said, context)
    except (Busy, IllegalTransition):
        if answered is None:
            raise
        # The answer is durable, and a worker was quicker to take it in.
        after = await kernel.services.runs.look(request, context)
    _heard(call, key[0] if key[1] is None else f"{key[0]},{key[1]}", word)
    return after


def _asking(report: RunReport, key: tuple[str, int | None]) -> RunDecision | None:
    """The decision behind an unknown outcome: one that waits, or was answered and the run has not heard of it yet."""
    now = time.time()
    return next(
        (
            decision
            for decision in report.run.decisions
            if decision.kind == "outcome" and decision.actions[0].key == key and not decision.applied
            if decision.is_open(now) or decision.state == "answered"
        ),
        None,
    )


def _list(call: Call, report: RunReport) -> None:
    """Nobody is there to be asked: what is unknown, and how to say what became of it."""
    from chaoscore.cli.views.unknown import meanings_view, name_of, unknown_view
    from chaoscore.cli.views.words import plain, unbroken

    unknown = _unknown(report)
    for number, action in enumerate(unknown[:LISTED_MAX], 1):
        call.terminal.show(*unknown_view(action, report, f"{number} of {len(unknown)}"))
    if len(unknown) > LISTED_MAX:
        names = ", ".join(name_of(action) for action in unknown[LISTED_MAX : LISTED_MAX + NAMED_MAX])
        rest = len(unknown) - LISTED_MAX - NAMED_MAX
        call.terminal.show(plain(""), plain(f"and {names}" + (f" and {rest} more" if rest > 0 else "")))
    if unknown:
        call.terminal.show(plain(""), *meanings_view(unknown[0], report))
        call.terminal.show(
            unbroken(f"  say it with: {command('resolve', report.run.label, name_of(unknown[0]), 'WORD')}", "yellow")
        )


def _heard(call: Call, name: str, word: str) -> None:
    from chaoscore.cli.views.words import plain

    call.terminal.tell(plain(f"{name}: {MEANINGS[word]}"))


def _end(call: Call, report: RunReport, left: int) -> None:
    """What is left to do; the verdict, where nothing is."""
    from chaoscore.cli.views.run import verdict_view
    from chaoscore.cli.views.words import count, plain, unbroken

    label, status = report.run.label, report.run.status
    if left:
        call.terminal.tell(plain(f"{count(left, 'action')} of run {label} still unknown", "yellow"))
        return
    if all(view.state not in UNSETTLED for view in report.state.views()):
        call.terminal.show(*verdict_view(report))
    how = "" if status in FINISHED else f"; go on with: {going_on(label)}"
    call.terminal.tell(unbroken(f"nothing is unknown in run {label}{how}", "yellow" if how else ""))


def _parse(text: str) -> tuple[str, int | None]:
    from chaoscore.domain.errors import InvalidInput

    step, comma, item = text.partition(",")
    if not comma:
        return step, None
    if not item.isascii() or not item.isdigit():
        raise InvalidInput(f"{text!r} is not of the form STEP or STEP,ITEM", key="action")
    return step, int(item)
