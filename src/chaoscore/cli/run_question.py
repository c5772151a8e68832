"""A run's question at a terminal: shown from the database, answered by hand or by flags, and the run taken on.

``chaoscore decide`` stands above it, ``answering`` below.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import time

from chaoscore.app.copyable import roots_of
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.cli.answering import (
    ask_rationale,
    by_flags,
    choice_of,
    left,
    piped_pin,
    refuse_flags,
    send,
    why_not_here,
)
from chaoscore.cli.call import Call
from chaoscore.cli.conversation import Conversation, Manners
from chaoscore.cli.ending import finish, tell_of_the_pause
from chaoscore.cli.exits import Exit
from chaoscore.cli.picker import pick
from chaoscore.cli.questions import Questions, question_json
from chaoscore.cli.suggesting import command, going_on
from chaoscore.cli.views.approval import Lineage
from chaoscore.cli.views.question import chosen_view, run_question_view
from chaoscore.cli.views.words import plain, unbroken
from chaoscore.domain.approval import DENY, DENY_ALL, RunDecision
from chaoscore.domain.errors import Busy, ChaosError, InvalidInput
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json

OF_AGENTS = {"text": "--text", "by": "--by"}


async def of_run(questions: Questions, call: Call, decision: RunDecision) -> int:
    kernel, terminal, args = questions.kernel, call.terminal, call.args
    assert kernel is not None
    refuse_flags(args, OF_AGENTS, f"{decision.id} is a question of a run; choose with --option")
    if args.go_on:
        _require_roots(call, decision)
    if by_flags(args):
        return await _answer_by_flags(questions, call, decision)
    goal, lineage = await _plan_of(questions, call, decision)
    if terminal.as_json:
        terminal.answer({"decision": question_json(decision, goal=goal)})
        return Exit.OK
    now = time.time()
    show = terminal.ask_about if terminal.interactive else terminal.show
    show(*run_question_view(decision, goal, lineage, now, in_whole=args.full))
    if not decision.is_open(now):
        return Exit.OK
    refusal = why_not_here(kernel, decision)
    if refusal is not None:
        show(unbroken(refusal, "yellow"))
        return Exit.WAITING if terminal.interactive else Exit.OK
    if not terminal.interactive:
        how = "--approve-all, --deny-all or --option ID" if decision.kind == "approval" else "--option ID"
        show(unbroken(f"answer it: {command('decide', decision.id)} {how}", "dim"))
        return Exit.OK
    try:
        choice = await _ask_run(call, decision)
        answered = await _send(questions, call, decision, choice) if choice is not None else None
    except EOFError:
        answered = None
    except asyncio.CancelledError:
        terminal.interrupted("it goes on waiting", command("decide", decision.id))
        raise
    if answered is None:
        return left(call.terminal, decision.id)
    return await _after(questions, call, answered)


async def _ask_run(call: Call, decision: RunDecision) -> Choice | None:
    """The person's choice, with what it does in front of their eyes; ``None`` when it was left."""
    terminal, question = call.terminal, decision.question
    rows = [(option.id, option.label) for option in question.options]
    while True:
        chosen = await pick(terminal, rows, several=question.interaction_type == "multi-choice-decision")
        if not chosen:
            return None
        try:
            decision.chosen(choice_of(chosen))
        except InvalidInput as wrong:
            terminal.warn(wrong.message)
            continue
        break
    rationale = await ask_rationale(call.args.rationale, required=False)
    terminal.ask_about(*chosen_view(decision, chosen))
    word = await terminal.ask("send this answer? it is final  [y]es  [n]o\n  > ", ["yes", "no"])
    return choice_of(chosen, rationale) if word == "yes" else None


