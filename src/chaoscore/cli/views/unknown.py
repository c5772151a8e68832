"""One action of which nobody knows whether it happened, as a person needs it to find out and to say so."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from chaoscore.app.runs.book import RunReport
from chaoscore.cli.suggesting import command
from chaoscore.cli.views.words import count, in_full, indented, one_line, plain, title, unbroken, when
from chaoscore.domain.action import Action
from chaoscore.domain.json import Json, is_object
from chaoscore.domain.plan import Step
from chaoscore.domain.run import dependencies_by_reference

ARGUMENT_LINES_SHOWN_MAX = 20
EVIDENCE_LINES_SHOWN_MAX = 20
DEPENDANTS_SHOWN_MAX = 5


def name_of(action: Action) -> str:
    """As the command line takes it: ``s3``, or ``s3,7`` for one item."""
    return action.step if action.item is None else f"{action.step},{action.item}"


def unknown_view(action: Action, report: RunReport, place: str) -> list[RenderableType]:
    """Everything that is known of it. ``place`` says which of how many this is."""
    step = report.plan.plan.step(action.step)
    return [
        Text(),
        Text.assemble(title(f"unknown {place}  {name_of(action)}  "), (one_line(step.why, 120), "dim")),
        Text.assemble(("  capability  ", "dim"), action.capability),
        Text.assemble(("  began       ", "dim"), when(action.started_at), f", {_tried(action.attempt)}"),
        Text.assemble(("  why         ", "dim"), one_line(_why(action), 400)),
        plain("  arguments", "dim"),
        *_cut(action.arguments if action.arguments else None, ARGUMENT_LINES_SHOWN_MAX, report),
        *_evidence(action.evidence, report),
    ]


def meanings_view(action: Action, report: RunReport) -> list[RenderableType]:
    """What each word leads to, for this action of this run."""
    step = report.plan.plan.step(action.step)
    return [
        plain("  what to say"),
        *(
            indented([f"{word:<9} {meaning}"], 4)
            for word, meaning in (
                ("retry", _retry(action)),
                ("happened", _happened(step, report)),
                ("give-up", _given_up(step, report)),
            )
        ),
    ]


def _tried(attempt: int) -> str:
    return "tried once" if attempt == 1 else f"this was attempt {attempt}"


def _why(action: Action) -> str:
    return f"{action.error.code}: {action.error.message}" if action.error is not None else "no result was recorded"


def _evidence(evidence: Json, report: RunReport) -> list[RenderableType]:
    if evidence is None:
        return [plain("  late result nothing arrived; look at the thing itself", "dim")]
    says = {
        "result": "it ended after all, and answered",
        "succeed": "it ended after all, and answered",
        "succeeded": "it ended after all, and answered",
        "error": "it ended with an error, which does not tell whether it had done its work",
        "cancelled": "it was cancelled, which does not tell whether it had done its work",
    }
    event = evidence.get("event") if is_object(evidence) else None
    said = says.get(event, "something arrived") if isinstance(event, str) else "something arrived"
    rest = {key: value for key, value in evidence.items() if key != "event"} if is_object(evidence) else evidence
    return [
        Text.assemble(("  late result ", "dim"), plain(said, "yellow")),
        *(_cut(rest, EVIDENCE_LINES_SHOWN_MAX, report) if rest else ()),
    ]


def _cut(value: Json, most: int, report: RunReport) -> list[RenderableType]:
    if value is None:
        return [plain("    none", "dim")]
    lines = in_full(value)
    shown: list[RenderableType] = [indented([one_line(line, 400) for line in lines[:most]], 4)]
    if len(lines) > most:
        more = f"    … {count(len(lines) - most, 'more line')}: {command('resolve', report.run.label, '--json')}"
        shown.append(unbroken(more, "dim"))
    return shown


def _retry(action: Action) -> str:
    return (
        f"it did not happen: {action.capability} is called again with these arguments when the run goes on (attempt "
        f"{action.attempt + 1}). if it did happen, it then happens a second time; the policy is asked again first"
    )


def _happened(step: Step, report: RunReport) -> str:
    using = [s.id for s in report.plan.plan.steps if step.id in dependencies_by_reference(s)]
    meaning = "it did happen: count it as done, never call it again. its output stays unknown"
    if not using:
        return meaning
    verb = "needs" if len(using) == 1 else "need"
    return f"{meaning}, also if a late result arrived; {_listed(using)} {verb} that output and may fail"


def _given_up(step: Step, report: RunReport) -> str:
    state, waiting = report.state, _after(step, report)
    meaning = "stop trying: count it as failed, whether or not it happened"
    if step.on_error == "stop" and any(view.state == "pending" for view in state.views()):
        return f"{meaning}. the run then stops: what has not begun is skipped"
    return f"{meaning}; {_listed(waiting)} is skipped" if waiting else meaning


def _after(step: Step, report: RunReport) -> list[str]:
    return [s.id for s in report.plan.plan.steps if step.id in report.state.dependencies(s)]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:DEPENDANTS_SHOWN_MAX])
    return shown if len(names) <= DEPENDANTS_SHOWN_MAX else f"{shown} and {len(names) - DEPENDANTS_SHOWN_MAX} more"
