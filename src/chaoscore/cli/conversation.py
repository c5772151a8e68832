"""One goal or run with a person at the terminal: shown as it goes, asked where policy asks, to where it rests.

``achieve`` and ``run continue`` stand above it; below are the kernel's services, which decide everything. A yes is for
exactly the action that was shown: it is sent with that action's digest (law 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.console import RenderableType

from chaoscore.app.achieve import Achievement, Goal
from chaoscore.app.plans import NewPlan, PlanReport
from chaoscore.app.runs.answers import Answer
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
from chaoscore.domain.json import JsonObject
from chaoscore.domain.lint import lint
from chaoscore.domain.plan import StepFacts
from chaoscore.domain.records import StoredPlan

TERMINAL_DOOR = "terminal"
SCRIPT_DOOR = "caller"
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
                answers, door = await self._answers(report)
                if not answers:
                    return report
                await self._runs.answer(ExecuteRequest(label=label), answers, door, self._context)
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

    async def _answers(self, report: RunReport) -> tuple[list[Answer], str]:
        """A word on each waiting action, or none where nobody can be asked or it is put off."""
        waiting = [a for a in report.state.actions() if a.state == "waiting-for-decision" and a.digest is not None]
        if any(action.verdict is not None and action.verdict.mode == "human" for action in waiting):
            self._terminal.warn("the policy's approvalMode is human: this terminal cannot answer for a person")
            return [], TERMINAL_DOOR
        if self._manners.yes:
            for number, action in enumerate(waiting, start=1):
                self._terminal.tell(*self._view(report, action, f"{number} of {len(waiting)}"))
            self._terminal.tell(plain(f"  approved by --yes: {count(len(waiting), 'action')}", "yellow"), plain(""))
            return [_answer(action, True) for action in waiting], SCRIPT_DOOR
        if self._put_off or not self._terminal.interactive:
            return [], TERMINAL_DOOR
        return await self._ask_all(report, waiting), TERMINAL_DOOR

    async def _ask_all(self, report: RunReport, waiting: list[Action]) -> list[Answer]:
        answers: list[Answer] = []
        for number, action in enumerate(waiting, start=1):
            self._show_action(report, action, f"{number} of {len(waiting)}")
            word = await self._ask_one(report, action, len(waiting) - number)
            if word == "later":
                self._put_off = True
                break
            if word == "all":
                return answers + await self._ask_for_the_rest(report, waiting, number)
            answers.append(_answer(action, word == "yes"))
        return answers

    async def _ask_for_the_rest(self, report: RunReport, waiting: list[Action], number: int) -> list[Answer]:
        """Show what is left before one yes is taken for all of it."""
        for place, action in enumerate(waiting[number:], start=number + 1):
            self._show_action(report, action, f"{place} of {len(waiting)}", in_whole=True)
        rest = waiting[number - 1 :]
        try:
            word = await self._terminal.ask(f"  yes to all {len(rest)}? [y]es  [l]ater\n  > ", ["yes", "later"])
        except EOFError:
            word = "later"
        self._put_off = word == "later"
        return [] if self._put_off else [_answer(action, True) for action in rest]

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


def _answer(action: Action, approve: bool) -> Answer:
    assert action.digest is not None
    return Answer(action.step, action.item, action.digest, approve)
