"""``chaoscore decide``: what waits for a human, of runs and of agents, and the human's answer."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.commands.decide_web import add_web, serve_web, wants_web
from chaoscore.cli.exits import Exit
from chaoscore.cli.interactions import add_interaction_options
from chaoscore.cli.options import examples
from chaoscore.cli.suggesting import command

if TYPE_CHECKING:
    from chaoscore.cli.questions import Questions
    from chaoscore.domain.approval import RunDecision
    from chaoscore.domain.json import JsonObject

EXAMPLES = examples(
    ("chaoscore decide", "what waits; at a terminal also answer it, with the arrow keys"),
    ("chaoscore decide DEC-2026-01-31-x-0a1b2c3d", "one question with its context, options, consequences and risks"),
    ("chaoscore decide DEC-… --full", "the same with every line of every argument"),
    ("chaoscore decide DEC-… --option compact --rationale 'small change'", "answer it without being asked anything"),
    ("chaoscore decide DEC-… --option a --option c", "several options, where several may be chosen"),
    ("chaoscore decide DEC-… --approve-all --go-on", "every action of a run's question, and go on with it here"),
    ("chaoscore decide DEC-… --deny-all --pin-stdin", "in a script of yours: the PIN comes on standard input"),
    ("chaoscore decide DEC-… --text -", "a written answer from standard input"),
    ("chaoscore decide --web", "everything that waits in a browser, with a link that works once"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("decision", nargs="?", metavar="DECISION", help="its id (default: all that wait)")
    parser.add_argument("--change", metavar="CHANGE", help="only what agents ask about this change")
    parser.add_argument("--run", metavar="RUN", help="only what this run or command run waits for")
    answer = parser.add_argument_group("answering")
    chosen = answer.add_mutually_exclusive_group()
    chosen.add_argument("--option", action="append", metavar="ID", help="the chosen option (repeat for several)")
    chosen.add_argument("--approve-all", action="store_true", help="approve every action of a run's question")
    chosen.add_argument("--deny-all", action="store_true", help="deny every action of a run's question")
    answer.add_argument("--text", metavar="TEXT", help="the written answer; - reads standard input")
    answer.add_argument("--rationale", metavar="TEXT", help="the reason")
    answer.add_argument("--by", metavar="NAME", help="who answers an agent (default: the user of this system)")
    answer.add_argument("--hash", metavar="SHA256", help="hash of the question you saw: refused when it differs now")
    answer.add_argument(
        "--pin-stdin", action="store_true", help="read the approver's PIN from standard input, not from a prompt"
    )
    answer.add_argument("--go-on", action="store_true", help="after the answer go on with the run, here")
    parser.add_argument("--full", action="store_true", help="show everything to its end")
    parser.add_argument("--no-input", action="store_true", help="ask nothing, only show")
    runs = parser.add_argument_group("where runs are kept")
    runs.add_argument("--data-dir", dest="data_dir", metavar="DIR", help="the data directory of the runs")
    runs.add_argument("--policy", dest="policy_path", metavar="FILE", help="its policy file")
    runs.add_argument(
        "--fs-root",
        dest="fs_roots",
        action="append",
        metavar="DIR",
        help="with --go-on: a folder that fs.* may touch (repeat for more)",
    )
    add_web(parser)
    parser.set_defaults(log_level=None)
    add_interaction_options(parser)


def work(call: Call) -> int:
    import asyncio

    if wants_web(call.args):
        return serve_web(call)
    _refuse_misuse(call.args)
    return asyncio.run(_decide(call))


def _refuse_misuse(args: argparse.Namespace) -> None:
    from chaoscore.cli.agent_question import OF_RUNS
    from chaoscore.cli.answering import by_flags
    from chaoscore.domain.errors import InvalidInput

    names = ("option", "text", "rationale", "by", "hash", *OF_RUNS)
    answering = [name for name in names if getattr(args, name) not in (None, False)]
    if answering and args.decision is None:
        name = answering[0].replace("_", "-")
        raise InvalidInput(f"--{name} answers one decision; name it: {command('decide', 'DECISION')}", key="decision")
    if args.pin_stdin and not by_flags(args):
        raise InvalidInput("--pin-stdin goes with --option, --approve-all or --deny-all", key="pin-stdin")


async def _decide(call: Call) -> int:
    from chaoscore.cli.questions import open_questions
    from chaoscore.cli.run_question import of_run

    async with open_questions(call) as questions:
        if call.args.decision is None:
            return await _all(questions, call)
        decision = await questions.find_run_decision(call.args.decision)
        if decision is not None:
            return await of_run(questions, call, decision)
        return await _named(questions, call)


async def _all(questions: Questions, call: Call) -> int:
    from chaoscore.cli.agent_question import of_agent
    from chaoscore.cli.run_question import of_run
    from chaoscore.domain.approval import RunDecision

    terminal, args = call.terminal, call.args
    waiting = await questions.waiting(args.change, args.run)
    await _tell_gaps(questions, call)
    if terminal.as_json or not terminal.interactive or not waiting:
        return _list(questions, call, waiting)
    question = waiting[0] if len(waiting) == 1 else await _choose(call, waiting)
    if question is None:
        return questions.unreadable[0].code if questions.unreadable else Exit.OK
    if isinstance(question, RunDecision):
        return await of_run(questions, call, question)
    assert questions.agents is not None
    return await of_agent(questions.agents, call, question)


async def _tell_gaps(questions: Questions, call: Call) -> None:
    """What is not in the list, and why."""
    for store in questions.unreadable:
        call.terminal.warn(f"{store.store} cannot be read: {store.message}; its questions are not shown ({store.help})")
    if questions.cut:
        call.terminal.warn("more runs ask than are shown here; these are the oldest questions")
    strangers = await questions.strangers()
    if strangers:
        from chaoscore.cli.views.words import count

        call.terminal.warn(
            f"{count(strangers, 'question')} of runs in the interactions folder belong to another data directory; "
            "name it with --data-dir"
        )


def _list(questions: Questions, call: Call, waiting: list[RunDecision | JsonObject]) -> int:
    from chaoscore.cli.questions import question_json
    from chaoscore.cli.views.decision import waiting_table
    from chaoscore.cli.views.words import plain, unbroken

    root = str(questions.agents.settings.root) if questions.agents is not None else None
    if call.terminal.as_json:
        call.terminal.answer(
            {
                "root": root,
                "data_dir": None if questions.data_dir is None else str(questions.data_dir),
                "waiting": [question_json(question) for question in waiting],
                "unreadable": [store.to_json() for store in questions.unreadable],
            }
        )
    elif waiting:
        call.terminal.show(waiting_table(waiting), unbroken(f"see one: {command('decide', 'DECISION')}", "dim"))
    else:
        looked = [str(place) for place in (questions.data_dir, root) if place is not None]
        call.terminal.show(plain(f"nothing waits for a human in {' or '.join(looked) or 'what could be read'}"))
    return questions.unreadable[0].code if questions.unreadable else Exit.OK


async def _choose(call: Call, waiting: list[RunDecision | JsonObject]) -> RunDecision | JsonObject | None:
    from chaoscore.cli.picker import pick
    from chaoscore.cli.views.decision import text_of
    from chaoscore.domain.approval import RunDecision

    rows = [
        (item.id, item.question.title)
        if isinstance(item, RunDecision)
        else (text_of(item.get("decisionId")), text_of(item.get("title")))
        for item in waiting
    ]
    chosen = await pick(call.terminal, rows)
    names = [name for name, _ in rows]
    return waiting[names.index(chosen[0])] if chosen else None


async def _named(questions: Questions, call: Call) -> int:
    """A decision that is no question of a run known here: an agent's, or nobody's."""
    from chaoscore.cli.agent_question import OF_RUNS, answer_agent, of_agent, show_past
    from chaoscore.cli.answering import by_flags, refuse_flags
    from chaoscore.cli.views.decision import text_of
    from chaoscore.domain.errors import ChaosError, NotFound

    name = call.args.decision
    waiting = await questions.waiting(call.args.change, call.args.run)
    for store in questions.unreadable:
        call.terminal.warn(f"{store.store} cannot be read: {store.message}")
    if name in questions.copies:
        raise NotFound(
            f"{name!r} is a question of a run that is not in the data directory {str(questions.data_dir)!r}; name the "
            "one that the run is kept in with --data-dir",
            key="decision",
        )
    if questions.agents is None:
        raise ChaosError(f"{name!r} was not found: {questions.unreadable[-1].message}")
    refuse_flags(call.args, OF_RUNS, f"{name!r} is no question of a run known here")
    if by_flags(call.args):
        return await answer_agent(questions.agents, call)
    for question in waiting:
        if isinstance(question, dict) and text_of(question.get("decisionId")) == name:
            return await of_agent(questions.agents, call, question)
    code = await show_past(questions.agents, call)
    return questions.unreadable[0].code if code and questions.unreadable else code
