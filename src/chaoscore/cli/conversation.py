"""One goal or run with a person at the terminal: shown as it goes, asked where policy asks, to where it rests.

``achieve`` and ``run continue`` stand above it; below are the kernel's services, which decide everything. A yes is for
exactly the action that was shown: it is sent with that action's digest (law 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from rich.console import RenderableType

from chaoscore.app.achieve import Achievement, Goal
from chaoscore.app.approvals import Answer, AnswerDoor
from chaoscore.app.plans import NewPlan, PlanReport
from chaoscore.app.runs.book import ExecuteRequest, RunReport
from chaoscore.app.runs.driver import Listener
from chaoscore.app.runs.service import RunService
from chaoscore.app.tools import CallContext
from chaoscore.bootstrap import Kernel
from chaoscore.cli.terminal import Terminal
from chaoscore.cli.views.approval import approval_view, is_cut
from chaoscore.cli.views.plan import intent_view, plan_view
from chaoscore.cli.views.progress import Progress
from chaoscore.cli.views.words import count, plain
from chaoscore.domain.action import Action
from chaoscore.domain.approval import DENY, DENY_ALL, AskedAction, Difference, RunDecision
from chaoscore.domain.errors import Conflict, PinRefused
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import JsonObject, brief, is_object
from chaoscore.domain.lint import lint
from chaoscore.domain.plan import StepFacts
from chaoscore.domain.policy.model import Verdict
from chaoscore.domain.records import StoredPlan

LONG_WAIT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Manners:
    """``yes``: every approval is given beforehand. ``wait_seconds`` bounds the whole, ``None`` does not."""

    yes: bool = False
    wait_seconds: float | None = None


class Conversation:
    def __init__(self, kernel: Kernel, terminal: Terminal, manners: Manners) -> None:
        self._kernel = kernel
        self._terminal = terminal
        self._manners = manners
        self._progress = Progress(terminal)
        self._context = kernel.local_context()
        self._until: float | None = None
        self._plan: str | None = None
        self._put_off = False

    @property
    def context(self) -> CallContext:
        return self._context

    async def achieve(self, new_plan: NewPlan) -> Achievement:
        """Plan, run, ask, go on. The result's ``run`` is where it came to rest."""
        self._start_clock()
        async with self._telling() as listener:
            goal = Goal(new_plan, wait_seconds=self._patience())
            achievement = await self._kernel.services.achiever.achieve(goal, self._context, listener)
        if achievement.run is not None:
            achievement.run = await self._onward(achievement.run)
        return achievement

    async def go_on(self, run: ExecuteRequest) -> RunReport:
        """Take an existing run to where it rests. Raises what ``RunService.execute`` raises."""
        self._start_clock()
        report = await self._runs.look(run, self._context)
        self._plan = report.plan.plan.label
        self._progress.begin(report.plan.plan)
        return await self._onward(await self._execute(report.run.label))

    async def paused_run(self) -> str | None:
        """The label of the run that was going on, for whoever was interrupted."""
        if self._plan is None:
            return None
        run = await self._kernel.stores.runs.run_of_plan(self._plan)
        return None if run is None else run.label

    # -- going on ----------------------------------------------------------------------------------------------

    @property
    def _runs(self) -> RunService:
        return self._kernel.services.runs

    async def _onward(self, report: RunReport) -> RunReport:
        label = report.run.label
        while True:
            if report.in_motion and self._patience() > 0:
                report = await self._execute(label)
            elif not report.in_motion and report.run.status == "waiting-for-decision":
                if not await self._answer(report):
                    return report
                report = await self._execute(label)
            else:
                return report

    async def _execute(self, label: str) -> RunReport:
        request = ExecuteRequest(label=label, wait_seconds=self._patience())
        async with self._telling() as listener:
            return await self._runs.execute(request, self._context, listener)

    def _start_clock(self) -> None:
        if self._manners.wait_seconds is not None:
            self._until = asyncio.get_running_loop().time() + self._manners.wait_seconds

    def _patience(self) -> float:
        if self._until is None:
            return LONG_WAIT_SECONDS
        return max(0.0, self._until - asyncio.get_running_loop().time())

    # -- showing -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _telling(self) -> AsyncIterator[Listener]:
        """A listener for one call; what it heard is shown in order and to the end before the call's result is."""
        heard: asyncio.Queue[JsonObject | None] = asyncio.Queue()

        async def show() -> None:
            while (message := await heard.get()) is not None:
                if message.get("kind") == "plan":
                    await self._show_plan(str(message["plan"]))
                else:
                    self._progress.hear(message)

        task = asyncio.create_task(show())
        try:
            yield heard.put_nowait
        finally:
            heard.put_nowait(None)
            await task
            self._progress.end()

    async def _show_plan(self, label: str) -> None:
        stored = await self._kernel.stores.plans.plan_by_label(label)
        if stored is None:
            return
        self._plan = label
        report = plan_report(self._kernel, stored)
        self._terminal.tell(*intent_view(report))
        self._terminal.tell(*plan_view(report, self._kernel.services.registry))
        self._progress.begin(stored.plan)

    # -- asking ------------------------------------------------------------------------------------------------

    async def _answer(self, report: RunReport) -> bool:
        """Put the run's questions to the person, or take ``--yes``; false where one is left waiting."""
        answered = True
        for decision in report.run.decisions:
            if decision.kind != "approval" or decision.state != "waiting":
                continue
            options = await self._options(report, decision)
            if options is None or not await self._record(decision, options):
                answered = False
        return answered

    async def _options(self, report: RunReport, decision: RunDecision) -> tuple[str, ...] | None:
        """What is chosen; ``None`` where nobody can be asked or it is put off: then nothing of it is answered."""
        known = {action.key: action for action in report.state.actions()}
        actions = [(asked, known.get(asked.key)) for asked in decision.actions]
        waiting = [(asked, replace(action or _asked(asked), digest=asked.digest)) for asked, action in actions]
        if self._manners.yes and decision.mode == "caller":
            for number, (_, action) in enumerate(waiting, start=1):
                self._terminal.tell(*self._view(report, action, f"{number} of {len(waiting)}"))
            self._terminal.tell(plain(f"  approved by --yes: {count(len(waiting), 'action')}", "yellow"), plain(""))
            return tuple(asked.option for asked, _ in waiting)
        if self._manners.yes:
            self._terminal.warn("the policy's approvalMode is human: --yes does not answer for a person")
        if self._put_off or not self._terminal.interactive:
            return None
        chosen = await self._ask_all(report, waiting)
        if chosen is None:
            self._put_off = True
            if len(waiting) > 1:
                self._terminal.tell(plain("  left for later; none of these was answered", "yellow"))
            return None
        return chosen or (DENY if len(waiting) == 1 else DENY_ALL,)

    async def _record(self, decision: RunDecision, options: tuple[str, ...]) -> bool:
        """Send the answer; a PIN is asked for where the policy wants a person."""
        approvals = self._kernel.services.approvals
        door: AnswerDoor = "caller" if self._manners.yes and decision.mode == "caller" else "terminal"
        pin = None
        if approvals.needs_pin(decision, door):
            pin = await self._terminal.ask_secret("  the approver's PIN: ")
            if pin is None:
                self._put_off = True
                return False
        one = options[0] if len(options) == 1 else None
        choice = Choice(one, options if one is None else ())
        answer = Answer(decision.id, choice, decision.question_digest, door, self._context.principal.key, pin)
        try:
            await approvals.answer(answer)
        except (Conflict, PinRefused) as refused:
            self._terminal.warn(refused.message)
            self._put_off = isinstance(refused, PinRefused)
            return not self._put_off  # somebody else answered first: the run can be looked at again
        return True

    async def _ask_all(self, report: RunReport, waiting: list[tuple[AskedAction, Action]]) -> tuple[str, ...] | None:
        """The options that are approved; ``None`` when any of it is left for later."""
        chosen: list[str] = []
        for number, (asked, action) in enumerate(waiting, start=1):
            self._show_action(report, action, f"{number} of {len(waiting)}")
            for difference in asked.changed:
                self._terminal.ask_about(
                    plain(f"  changed since it was last shown: {changed_text(difference)}", "yellow")
                )
            word = await self._ask_one(report, action, len(waiting) - number)
            if word == "later":
                return None
            if word == "all":
                rest = await self._ask_for_the_rest(report, waiting, number)
                return None if rest is None else (*chosen, *rest)
            if word == "yes":
                chosen.append(asked.option)
        return tuple(chosen)

    async def _ask_for_the_rest(
        self, report: RunReport, waiting: list[tuple[AskedAction, Action]], number: int
    ) -> tuple[str, ...] | None:
        """Show what is left before one yes is taken for all of it."""
        for place, (_, action) in enumerate(waiting[number:], start=number + 1):
            self._show_action(report, action, f"{place} of {len(waiting)}", in_whole=True)
        rest = waiting[number - 1 :]
        try:
            word = await self._terminal.ask(f"  yes to all {len(rest)}? [y]es  [l]ater\n  > ", ["yes", "later"])
        except EOFError:
            word = "later"
        return None if word == "later" else tuple(asked.option for asked, _ in rest)

    async def _ask_one(self, report: RunReport, action: Action, following: int) -> str:
        choices = ["yes", "no", "later"]
        says = "  [y]es, do exactly this   [n]o, never   [l]ater"
        if following:
            choices.append("all")
            says += f"   [a]ll: show the {following} after it too, then one yes"
        if is_cut(action):
            choices.append("view")
            says += "   [v]iew everything"
        while True:
            try:
                word = await self._terminal.ask(f"{says}\n  > ", choices)
            except EOFError:
                return "later"
            if word != "view":
                return word
            self._show_action(report, action, "in full", in_whole=True)

    def _show_action(self, report: RunReport, action: Action, place: str, *, in_whole: bool = False) -> None:
        self._terminal.ask_about(*self._view(report, action, place, in_whole=in_whole))

    def _view(self, report: RunReport, action: Action, place: str, *, in_whole: bool = False) -> list[RenderableType]:
        plan, registry = report.plan.plan, self._kernel.services.registry
        facts = lint(plan.steps, registry, self._kernel.services.limits).facts.get(action.step, StepFacts())
        return approval_view(action, plan, facts, registry, place, in_whole=in_whole)


def plan_report(kernel: Kernel, stored: StoredPlan) -> PlanReport:
    """A stored plan with what policy says of it now, for whoever runs this process."""
    services = kernel.services
    facts = lint(stored.plan.steps, services.registry, services.limits).facts
    return PlanReport(stored, stored.handle or "", services.plans.verdicts(stored.plan), dict(facts))


def _asked(asked: AskedAction) -> Action:
    """An action that has not begun to wait, as the question shows it."""
    arguments = asked.shown.get("arguments")
    return Action(
        asked.step,
        asked.item,
        str(asked.shown.get("capability")),
        arguments=arguments if is_object(arguments) else {},
        verdict=Verdict("REQUIRE_APPROVAL", str(asked.shown.get("rule")), ()),
    )


def changed_text(difference: Difference) -> str:
    """One difference as a line: where, before, after."""
    before = "nothing" if difference.absent == "before" else brief(difference.before)
    after = "nothing" if difference.absent == "after" else brief(difference.after)
    return f"{difference.pointer or '/'}: {before} → {after}"