async def _answer_by_flags(questions: Questions, call: Call, decision: RunDecision) -> int:
    args = call.args
    decision.require_open(time.time())
    choice = choice_of(_options(args, decision), args.rationale)
    call.terminal.tell(*chosen_view(decision, decision.chosen(choice)))
    pin = piped_pin() if args.pin_stdin else None
    try:
        answered = await _send(questions, call, decision, choice, pin)
    except asyncio.CancelledError:
        call.terminal.interrupted("it goes on waiting", command("decide", decision.id))
        raise
    return left(call.terminal, decision.id) if answered is None else await _after(questions, call, answered)


def _options(args: argparse.Namespace, decision: RunDecision) -> tuple[str, ...]:
    if args.option:
        return tuple(args.option)
    if decision.kind != "approval":
        flag = "approve-all" if args.approve_all else "deny-all"
        raise InvalidInput(
            f"--{flag}: {decision.id} asks what became of an action; choose with --option: "
            f"{', '.join(decision.question.option_ids)}",
            key=flag,
        )
    if args.approve_all:
        return tuple(asked.option for asked in decision.actions)
    return (DENY if DENY in decision.question.option_ids else DENY_ALL,)


async def _send(
    questions: Questions, call: Call, decision: RunDecision, choice: Choice, pin: str | None = None
) -> RunDecision | None:
    assert questions.kernel is not None
    # Bound to what was shown: had the question changed meanwhile, the answer would be refused.
    shown = call.args.hash or decision.question_digest
    return await send(questions.kernel, call.terminal, decision, choice, shown, pin)


async def _after(questions: Questions, call: Call, answered: RunDecision) -> int:
    """The answer is durable: say so, and how the run goes on, or go on with it."""
    terminal, following = call.terminal, going_on(answered.run, roots_of(answered))
    document: dict[str, Json] = {
        "ok": True,
        "status": "ANSWERED",
        "decision": question_json(answered),
        "approved": [asked.option for asked in answered.approved],
        "denied": [asked.option for asked in answered.denied],
        "go_on_with": following,
    }
    terminal.show(plain(f"answered: {answered.id}", "green"))
    if call.args.go_on:
        return await _go_on(questions, call, answered, document)
    terminal.show(
        unbroken(f"a running 'chaoscore serve --http' goes on with the run by itself; without one: {following}", "dim")
    )
    if terminal.as_json:
        terminal.answer(document)
    return Exit.OK


async def _go_on(questions: Questions, call: Call, answered: RunDecision, document: dict[str, Json]) -> int:
    assert questions.kernel is not None
    conversation = Conversation(questions.kernel, call.terminal, Manners())
    try:
        report = await conversation.go_on(ExecuteRequest(label=answered.run))
    except asyncio.CancelledError:
        await tell_of_the_pause(conversation, call.terminal)
        raise
    except Busy as busy:
        call.terminal.warn(f"{busy.message}; look at it with: {command('run', 'show', answered.run)}")
        if call.terminal.as_json:
            call.terminal.answer(document)
        return Exit.RUNNING
    return await finish(questions.kernel, call, conversation, report, told={"answered": document["decision"]})


def _require_roots(call: Call, decision: RunDecision) -> None:
    """An approval is bound to the folders that were shown; with others the run would only ask again."""
    ours = {str(root) for root in call.settings().fs_roots}
    missing = [root for root in roots_of(decision) if root not in ours]
    if missing:
        flags = " ".join(f"--fs-root {shlex.quote(root)}" for root in missing)
        raise InvalidInput(f"--go-on needs the folders that the question is confined to; add {flags}", key="fs-root")


async def _plan_of(questions: Questions, call: Call, decision: RunDecision) -> tuple[str | None, Lineage | None]:
    """The goal in full and where its values come from; what cannot be read is left out, the question stands alone."""
    kernel = questions.kernel
    assert kernel is not None
    try:
        report = await kernel.services.runs.look(ExecuteRequest(label=decision.run), kernel.local_context())
    except ChaosError as error:
        call.terminal.warn(f"the plan of run {decision.run} cannot be read: {error.message}")
        return None, None
    plan = report.plan.plan
    return plan.objective, Lineage.of(plan, kernel.services.registry, kernel.services.limits)
