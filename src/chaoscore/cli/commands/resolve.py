"""``chaoscore resolve``: a person's word on an action of which nobody knows whether it happened."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.commands.run import NAME
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import add_common, examples

if TYPE_CHECKING:
    from rich.console import RenderableType

    from chaoscore.app.runs.book import ExecuteRequest, RunReport
    from chaoscore.bootstrap import Kernel
    from chaoscore.domain.action import Action

WORDS = ("retry", "happened", "give-up")
MEANINGS = {
    "retry": "it did not happen: do it again when the run goes on",
    "happened": "it did happen: count it as done (its output stays unknown)",
    "give-up": "stop trying: count it as failed",
}
EXAMPLES = examples(
    ("chaoscore resolve last", "show what is known of each such action and ask"),
    ("chaoscore resolve r-1a2b3c4d s3 happened", "you looked, and it did happen"),
    ("chaoscore resolve r-1a2b3c4d s3,7 retry", "item 7 of step s3 did not happen"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("run", metavar="RUN", help=NAME)
    parser.add_argument("action", nargs="?", metavar="STEP[,ITEM]", help="which action (default: ask about each)")
    parser.add_argument("word", nargs="?", choices=WORDS, metavar="WORD", help=", ".join(WORDS))
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
    from chaoscore.cli.views.run import run_view
    from chaoscore.cli.views.words import plain

    context = kernel.local_context()
    request = await find_run(kernel, call.args.run)
    if action is not None:
        step, item = _parse(action)
        report = await kernel.services.runs.resolve(request, step, item, call.args.word, context)
    else:
        report = await _ask_about_each(kernel, call, request)
    call.terminal.show(*run_view(report))
    left = sum(1 for found in report.state.actions() if found.state == "outcome-unknown")
    if left:
        call.terminal.tell(plain(f"{left} still unknown", "yellow"))
    elif report.run.status == "running":
        call.terminal.tell(plain(f"go on with: chaoscore run continue {report.run.label}", "yellow"))
    if call.terminal.as_json:
        call.terminal.answer(run_envelope(report).to_json())
    return Exit.ATTENTION if left else Exit.OK


async def _ask_about_each(kernel: Kernel, call: Call, request: ExecuteRequest) -> RunReport:
    from chaoscore.domain.errors import InvalidInput

    context = kernel.local_context()
    report = await kernel.services.runs.look(request, context)
    unknown = [action for action in report.state.actions() if action.state == "outcome-unknown"]
    if unknown and not call.terminal.interactive:
        names = ", ".join(_name(action) for action in unknown)
        raise InvalidInput(f"nobody can be asked here; name an action and a word. unknown are: {names}", key="action")
    for action in unknown:
        call.terminal.ask_about(*_evidence(action))
        says = "\n".join(f"    {word:<9} {meaning}" for word, meaning in MEANINGS.items())
        try:
            word = await call.terminal.ask(f"{says}\n    later     leave it as it is\n  > ", (*WORDS, "later"))
        except EOFError:
            break
        if word != "later":
            report = await kernel.services.runs.resolve(request, action.step, action.item, word, context)  # type: ignore[arg-type]
    return report


def _evidence(action: Action) -> list[RenderableType]:
    from rich.text import Text

    from chaoscore.cli.views.words import in_full, indented, plain, title, when

    shown: list[RenderableType] = [
        Text(),
        Text.assemble(title(f"unknown  {_name(action)}  "), action.capability),
        plain(f"  started {when(action.started_at)}, attempt {action.attempt}"),
    ]
    if action.error is not None:
        shown.append(plain(f"  {action.error.code}: {action.error.message}"))
    shown += [plain("  arguments", "dim"), indented(in_full(action.arguments), 4)]
    if action.evidence is not None:
        shown += [plain("  evidence that arrived later", "dim"), indented(in_full(action.evidence), 4)]
    else:
        shown.append(plain("  no evidence arrived; look at the thing itself", "dim"))
    return shown


def _name(action: Action) -> str:
    return action.step if action.item is None else f"{action.step},{action.item}"


def _parse(text: str) -> tuple[str, int | None]:
    from chaoscore.domain.errors import InvalidInput

    step, comma, item = text.partition(",")
    if not comma:
        return step, None
    if not item.isascii() or not item.isdigit():
        raise InvalidInput(f"{text!r} is not of the form STEP or STEP,ITEM", key="action")
    return step, int(item)
