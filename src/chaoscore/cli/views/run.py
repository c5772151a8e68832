"""A run as it stands or ended: every step with its state and reason, the verdict, and what came out."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from chaoscore.app.runs.book import RunReport
from chaoscore.cli.suggesting import command
from chaoscore.cli.views.words import (
    SIGNS,
    count,
    in_full,
    indented,
    one_line,
    plain,
    rows,
    title,
    unbroken,
    when,
    word,
)
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.run import StepView

OUTPUT_LINES_SHOWN_MAX = 40


def run_view(report: RunReport) -> list[RenderableType]:
    """Steps, verdict and identity; outputs are ``result_view``'s."""
    run = report.run
    status = "running" if report.in_motion else run.status
    return [
        Text.assemble(("goal  ", "dim"), one_line(report.plan.plan.objective, 400)),
        Text.assemble(("run   ", "dim"), run.label, "  ", word(status), ("  begun ", "dim"), when(run.created_at)),
        Text(),
        steps_table(report),
        Text(),
        *verdict_view(report),
        *waiting_view(report.run.decisions),
    ]


def waiting_view(decisions: Sequence[RunDecision]) -> list[RenderableType]:
    """What waits for a person, each with the command that answers it."""
    shown: list[RenderableType] = []
    for decision in decisions:
        if decision.state == "waiting":
            shown += [
                Text.assemble(title("waits     "), plain(one_line(decision.question.title, 400))),
                Text.assemble(("          until ", "dim"), when(decision.expires_at)),
                unbroken(f"          {command('decide', decision.id)}", "yellow"),
            ]
        elif decision.state == "answered" and not decision.applied:
            shown.append(plain(f"answered  {decision.id}; the run takes it into account when it goes on", "dim"))
    return [Text(), *shown] if shown else []


def steps_table(report: RunReport) -> RenderableType:
    return rows(
        ("step", "capability", "state", ""),
        [
            (f"{SIGNS.get(view.state, ' ')} {view.step.id}", view.step.capability, word(view.state), _why(view))
            for view in report.state.views()
        ],
    )


def _why(view: StepView) -> str:
    parts = []
    if view.items is not None:
        parts.append(count(view.items, "item"))
    if view.error is not None:
        parts.append(f"{view.error.code}: {view.error.message}")
    elif view.checks:
        parts.append(f"{count(len(view.checks), 'check')} held")
    return ", ".join(parts)


def verdict_view(report: RunReport) -> list[RenderableType]:
    """The verdict, from recorded facts alone."""
    evaluation = report.state.evaluate()
    counts = ", ".join(f"{number} {state}" for state, number in sorted(evaluation.counts.items()))
    checks = "nothing was checked"
    if evaluation.checks:
        held = evaluation.checks - evaluation.checks_failed
        checks = f"{held} of {count(evaluation.checks, 'check')} held"
    shown: list[RenderableType] = [
        Text.assemble(title("verdict   "), word(evaluation.outcome), f"  {counts}; {checks}", no_wrap=True)
    ]
    if evaluation.outcome != "achieved":
        shown += [
            plain(f"          {reason.step}: {reason.reason}")
            for reason in evaluation.reasons
            if reason.state not in ("succeeded", "pending")
        ]
    return [Group(*shown)]


def result_view(report: RunReport, step: str | None = None) -> list[RenderableType]:
    """The output of the named step in full, or of those steps that no other step used, cut where it is long."""
    views = report.state.views()
    used = {name for view in views for name in report.state.dependencies(view.step)}
    out: list[RenderableType] = []
    for view in views:
        if not view.usable or (view.step.id != step if step is not None else view.step.id in used):
            continue
        lines = in_full(view.output)
        most = len(lines) if step is not None else OUTPUT_LINES_SHOWN_MAX
        out.append(Text.assemble(title(f"{view.step.id} "), (view.step.capability, "dim")))
        out.append(indented(lines[:most], 2))
        if len(lines) > most:
            how = command("run", "show", report.run.label, "--step", view.step.id)
            more = f"  … {len(lines) - most} more lines: {how}"
            out.append(unbroken(more, "dim"))
    return out
