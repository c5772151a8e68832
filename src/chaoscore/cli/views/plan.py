"""A plan before it runs: its steps, what policy says of each, how risky it is, and what flows where."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType
from rich.text import Text

from chaoscore.app.plans import PlanReport
from chaoscore.cli.views.words import count, one_line, plain, rows, title, word
from chaoscore.domain.capability import Capability
from chaoscore.domain.plan import Author, Step


def plan_view(report: PlanReport, capabilities: Mapping[str, Capability]) -> list[RenderableType]:
    plan = report.plan.plan
    lines = []
    for step in plan.steps:
        capability, verdict = capabilities.get(step.capability), report.verdicts[step.id]
        effect = word(verdict.effect)
        if verdict.pending:
            effect.append(" (asked again when its arguments are known)", "dim")
        lines.append(
            (
                step.id,
                step.capability,
                word(capability.risk) if capability is not None else plain("?"),
                effect,
                _needs(report, step),
                step.why or "–",
            )
        )
    shown: list[RenderableType] = [
        Text.assemble(("goal  ", "dim"), one_line(plan.objective, 400)),
        Text.assemble(("plan  ", "dim"), plan.label, ("  written by ", "dim"), _author(plan.author)),
        Text(),
        rows(("step", "capability", "risk", "policy", "after", "why"), lines),
    ]
    shown += _warnings(report)
    return [*shown, Text()]


def intent_view(report: PlanReport) -> list[RenderableType]:
    """The intent a plan was made from, where there is one."""
    intent = report.plan.plan.intent
    if not intent:
        return []
    return [title("intent"), rows(("", ""), [(key, one_line(value, 300)) for key, value in intent.items()]), Text()]


def _author(author: Author) -> str:
    who = " ".join(part for part in (author.provider, author.model) if part)
    return f"{author.source} ({who})" if who else author.source


def _needs(report: PlanReport, step: Step) -> str:
    facts = report.facts.get(step.id)
    names = ", ".join(sorted(facts.depends_on)) if facts is not None else ""
    if step.for_each is not None:
        return f"{names}, once per item (at most {step.for_each.max})"
    return names or "–"


def _warnings(report: PlanReport) -> list[RenderableType]:
    out: list[RenderableType] = []
    for step in report.plan.plan.steps:
        verdict, facts = report.verdicts[step.id], report.facts.get(step.id)
        if verdict.effect == "DENY":
            out.append(plain(f"! {step.id} will never run: {'; '.join(verdict.reasons)}", "red"))
        for pointer in facts.untrusted_sinks if facts is not None else ():
            sources = ", ".join(facts.derives_from.get(pointer, ())) if facts is not None else ""
            out.append(plain(f"! {step.id} {pointer} decides where something goes and comes from {sources}", "yellow"))
    asking = sum(1 for verdict in report.verdicts.values() if verdict.effect == "REQUIRE_APPROVAL")
    if asking:
        out.append(plain(f"{count(asking, 'step')} will ask for approval", "yellow"))
    return [Text(), *out] if out else []
