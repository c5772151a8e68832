"""``chaoscore achieve``: the whole loop for one goal, with a person at the terminal."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from chaoscore.cli.call import Call
from chaoscore.cli.exits import Exit
from chaoscore.cli.options import add_common, add_provider, add_roots, examples

if TYPE_CHECKING:
    from chaoscore.app.plans import NewPlan
    from chaoscore.bootstrap import Kernel

EXAMPLES = examples(
    ('chaoscore achieve "read README.md" --root .', "a goal in words; the rules planner understands it without a key"),
    ("chaoscore achieve --plan examples/index-docs.json --root .", "a plan from a file; the write is asked for"),
    ("chaoscore achieve --plan plan.json --root . --yes --json", "in a script: approve everything, one JSON answer"),
    ("chaoscore achieve --plan plan.json --dry-run", "lint it and show what policy says, run nothing"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("goal", nargs="?", help="the goal in words (with --plan: a name for what the plan does)")
    parser.add_argument("--plan", metavar="FILE", help="a plan as JSON; - reads standard input")
    parser.add_argument(
        "--constraint", action="append", default=[], metavar="TEXT", help="a condition to keep (repeat)"
    )
    parser.add_argument("--dry-run", action="store_true", help="plan and show policy's verdicts; run nothing")
    parser.add_argument("--remember", metavar="KEY", help="keep the outcome as a memory under this key")
    add_roots(parser)
    add_provider(parser)
    add_answering(parser)
    add_common(parser)


def add_answering(parser: argparse.ArgumentParser) -> None:
    """How approvals are answered and how long is waited; ``run continue`` takes the same."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--yes", action="store_true", help="approve every action that policy asks about")
    how.add_argument("--no-input", action="store_true", help="ask nobody; actions that need approval are left waiting")
    parser.add_argument("--wait", type=_seconds, metavar="SECONDS", help="pause after this long (default: wait it out)")


def work(call: Call) -> int:
    from chaoscore.app.plans import NewPlan
    from chaoscore.cli.plan_file import read_plan
    from chaoscore.domain.errors import InvalidInput

    goal: str | None = call.args.goal
    plan: str | None = call.args.plan
    if plan is None and not (goal or "").strip():
        raise InvalidInput("give a goal in words, or a plan with --plan FILE", key="goal")
    constraints: list[str] = call.args.constraint
    if plan is not None:
        wanted = read_plan(plan, goal, constraints)
    else:
        wanted = NewPlan(objective=goal, constraints=tuple(constraints))
    if call.args.dry_run:
        return call.run(lambda kernel: _look_only(kernel, call, wanted))
    return call.run(lambda kernel: _achieve(kernel, call, wanted))


async def _look_only(kernel: Kernel, call: Call, wanted: NewPlan) -> int:
    from chaoscore.app.planning import NeedsPlan
    from chaoscore.app.plans import plan_json
    from chaoscore.cli.ending import needs_plan
    from chaoscore.cli.views.plan import intent_view, plan_view

    registry = kernel.services.registry
    made = await kernel.services.plans.make(wanted, kernel.local_context())
    if isinstance(made, NeedsPlan):
        return needs_plan(call.terminal, made)
    call.terminal.show(*intent_view(made), *plan_view(made, registry))
    if call.terminal.as_json:
        call.terminal.answer({"ok": True, "status": "PLANNED", "data": plan_json(made, registry)})
    return Exit.OK


async def _achieve(kernel: Kernel, call: Call, wanted: NewPlan) -> int:
    from chaoscore.cli.conversation import Conversation
    from chaoscore.cli.ending import finish, manners_of, needs_plan, tell_of_the_pause

    conversation = Conversation(kernel, call.terminal, manners_of(call))
    try:
        achievement = await conversation.achieve(wanted)
    except asyncio.CancelledError:
        await tell_of_the_pause(conversation, call.terminal)
        raise
    if achievement.run is None:
        if achievement.needs_plan is not None:
            return needs_plan(call.terminal, achievement.needs_plan)
        assert achievement.failure is not None
        raise achievement.failure
    return await finish(kernel, call, conversation, achievement.run, achievement)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 604_800:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 604800")
    return value
