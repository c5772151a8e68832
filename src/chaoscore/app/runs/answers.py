"""A word on a run that stands still or moves: yes or no to a waiting action, what to do about an unknown outcome, stop.

Each word is one transaction under a claim of its own, or is handed to the driver where the run is in motion here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from chaoscore.app.runs.book import ExecuteRequest, RunBook, RunReport
from chaoscore.app.runs.driver import denied
from chaoscore.app.runs.supervisor import Supervisor
from chaoscore.app.tools import CallContext
from chaoscore.domain.action import Action, ActionError, Event
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import Busy, Conflict, InvalidInput, NotFound
from chaoscore.domain.records import RUN_FINISHED, Changes, Run, RunStatus, StoredPlan
from chaoscore.domain.run import recover


@dataclass(frozen=True, slots=True)
class Answer:
    """A word on one waiting action: yes or no to exactly what ``digest`` names."""

    step: str
    item: int | None
    digest: str
    approve: bool


class RunAnswers:
    def __init__(self, book: RunBook, supervisor: Supervisor) -> None:
        self._book = book
        self._supervisor = supervisor

    async def answer(
        self, request: ExecuteRequest, answers: Sequence[Answer], door: str, context: CallContext
    ) -> RunReport:
        """Approve or deny waiting actions one by one; ``execute`` then goes on.

        Raises ``Conflict`` when an action no longer waits for exactly what was shown, ``InvalidInput`` when the policy
        wants a person and this door cannot answer for one.
        """
        book = self._book
        plan, run = await book.existing(request, context)
        _check(run, answers)
        facts = book.facts(plan, run.label, context)
        approver = context.principal.key
        yes = [answer for answer in answers if answer.approve]
        no = [answer for answer in answers if not answer.approve]
        grants = [book.new_grant(run, answer.digest, door, approver) for answer in yes]
        events = [facts.granted(grant, a.step, a.item) for a, grant in zip(yes, grants, strict=True)]
        async with self._supervisor.alone(run.label) as active:
            if active is not None:
                active.driver.deny({(a.step, a.item): (a.digest, approver) for a in no})
                if grants:
                    await active.driver.grant(grants, events)
                return await self.look(request, context)
            claim = await book.claim(run.label)
            changes, written = Changes(), list[AuditEvent]()
            try:
                run = await book.reload(run.label)
                _check(run, answers)
                waiting = {action.key: action for action in run.actions}
                refused = [denied(waiting[(a.step, a.item)], approver, book.clock.now()) for a in no]
                changes = Changes(actions=tuple(refused), grants=tuple(grants), status=_reopened(run))
                written = [*events, *(facts.settled(action) for action in refused)]
            finally:
                await book.runs.release(claim, changes, written)
        return await self.look(request, context)

    async def resolve(
        self, request: ExecuteRequest, step: str, item: int | None, word: Event, context: CallContext
    ) -> RunReport:
        """A person's word on an unknown outcome: ``retry``, ``happened`` or ``give-up``. The run can then go on.

        Raises ``IllegalTransition`` when the action's outcome is not unknown.
        """
        book = self._book
        plan, run = await book.existing(request, context)
        async with self._supervisor.alone(run.label) as active:
            if active is not None:
                raise Busy(f"run {run.label!r} goes on in this process; resolve it when it stands still", run=run.label)
            claim = await book.claim(run.label)
            changes, written = Changes(), list[AuditEvent]()
            try:
                run = await book.reload(run.label)
                facts = book.facts(plan, run.label, context)
                actions = {action.key: action for action in self._recovered(run)}
                found = actions.get((step, item)) or next((a for a in run.actions if a.key == (step, item)), None)
                if found is None:
                    where = repr(step) if item is None else f"{step!r} for item {item}"
                    raise NotFound(f"run {run.label!r} has recorded no action of step {where}", key="step")
                actions[found.key] = _resolved(found, word, book.clock.now())
                written = [
                    facts.event(
                        "outcome-resolved", step, item, word=word, attempt=found.attempt, evidence=found.evidence
                    ),
                    *(facts.settled(action) for action in actions.values()),
                ]
                changes = Changes(actions=tuple(actions.values()), status=_reopened(run))
            finally:
                await book.runs.release(claim, changes, written)
        return await self.look(request, context)

    async def cancel(self, request: ExecuteRequest, context: CallContext) -> RunReport:
        """End the run for good. What runs now is finished and recorded; what is unknown stays unknown."""
        book = self._book
        plan, run = await book.existing(request, context)
        if run.status in RUN_FINISHED:
            return RunReport(run, plan, book.state(plan, run), notes=(_already(run),))
        notes: tuple[str, ...] = ()
        async with self._supervisor.alone(run.label) as active:
            if active is not None:
                active.driver.cancel()
            else:
                notes = await self._end(plan, run, context)
        if active is not None:
            wait = book.limits.wait_seconds_default if request.wait_seconds is None else request.wait_seconds
            await asyncio.wait({active.task}, timeout=wait)
        return replace(await self.look(request, context), notes=notes)

    async def _end(self, plan: StoredPlan, run: Run, context: CallContext) -> tuple[str, ...]:
        """Cancel a run that stands still; what there is to say when it had ended before it could be claimed."""
        book = self._book
        claim = await book.claim(run.label)
        changes, written = Changes(), list[AuditEvent]()
        try:
            run = await book.reload(run.label)
            if run.status in RUN_FINISHED:
                return (_already(run),)
            actions = self._after_cancel(plan, run)
            facts = book.facts(plan, run.label, context)
            state = book.state(plan, run)
            for action in actions:
                state.put(action)
            evaluation = state.evaluate()
            changes = Changes(actions=actions, status="cancelled", evaluation=evaluation)
            written = [*(facts.settled(action) for action in actions), facts.status("cancelled", evaluation)]
        finally:
            await book.runs.release(claim, changes, written)
        return ()

    async def look(self, request: ExecuteRequest, context: CallContext) -> RunReport:
        """The run as recorded, whoever drives it; changes nothing."""
        plan, run = await self._book.existing(request, context)
        credential = request.run or run.handle
        moving = self._supervisor.in_motion(run.label)
        return RunReport(run, plan, self._book.state(plan, run), in_motion=moving, credential=credential)

    def _recovered(self, run: Run) -> list[Action]:
        """Actions whose process died, as they are now; the claim that was just taken proves it."""
        registry, now = self._book.registry, self._book.clock.now()
        return [recover(a, registry.get(a.capability), now) for a in run.actions if a.state == "running"]

    def _after_cancel(self, plan: StoredPlan, run: Run) -> tuple[Action, ...]:
        state = self._book.state(plan, run)
        actions = {action.key: action for action in self._recovered(run)}
        for action in actions.values():
            state.put(action)
        for settle in state.cancellations():
            before = state.action((settle.step.id, settle.item)) or Action(
                settle.step.id, settle.item, settle.step.capability
            )
            actions[before.key] = before.after(settle.event, error=settle.error, finished_at=self._book.clock.now())
        return tuple(actions.values())


def _already(run: Run) -> str:
    return f"the run had already ended: {run.status}"


def _check(run: Run, answers: Sequence[Answer]) -> None:
    waiting = {a.key: a for a in run.actions if a.state == "waiting-for-decision"}
    for answer in answers:
        action = waiting.get((answer.step, answer.item))
        if action is None or action.digest != answer.digest:
            raise Conflict(
                f"step {answer.step!r} no longer waits for what was shown; look at the run again",
                step=answer.step,
                item=answer.item,
            )
        if action.verdict is not None and action.verdict.mode == "human":
            raise InvalidInput(
                "the policy's approvalMode is human: this door cannot answer for a person", key="approvalMode"
            )


def _resolved(action: Action, word: Event, now: float) -> Action:
    match word:
        case "retry":
            return action.after("retry", attempt=action.attempt + 1, error=None, started_at=None, finished_at=None)
        case "happened":
            return action.after("happened", error=None, finished_at=now)
        case "give-up":
            error = ActionError("GIVEN_UP", "a person gave this action up; nobody knows whether it happened")
            return action.after("give-up", error=error, finished_at=now)
        case _:
            raise InvalidInput(f"unknown answer {word!r}; there are retry, happened, give-up", key="answer")


def _reopened(run: Run) -> RunStatus | None:
    return None if run.status in RUN_FINISHED else "running"
