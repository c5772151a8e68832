"""``chaoscore decide``: what waits for a human, and the human's answer."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.interactions import add_interaction_options, this_person, told, with_interactions
from chaoscore.cli.options import examples

if TYPE_CHECKING:
    from chaoscore.bootstrap_interaction import Interactions
    from chaoscore.domain.interaction.response import Choice
    from chaoscore.domain.json import JsonObject

ANSWER_BYTES_MAX = 1_048_576
EXAMPLES = examples(
    ("chaoscore decide", "what waits; at a terminal also answer it, with the arrow keys"),
    ("chaoscore decide DEC-2026-01-31-x-0a1b2c3d", "one question with its context, options, consequences and risks"),
    ("chaoscore decide DEC-… --option compact --rationale 'small change'", "answer it without being asked anything"),
    ("chaoscore decide DEC-… --option a --option c", "several options, where several may be chosen"),
    ("chaoscore decide DEC-… --text -", "a written answer from standard input"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("decision", nargs="?", metavar="DECISION", help="its id (default: all that wait)")
    parser.add_argument("--change", metavar="CHANGE", help="only what waits about this change")
    parser.add_argument("--run", metavar="RUN", help="only what this command run waits for")
    answer = parser.add_argument_group("answering")
    answer.add_argument("--option", action="append", metavar="ID", help="the chosen option (repeat for several)")
    answer.add_argument("--text", metavar="TEXT", help="the written answer; - reads standard input")
    answer.add_argument("--rationale", metavar="TEXT", help="the reason")
    answer.add_argument("--by", metavar="NAME", help="who answers (default: the user of this system)")
    answer.add_argument(
        "--hash", metavar="SHA256", help="decisionHash of the question you saw: refused when it differs now"
    )
    parser.add_argument("--full", action="store_true", help="show a long context to its end")
    parser.add_argument("--no-input", action="store_true", help="ask nothing, only show")
    add_interaction_options(parser)


def work(call: Call) -> int:
    args = call.args
    answering = [name for name in ("option", "text", "rationale", "by", "hash") if getattr(args, name) is not None]
    if answering and args.decision is None:
        from chaoscore.domain.errors import InvalidInput

        raise InvalidInput(f"--{answering[0]} answers one decision; name it: chaoscore decide DECISION", key="decision")
    if args.option or args.text is not None:
        return with_interactions(call, lambda runtime: _answer_by_flags(runtime, call))
    return with_interactions(call, lambda runtime: _show_and_ask(runtime, call))


async def _answer_by_flags(runtime: Interactions, call: Call) -> int:
    from chaoscore.domain.interaction.response import Choice

    args = call.args
    text: str | None = args.text
    if text == "-":
        text = sys.stdin.read(ANSWER_BYTES_MAX + 1).rstrip("\n")
    chosen = tuple(args.option or ())
    choice = Choice(chosen[0] if len(chosen) == 1 else None, chosen if len(chosen) > 1 else (), text, args.rationale)
    return await _record(runtime, call, args.decision, choice, args.hash)


async def _record(runtime: Interactions, call: Call, decision: str, choice: Choice, decision_hash: str | None) -> int:
    from chaoscore.app.interactions.deciding import AnswerRequest
    from chaoscore.cli.views.words import plain
    from chaoscore.domain.interaction.response import normal_source

    request = AnswerRequest(decision, choice, call.args.by or this_person(), normal_source("cli"), decision_hash)
    envelope = await runtime.service.answer(request)
    if envelope.ok:
        call.terminal.show(plain(f"answered: {decision}", "green"))
        if envelope.data.get("sessionState") == "ready-to-resume":
            call.terminal.show(plain("the command run can be resumed now", "dim"))
    return told(call, envelope)


async def _show_and_ask(runtime: Interactions, call: Call) -> int:
    terminal, args = call.terminal, call.args
    waiting = await _waiting(runtime, call)
    if isinstance(waiting, int):
        return waiting
    if args.decision is not None:
        question = next((item for item in waiting if item.get("decisionId") == args.decision), None)
        if question is None:
            return await _show_past(runtime, call)
        return await _one(runtime, call, question, show=True)
    if terminal.as_json or not terminal.interactive or not waiting:
        return _list(runtime, call, waiting)
    if len(waiting) == 1:
        return await _one(runtime, call, waiting[0], show=True)
    return await _choose(runtime, call, waiting)


async def _waiting(runtime: Interactions, call: Call) -> list[JsonObject] | int:
    """The questions that wait, or the exit code of the failure."""
    from chaoscore.domain.json import is_array, is_object

    envelope = await runtime.service.active_decision(call.args.change, call.args.run)
    if not envelope.ok:
        return told(call, envelope)
    for warning in envelope.warnings:
        call.terminal.warn(warning)
    one, several = envelope.data.get("decision"), envelope.data.get("decisions")
    found = [one] if one is not None else list(several) if is_array(several) else []
    return [item for item in found if is_object(item)]


def _list(runtime: Interactions, call: Call, waiting: list[JsonObject]) -> int:
    from chaoscore.cli.views.decision import waiting_table
    from chaoscore.cli.views.words import plain

    if call.terminal.as_json:
        call.terminal.answer({"root": str(runtime.settings.root), "waiting": waiting})
    elif waiting:
        call.terminal.show(waiting_table(waiting), plain("see one: chaoscore decide DECISION", "dim"))
    else:
        call.terminal.show(plain(f"nothing waits for a human in {runtime.settings.root}"))
    return Exit.OK


async def _choose(runtime: Interactions, call: Call, waiting: list[JsonObject]) -> int:
    from chaoscore.cli.picker import pick
    from chaoscore.cli.views.decision import text_of

    rows = [(text_of(item.get("decisionId")), text_of(item.get("title"))) for item in waiting]
    chosen = await pick(call.terminal, rows)
    question = next((item for item in waiting if chosen and item.get("decisionId") == chosen[0]), None)
    return Exit.OK if question is None else await _one(runtime, call, question, show=True)


async def _show_past(runtime: Interactions, call: Call) -> int:
    """A decision that does not wait: its answer, or that there is none of that name."""
    from rich.text import Text

    from chaoscore.cli.views.words import in_full, plain

    envelope = await runtime.service.decision_response(call.args.decision)
    if envelope.ok:
        call.terminal.show(plain(envelope.message), *(Text(f"  {line}") for line in in_full(envelope.data)))
    return told(call, envelope)


async def _one(runtime: Interactions, call: Call, question: JsonObject, show: bool) -> int:
    from chaoscore.cli.views.decision import question_view, text_of
    from chaoscore.cli.views.words import plain
    from chaoscore.domain.interaction.response import Choice

    terminal = call.terminal
    if terminal.as_json:
        terminal.answer({"decision": question})
        return Exit.OK
    terminal.show(*question_view(question, in_whole=call.args.full))
    if not terminal.interactive:
        name = text_of(question.get("decisionId"))
        how = "--text TEXT" if question.get("interactionType") == "freeform-input" else "--option ID"
        terminal.show(plain(f"answer it: chaoscore decide {name} {how}", "dim"))
        return Exit.OK
    terminal.show(plain(""))
    try:
        choice = await _ask(call, question)
    except EOFError:
        choice = None
    if choice is None:
        terminal.show(plain("not answered; it goes on waiting", "yellow"))
        return Exit.WAITING
    assert isinstance(choice, Choice)
    # Bound to what was shown: had somebody changed the question meanwhile, the answer would be refused.
    shown_hash = call.args.hash or text_of(question.get("decisionHash"))
    return await _record(runtime, call, text_of(question.get("decisionId")), choice, shown_hash)


async def _ask(call: Call, question: JsonObject) -> Choice | None:
    """The person's choice; ``None`` when it was left."""
    from chaoscore.cli.picker import pick, read_text
    from chaoscore.cli.views.decision import options_of, text_of
    from chaoscore.domain.interaction.response import Choice

    kind = text_of(question.get("interactionType"))
    chosen: tuple[str, ...] = ()
    text: str | None = None
    if kind == "freeform-input":
        text = await read_text("your answer (an empty line ends it, nothing leaves it):\n  ", several_lines=True)
        if not text.strip():
            return None
    else:
        rows = [(text_of(option.get("id")), text_of(option.get("label"))) for option in options_of(question)]
        chosen = await pick(call.terminal, rows, several=kind == "multi-choice-decision")
        if not chosen:
            return None
    rationale: str | None = call.args.rationale
    if rationale is None:
        required = question.get("requiresRationale") is True
        prompt = "reason (required): " if required else "reason (enter: none): "
        rationale = (await read_text(prompt)).strip() or None
        while required and rationale is None:
            rationale = (await read_text(prompt)).strip() or None
    said = ", ".join(chosen) if chosen else "your text"
    word = await call.terminal.ask(f"record {said!r} as the answer? it is final  [y]es  [n]o\n  > ", ["yes", "no"])
    if word == "no":
        return None
    several = kind == "multi-choice-decision"
    return Choice(None if several or not chosen else chosen[0], chosen if several else (), text, rationale)
