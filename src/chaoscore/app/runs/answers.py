"""A word on a run that stands still or moves: yes or no to a waiting action, what to do about an unknown outcome, stop.

Each word is one transaction under a claim of its own, or is handed to the driver where the run is in motion here.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from chaoscore.app.runs.asking import outcome_digest
from chaoscore.app.runs.book import ExecuteRequest, RunBook, RunReport
from chaoscore.app.runs.supervisor import Supervisor, resolved
from chaoscore.app.tools import CallContext
from chaoscore.domain.action import Action, Event
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import Busy, Conflict, InvalidInput, NotFound
from chaoscore.domain.records import RUN_FINISHED, Changes, Run, RunStatus, StoredPlan
from chaoscore.domain.run import recover

log = logging.getLogger(__name__)


class RunAnswers:
    def __init__(self, book: RunBook, supervisor: Supervisor) -> None:
        self._book = book
        self._supervisor = supervisor

    async def resolve(
        self,
        request: ExecuteRequest,
        step: str,
        item: int | None,
        word: Event,
        context: CallContext,
        *,
        human: bool = False,
    ) -> RunReport:
        """A person's word on an unknown outcome: ``retry``, ``happened`` or ``give-up``. The run can then go on.

        Where the policy wants a ``human``, or wanted one when it was asked, only the answer to the question counts.
        Raises ``IllegalTransition`` when the action's outcome is not unknown, ``InvalidInput``.
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
                ended = [d for d in run.decisions if d.kind == "outcome" and d.state == "waiting"]
                ended = [d for d in ended if d.actions[0].key == found.key]
                human = human and not _answered(run, found, word)
                if human or any(d.mode == "human" for d in ended):
                    which = f"decision {ended[0].id}" if ended else "the decision that chaoscore_execute makes of it"
                    raise InvalidInput(
                        f"the policy's approvalMode is human: answer {which} with the approver's PIN, "
                        "with chaoscore decide or in the Decision Center",
                        key="approvalMode",
                    )
                actions[found.key] = resolved(found, word, book.clock.now())
                # From here on nothing is refused any more: what is written is what was done.
                written = [
                    facts.event(
                        "outcome-resolved", step, item, word=word, attempt=found.attempt, evidence=found.evidence
                    ),
                    *(facts.settled(action) for action in actions.values()),
                    *(facts.event("decision-ended", decision=d.id, state="superseded") for d in ended),
                ]
                changes = Changes(
                    actions=tuple(actions.values()),
                    status=_reopened(run),
                    ended=tuple((d.id, "superseded") for d in ended),
                )
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
        try:
            while True:
                run = await book.reload(run.label)
                if run.status in RUN_FINISHED:
                    return (_already(run),)
                try:
                    await book.runs.commit(claim, *self._ending(plan, run, context))
                    return ()
                except Conflict as answered:  # somebody answered between the look and the end: look again
                    log.info("run %s: %s", run.label, answered.message)
        finally:
            await book.runs.release(claim, Changes(), ())

    def _ending(self, plan: StoredPlan, run: Run, context: CallContext) -> tuple[Changes, list[AuditEvent]]:
        actions = self._after_cancel(plan, run)
        facts = self._book.facts(plan, run.label, context)
        state = self._book.state(plan, run)
        for action in actions:
            state.put(action)
        evaluation = state.evaluate()
        waiting = [decision.id for decision in run.decisions if decision.state == "waiting"]
        changes = Changes(
            actions=actions,
            status="cancelled",
            evaluation=evaluation,
            ended=tuple((name, "cancelled") for name in waiting),
        )
        return changes, [
            *(facts.settled(action) for action in actions),
            *(facts.event("decision-ended", decision=name, state="cancelled") for name in waiting),
            facts.status("cancelled", evaluation),
        ]

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


def _reopened(run: Run) -> RunStatus | None:
    return None if run.status in RUN_FINISHED else "running"


def _answered(run: Run, action: Action, word: Event) -> bool:
    """Whether somebody answered the question about this outcome so."""
    asked = outcome_digest(run.label, action)
    return any(d.word == word and [a.digest for a in d.actions] == [asked] for d in run.decisions)
