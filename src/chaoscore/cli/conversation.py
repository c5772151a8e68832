"""One goal or run with a person at the terminal: shown as it goes, asked where policy asks, to where it rests.

``achieve`` and ``run continue`` stand above it; below are the kernel's services, which decide everything. A yes is for
exactly the action that was shown: it is sent with that action's digest (law 4).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from chaoscore.app.achieve import Achievement, Goal
from chaoscore.app.approvals import Answer
from chaoscore.app.plans import NewPlan, PlanReport
from chaoscore.app.runs.book import ExecuteRequest, RunReport
from chaoscore.app.runs.driver import Listener
from chaoscore.app.runs.service import RunService
from chaoscore.app.tools import CallContext
from chaoscore.bootstrap import Kernel
from chaoscore.cli.answering import choice_of, send, why_not_here
from chaoscore.cli.terminal import Terminal
from chaoscore.cli.views.approval import Lineage, approval_view, is_cut
from chaoscore.cli.views.plan import intent_view, plan_view
from chaoscore.cli.views.progress import Progress
from chaoscore.cli.views.words import count, plain
from chaoscore.domain.approval import DENY, DENY_ALL, AskedAction, RunDecision
from chaoscore.domain.errors import Conflict, PinRefused
from chaoscore.domain.json import JsonObject
from chaoscore.domain.lint import lint
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
            if self._manners.yes and decision.mode == "caller":
                await self._approve(report, decision)
            elif not await self._put(report, decision):
                answered = False
        return answered

    async def _approve(self, report: RunReport, decision: RunDecision) -> None:
        """The yes that was given beforehand; what it is for is shown all the same."""
        lineage, actions = self._lineage(report), decision.actions
        for number, asked in enumerate(actions, start=1):
            self._terminal.tell(*approval_view(asked, f"approval {number} of {len(actions)}", lineage))
        self._terminal.tell(plain(f"  approved by --yes: {count(len(actions), 'action')}", "yellow"), plain(""))
        choice = choice_of(tuple(asked.option for asked in actions))
        digest, approver = decision.question_digest, self._context.principal.key
        try:
            await self._kernel.services.approvals.answer(Answer(decision.id, choice, digest, "caller", approver))
        except Conflict as refused:  # somebody else answered first: the run can be looked at again
            self._terminal.warn(refused.message)

    async def _put(self, report: RunReport, decision: RunDecision) -> bool:
        """Ask the person and send their answer; false where nobody can be asked or it is put off: then nothing of the
        question is answered."""
        if self._manners.yes:
            self._terminal.warn("the policy's approvalMode is human: --yes does not answer for a person")
        if self._put_off or not self._terminal.interactive:
            return False
        refusal = why_not_here(self._kernel, decision)
        if refusal is not None:
            for number, asked in enumerate(decision.actions, start=1):
                self._show(report, asked, f"approval {number} of {len(decision.actions)}")
            self._terminal.ask_about(plain(f"  {refusal}", "yellow"))
            return False
        chosen = await self._ask_all(report, decision.actions)
        if chosen is None:
            return self._leave(decision)
        options = chosen or (DENY if DENY in decision.question.option_ids else DENY_ALL,)
        try:
            sent = await send(self._kernel, self._terminal, decision, choice_of(options), decision.question_digest)
        except Conflict as refused:  # somebody else answered first: the run can be looked at again
            self._terminal.warn(refused.message)
            return True
        except PinRefused as refused:
            self._terminal.warn(refused.message)
            sent = None
        return sent is not None or self._leave(decision)

    def _leave(self, decision: RunDecision) -> bool:
        self._put_off = True
        what = "it was not answered" if len(decision.actions) == 1 else "none of these was answered"
        self._terminal.tell(plain(f"  left for later; {what}", "yellow"))
        return False

    async def _ask_all(self, report: RunReport, actions: Sequence[AskedAction]) -> tuple[str, ...] | None:
        """The options that are approved; ``None`` when any of it is left for later."""
        chosen: list[str] = []
        for number, asked in enumerate(actions, start=1):
            self._show(report, asked, f"approval {number} of {len(actions)}")
            word = await self._ask_one(report, asked, len(actions) - number)
            if word == "later":
                return None
            if word == "all":
                rest = await self._ask_for_the_rest(report, actions, number)
                return None if rest is None else (*chosen, *rest)
            if word == "yes":
                chosen.append(asked.option)
        return tuple(chosen)

    async def _ask_for_the_rest(
        self, report: RunReport, actions: Sequence[AskedAction], number: int
    ) -> tuple[str, ...] | None:
        """Show what is left before one yes is taken for all of it."""
        for place, asked in enumerate(actions[number:], start=number + 1):
            self._show(report, asked, f"approval {place} of {len(actions)}", in_whole=True)
        rest = actions[number - 1 :]
        try:
            word = await self._terminal.ask(f"  yes to all {len(rest)}? [y]es  [l]ater\n  > ", ["yes", "later"])
        except EOFError:
            word = "later"
        return None if word == "later" else tuple(asked.option for asked in rest)

    async def _ask_one(self, report: RunReport, asked: AskedAction, following: int) -> str:
        choices = ["yes", "no", "later"]
        says = "  [y]es, do exactly this   [n]o, never   [l]ater"
        if following:
            choices.append("all")
            says += f"   [a]ll: show the {following} after it too, then one yes"
        if is_cut(asked):
            choices.append("view")
            says += "   [v]iew everything"
        while True:
            try:
                word = await self._terminal.ask(f"{says}\n  > ", choices)
            except EOFError:
                return "later"
            if word != "view":
                return word
            self._show(report, asked, "in full", in_whole=True)

    def _show(self, report: RunReport, asked: AskedAction, heading: str, *, in_whole: bool = False) -> None:
        self._terminal.ask_about(*approval_view(asked, heading, self._lineage(report), in_whole=in_whole))

    def _lineage(self, report: RunReport) -> Lineage:
        return Lineage.of(report.plan.plan, self._kernel.services.registry, self._kernel.services.limits)


def plan_report(kernel: Kernel, stored: StoredPlan) -> PlanReport:
    """A stored plan with what policy says of it now, for whoever runs this process."""
    services = kernel.services
    facts = lint(stored.plan.steps, services.registry, services.limits).facts
    return PlanReport(stored, stored.handle or "", services.plans.verdicts(stored.plan), dict(facts))
