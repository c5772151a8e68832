"""An agent's question at a terminal: shown from its folder and answered by hand or by flags.

``chaoscore decide`` stands above it; below is the human-decision runtime.
"""

from __future__ import annotations

import sys

from rich.text import Text

from chaoscore.app.interactions.deciding import AnswerRequest
from chaoscore.bootstrap_interaction import Interactions
from chaoscore.cli.answering import ask_rationale, left
from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.interactions import this_person, told
from chaoscore.cli.picker import pick, read_text
from chaoscore.cli.questions import question_json
from chaoscore.cli.suggesting import command
from chaoscore.cli.views.decision import options_of, question_view, text_of
from chaoscore.cli.views.words import in_full, plain, unbroken
from chaoscore.domain.interaction.response import Choice, normal_source
from chaoscore.domain.json import JsonObject

ANSWER_BYTES_MAX = 1_048_576
OF_RUNS = {"approve_all": "--approve-all", "deny_all": "--deny-all", "pin_stdin": "--pin-stdin", "go_on": "--go-on"}


async def answer_agent(runtime: Interactions, call: Call) -> int:
    args = call.args
    text: str | None = args.text
    if text == "-":
        text = sys.stdin.read(ANSWER_BYTES_MAX + 1).rstrip("\n")
    chosen = tuple(args.option or ())
    choice = Choice(chosen[0] if len(chosen) == 1 else None, chosen if len(chosen) > 1 else (), text, args.rationale)
    return await _record(runtime, call, args.decision, choice, args.hash)


async def _record(runtime: Interactions, call: Call, decision: str, choice: Choice, decision_hash: str | None) -> int:
    request = AnswerRequest(decision, choice, call.args.by or this_person(), normal_source("cli"), decision_hash)
    envelope = await runtime.service.answer(request)
    if envelope.ok:
        call.terminal.show(plain(f"answered: {decision}", "green"))
        if envelope.data.get("sessionState") == "ready-to-resume":
            call.terminal.show(plain("the command run can be resumed now", "dim"))
    return told(call, envelope)


async def show_past(runtime: Interactions, call: Call) -> int:
    """A decision that does not wait: its answer, or that there is none of that name."""
    envelope = await runtime.service.decision_response(call.args.decision)
    if envelope.ok:
        call.terminal.show(plain(envelope.message), *(Text(f"  {line}") for line in in_full(envelope.data)))
    return told(call, envelope)


async def of_agent(runtime: Interactions, call: Call, question: JsonObject) -> int:
    terminal, name = call.terminal, text_of(question.get("decisionId"))
    if terminal.as_json:
        terminal.answer({"decision": question_json(question)})
        return Exit.OK
    terminal.show(*question_view(question, in_whole=call.args.full))
    if not terminal.interactive:
        how = "--text TEXT" if question.get("interactionType") == "freeform-input" else "--option ID"
        terminal.show(unbroken(f"answer it: {command('decide', name)} {how}", "dim"))
        return Exit.OK
    terminal.show(plain(""))
    try:
        choice = await _ask_agent(call, question)
    except EOFError:
        choice = None
    if choice is None:
        return left(terminal, name)
    # Bound to what was shown: had somebody changed the question meanwhile, the answer would be refused.
    shown_hash = call.args.hash or text_of(question.get("decisionHash"))
    return await _record(runtime, call, name, choice, shown_hash)


async def _ask_agent(call: Call, question: JsonObject) -> Choice | None:
    """The person's choice; ``None`` when it was left."""
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
    rationale = await ask_rationale(call.args.rationale, required=question.get("requiresRationale") is True)
    said = ", ".join(chosen) if chosen else "your text"
    word = await call.terminal.ask(f"record {said!r} as the answer? it is final  [y]es  [n]o\n  > ", ["yes", "no"])
    if word == "no":
        return None
    several = kind == "multi-choice-decision"
    return Choice(None if several or not chosen else chosen[0], chosen if several else (), text, rationale)
