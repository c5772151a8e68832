"""How a goal or run ends on the terminal: what came out, the verdict, what is remembered, whether the audit holds."""

from __future__ import annotations

import json

from rich.text import Text

from chaoscore.app.achieve import Achievement
from chaoscore.app.envelope import Envelope
from chaoscore.app.kernel.report import run_envelope
from chaoscore.app.kernel.tools import achievement_envelope, needs_plan_envelope
from chaoscore.app.planning import NeedsPlan
from chaoscore.app.runs.book import RunReport
from chaoscore.bootstrap import Kernel
from chaoscore.cli.call import Call
from chaoscore.cli.conversation import Conversation, Manners
from chaoscore.cli.exits import Exit
from chaoscore.cli.suggesting import command, copyable, going_on
from chaoscore.cli.terminal import Terminal, visible
from chaoscore.cli.views.run import result_view, run_view
from chaoscore.cli.views.words import one_line, plain, title, unbroken
from chaoscore.domain.audit import ChainReport
from chaoscore.domain.json import Json, JsonObject, is_array, is_object
from chaoscore.domain.memory import Memory, NewMemory

AUDIT_EVENTS_VERIFIED_MAX = 20_000
"""A longer audit is verified by ``chaoscore audit verify`` alone: it would cost every goal seconds."""
_EXITS = {
    "ACHIEVED": Exit.OK,
    "PLANNED": Exit.OK,
    "WAITING_FOR_APPROVAL": Exit.WAITING,
    "NEEDS_ATTENTION": Exit.ATTENTION,
    "NEEDS_PLAN": Exit.NEEDS_PLAN,
    "RUNNING": Exit.RUNNING,
    "PAUSED": Exit.RUNNING,
}


def manners_of(call: Call) -> Manners:
    """What ``--yes`` and ``--wait`` ask for."""
    return Manners(yes=call.args.yes, wait_seconds=call.args.wait)


async def finish(
    kernel: Kernel,
    call: Call,
    conversation: Conversation,
    report: RunReport,
    achievement: Achievement | None = None,
    told: JsonObject | None = None,
) -> int:
    """Show where the run rests and answer the exit code. An audit that does not hold fails whatever was achieved.

    ``told`` joins the document of ``--json``.
    """
    registry = kernel.services.registry
    envelope = (
        run_envelope(report, copyable=copyable())
        if achievement is None
        else achievement_envelope(achievement, registry, copyable())
    )
    key: str | None = getattr(call.args, "remember", None)
    kept = await _remember(kernel, conversation, key, report) if key is not None else None
    newest = await kernel.stores.audit.tail(None, None, 1, None)
    events = newest[0][0] if newest else 0
    chain = await kernel.stores.audit.verify() if events <= AUDIT_EVENTS_VERIFIED_MAX else None
    fault = None if chain is None else chain.problem
    terminal = call.terminal
    for warning in report.notes:
        terminal.warn(warning)
    terminal.show(*run_view(report), *result_view(report), Text())
    terminal.show(Text.assemble(title("remembered  "), _remembered(kept)))
    terminal.show(Text.assemble(title("audit       "), *_audit(chain, events)))
    _next(terminal, report, envelope)
    if terminal.as_json:
        verified = None if chain is None else fault is None
        audit: dict[str, Json] = {"events": events, "verified": verified, "fault": fault}
        remembered = kept.to_json() if kept else None
        terminal.answer({**envelope.to_json(), "remembered": remembered, "audit": audit, **(told or {})})
    return Exit.FAILED if fault is not None else _EXITS.get(envelope.status, Exit.FAILED)


def needs_plan(terminal: Terminal, needed: NeedsPlan) -> int:
    """Say what was not understood, what there is to plan with, and how a plan is given."""
    envelope = needs_plan_envelope(needed)
    terminal.error(envelope.message, "write a plan like the example and give it with --plan FILE")
    fitting, example = envelope.data.get("capabilities"), envelope.data.get("example")
    if is_array(fitting):
        terminal.show(title("capabilities that fit"))
        for capability in fitting:
            if is_object(capability):
                name, about = str(capability.get("name")), one_line(capability.get("description"), 100)
                terminal.show(Text.assemble("  ", name, ("  " + about, "dim")))
    if example is not None:
        text = json.dumps(example, ensure_ascii=False, indent=2)
        terminal.show(Text(), title("example"), *(plain(f"  {line}") for line in text.split("\n")))
    if terminal.as_json:
        terminal.answer(envelope.to_json())
    return Exit.NEEDS_PLAN


async def tell_of_the_pause(conversation: Conversation, terminal: Terminal) -> None:
    """After Ctrl-C: nothing new is started; how to go on."""
    label = await conversation.paused_run()
    if label is not None:
        terminal.interrupted(f"run {label} is paused", going_on(label))


async def _remember(kernel: Kernel, conversation: Conversation, key: str, report: RunReport) -> Memory:
    evaluation = report.state.evaluate()
    value: dict[str, Json] = {
        "objective": report.plan.plan.objective,
        "outcome": evaluation.outcome,
        "counts": dict(evaluation.counts),
        "run": report.run.label,
        "plan": report.run.plan,
    }
    memory = NewMemory(key, value, ("run", evaluation.outcome), source="run")
    return await kernel.services.memories.remember(memory, conversation.context)


def _remembered(kept: Memory | None) -> Text:
    if kept is None:
        return plain("nothing for good (--remember KEY keeps the outcome)", "dim")
    return Text.assemble(f"{visible(kept.key)} version {kept.version}: ", (one_line(kept.value, 160), "dim"))


def _audit(chain: ChainReport | None, events: int) -> tuple[Text, ...]:
    if chain is None:
        return (unbroken(f"{events} events; {command('audit', 'verify')} walks all of them"),)
    if chain.fault is not None:
        return (plain(f"NOT WHOLE: {chain.fault}", "bold red"),)
    if chain.problem is not None:
        return (plain(f"NOT ACCOUNTED FOR: {chain.problem}", "bold red"),)
    return (plain("verified", "green"), plain(f", {chain.events} events from the first to the newest"))


def _next(terminal: Terminal, report: RunReport, envelope: Envelope) -> None:
    label = report.run.label
    how = {
        "WAITING_FOR_APPROVAL": f"waiting for approval; answer with: {going_on(label)}",
        "NEEDS_ATTENTION": f"nobody knows whether an action happened; say so with: {command('resolve', label)}",
        "RUNNING": f"paused; go on with: {going_on(label)}",
        "PAUSED": f"paused; go on with: {going_on(label)}",
    }.get(envelope.status)
    if how is not None:
        terminal.tell(Text(), unbroken(how, "yellow"))
