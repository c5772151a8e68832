"""A run's question as a person must see it before answering: from the database alone, with exactly what each option
approves. ``decision`` shows what agents ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from chaoscore.cli.suggesting import command
from chaoscore.cli.views.approval import Lineage, approval_view, is_cut, where_of
from chaoscore.cli.views.decision import block, is_long, kind_text, labelled, option_view
from chaoscore.cli.views.words import count, indented, one_line, plain, title, unbroken, when
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.asking import preface
from chaoscore.domain.json import Json

GOAL_CHARS_SHOWN_MAX = 20_000


def run_question_view(
    decision: RunDecision, goal: str | None, lineage: Lineage | None, now: float, *, in_whole: bool = False
) -> list[RenderableType]:
    """``goal`` is the plan's objective in full, where the plan can be read; ``now`` seconds since the epoch."""
    question = decision.question
    shown: list[RenderableType] = [
        Text(),
        Text.assemble(title(one_line(question.title, 400)), "   ", kind_text(question.interaction_type)),
        labelled("decision", decision.id),
        labelled("run", decision.run),
    ]
    if goal is not None:
        shown += [plain("goal", "dim"), indented([one_line(goal, GOAL_CHARS_SHOWN_MAX)], 12)]
    shown += [
        labelled("asked at", when(decision.created_at)),
        labelled("until", _until(decision, now)),
        labelled("counts", doors_text(decision)),
    ]
    if decision.root is not None:
        shown.append(labelled("also in", decision.root))
    shown += [labelled("hash", decision.question_digest), Text(), *block(preface(decision), in_whole)]
    heading = "approval" if decision.kind == "approval" else "outcome"
    for number, asked in enumerate(decision.actions, start=1):
        shown += approval_view(asked, f"{heading} {number} of {len(decision.actions)}", lineage, in_whole=in_whole)
    if not in_whole and (is_long(preface(decision)) or any(is_cut(asked) for asked in decision.actions)):
        shown += [Text(), unbroken(f"not everything is shown: {command('decide', decision.id, '--full')}", "yellow")]
    shown.append(Text())
    approving = {asked.option for asked in decision.actions} if decision.kind == "approval" else set()
    for option in question.options:
        told: dict[str, Json] = option.to_json()
        if option.id in approving:
            told["description"] = None  # the arguments, which stand above
        shown += option_view(told, {})
    return [*shown, *_ending(decision)]


def doors_text(decision: RunDecision) -> str:
    """Whose word counts."""
    if decision.mode == "caller":
        return "an answer here, or the word of the agent that runs it"
    doors = [f"{door} (with the approver's PIN)" if door in ("web", "terminal") else door for door in decision.doors]
    return f"only a person's answer through: {', '.join(doors) or 'no door at all'}"


def chosen_view(decision: RunDecision, options: Sequence[str]) -> list[RenderableType]:
    """What an answer of these options does to each action, before it is sent."""
    if decision.kind == "outcome":
        return [Text.assemble("  the outcome of ", where_of(decision.actions[0]), ": ", title(", ".join(options)))]
    out: list[RenderableType] = []
    for asked in decision.actions:
        capability = one_line(asked.shown.get("capability"), 200)
        if asked.option in options:
            out.append(plain(f"  approves  {where_of(asked)}  {capability}", "green"))
        else:
            out.append(plain(f"  denies    {where_of(asked)}  {capability}: not now and not later in this run", "red"))
    denied = sum(1 for asked in decision.actions if asked.option not in options)
    if denied and denied < len(decision.actions):
        out.append(plain(f"  {count(denied, 'action')} not chosen: what is not chosen is denied", "yellow"))
    return out


def _until(decision: RunDecision, now: float) -> str:
    at = when(decision.expires_at)
    if decision.state == "waiting" and decision.has_expired(now):
        return f"{at}: it has expired"
    end = "without an answer it counts as no" if decision.kind == "approval" else "then it is asked anew"
    return f"{at}; {end}" if decision.state == "waiting" else at


def _ending(decision: RunDecision) -> list[RenderableType]:
    """How it ended, where it did."""
    response = decision.response
    if response is None:
        return (
            [] if decision.state == "waiting" else [Text(), plain(f"it is {decision.state}; no answer counts any more")]
        )
    reason = f": {one_line(response.rationale, 1_000)}" if response.rationale else ""
    by = f"{response.approver} through the door {response.door}, {when(response.at)}"
    taken = "" if decision.applied else "; the run takes it into account when it goes on"
    return [
        Text(),
        plain(f"answered with {', '.join(response.options)} by {by}{reason}{taken}", "green"),
        *chosen_view(decision, response.options),
    ]
