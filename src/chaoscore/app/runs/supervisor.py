"""The runs in motion in this process: claimed, recovered, driven, joined and brought to rest.

The service above decides who may call; each driver below drives one run. It exists so that a run belongs to the
application and not to the request that started it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from chaoscore.app.facts import Facts
from chaoscore.app.gate import Gate, Subject
from chaoscore.app.runs.asking import Asking, outcome_digest
from chaoscore.app.runs.book import ExecuteRequest, RunBook, same
from chaoscore.app.runs.driver import Driver
from chaoscore.app.runs.recorder import Recorder
from chaoscore.app.tools import CallContext
from chaoscore.domain.action import Action, ActionError, Event, Grant
from chaoscore.domain.approval import RunDecision, denials
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import ChaosError, Conflict, InvalidInput
from chaoscore.domain.records import RUN_FINISHED, Changes, Run, StoredPlan, Wish
from chaoscore.domain.run import Key, RunState, recover

log = logging.getLogger(__name__)

Granted = tuple[list[Grant], list[AuditEvent]]
Approve = Callable[[RunState, Collection[Key]], Granted]
"""What the caller approves in a run as it stands at call time, given the actions that a person denied."""
Rested = Callable[[Run, Sequence[RunDecision]], None]
"""Hears of a run that came to rest or to its end, and of what it asks anew, once that is durable."""


@dataclass(slots=True)
class Active:
    """A run in motion. ``closing``: its driver is done and its last write is on the way."""

    driver: Driver
    task: asyncio.Task[None]
    waiters: int = 0
    closing: bool = False


class Supervisor:
    """One per process."""

    def __init__(self, book: RunBook, gate: Gate) -> None:
        self._book = book
        self._gate = gate
        self._asking = Asking(book, gate)
        self._rested: list[Rested] = []
        self._active: dict[str, Active] = {}
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def in_motion(self, label: str) -> bool:
        return label in self._active

    def on_rest(self, hear: Rested) -> None:
        self._rested.append(hear)

    async def hear(self, label: str) -> bool:
        """Let a run that is in motion here know of an answer; whether it is."""
        async with self.alone(label) as active:
            if active is not None:
                await active.driver.hear()
            return active is not None

    @asynccontextmanager
    async def alone(self, label: str) -> AsyncIterator[Active | None]:
        """The run's driver in this process, if it has one; nobody else here claims, opens or closes the run meanwhile.

        The store lets a process claim again what it holds, so two who claim one run here would fence each other off.
        """
        opening = self._opening.setdefault(label, asyncio.Lock())
        async with opening:
            while (closing := self._active.get(label)) is not None and closing.closing:
                await asyncio.wait({closing.task})
            yield self._active.get(label)

    async def activate(
        self, plan: StoredPlan, run: Run, request: ExecuteRequest, context: CallContext, approve: Approve
    ) -> Active | None:
        """Join the run where it is in motion here, otherwise claim, recover and start it; ``None`` when it has ended
        meanwhile. Raises ``Busy``."""
        async with self.alone(run.label) as active:
            scope = chosen_steps(plan, request)
            if active is not None:
                await self._join(active, scope, request, approve)
                return active
            return await self._start(plan, run, scope, request, context, approve)

    async def _join(
        self, active: Active, scope: frozenset[str] | None, request: ExecuteRequest, approve: Approve
    ) -> None:
        grants, events = approve(active.driver.state, active.driver.denials)
        if grants:
            await active.driver.grant(grants, events)
        active.driver.widen(scope, request.stop_at_approval)
        active.driver.resume()

    async def _start(
        self,
        plan: StoredPlan,
        run: Run,
        scope: frozenset[str] | None,
        request: ExecuteRequest,
        context: CallContext,
        approve: Approve,
    ) -> Active | None:
        book = self._book
        claim = await book.claim(run.label)
        recorder = Recorder(book.runs, claim, book.clock, book.limits.lease_seconds)
        try:
            run = await book.reload(run.label)
            if run.status in RUN_FINISHED:
                await recorder.release(Changes(), ())
                return None
            state = book.state(plan, run)
            facts = book.facts(plan, run.label, context)
            _check_dependencies(state, scope)
            now = book.clock.now()
            recovered = [
                recover(action, book.registry.get(action.capability), now)
                for action in run.actions
                if action.state == "running"
            ]
            for action in recovered:
                state.put(action)
            resolved, answered, told = apply_outcomes(run, state, facts, now)
            for action in resolved:
                state.put(action)
            grants, events = approve(state, denials(run.decisions, now))
            wish = _wish(scope, request.stop_at_approval)
            changes = Changes(
                actions=(*recovered, *resolved),
                grants=tuple(grants),
                status="running" if run.status != "running" else None,
                applied=answered,
                wish=wish if wish != (run.wish or Wish()) else None,
            )
            if changes != Changes():
                settled = (facts.settled(action) for action in (*recovered, *resolved))
                await recorder.commit(changes, [*told, *settled, *events])
            reuse = await book.reusable(plan)
            run = replace(run, grants=(*run.grants, *grants), wish=wish)
            driver = Driver(
                state=state,
                subject=Subject(run.label, plan.plan.owner),
                run=run,
                gate=self._gate,
                book=book,
                recorder=recorder,
                facts=facts,
                reuse=lambda move: reuse.get(same(move.step.capability, move.arguments)) if reuse else None,
                scope=scope,
                stop_at_approval=request.stop_at_approval,
            )
        except BaseException:
            await _give_up(recorder)
            raise
        task = asyncio.get_running_loop().create_task(self._drive(plan, driver, recorder))
        task.add_done_callback(lambda ended: _told(run.label, ended))
        active = Active(driver, task)
        self._active[run.label] = active
        return active

    async def _drive(self, plan: StoredPlan, driver: Driver, recorder: Recorder) -> None:
        label = driver.run.label
        try:
            while True:
                await driver.drive()
                self._active[label].closing = True
                if not driver.cancelled and driver.must_ask and await driver.hear():
                    self._active[label].closing = False  # somebody answered while it ran
                    continue
                try:
                    await self._rest(plan, driver, recorder)
                    return
                except Conflict as answered:
                    log.info("run %s: %s", label, answered.message)
                    self._active[label].closing = False
                    if not await driver.hear():
                        raise
        finally:
            self._active.pop(label, None)
            await recorder.stop()

    async def _rest(self, plan: StoredPlan, driver: Driver, recorder: Recorder) -> None:
        """The last write: how it stands, what a person is asked, which answers it has heard. Raises ``Conflict`` when a
        question that nobody needs any more was answered just now."""
        state, run = driver.state, driver.run
        status = state.status(driver.cancelled)
        evaluation = state.evaluate()
        over = status in RUN_FINISHED
        questions = self._asking.questions(plan, run, state, driver.scope, driver.facts, over)
        heard = tuple(d.id for d in run.decisions if d.state == "answered" and not d.applied)
        wish = _wish(driver.scope, driver.stop_at_approval)
        changes = Changes(
            status=status,
            evaluation=evaluation,
            asked=questions.asked,
            ended=questions.ended,
            applied=heard,
            wish=wish if wish != (run.wish or Wish()) else None,
        )
        await recorder.finish(changes, (*questions.events, driver.facts.status(status, evaluation)))
        if questions.asked or questions.ended or heard:
            ends = dict(questions.ended)
            kept = tuple(replace(d, state=ends.get(d.id, d.state), applied=True) for d in run.decisions)
            run = replace(run, decisions=(*kept, *questions.asked))
        for tell in self._rested:
            tell(replace(run, status=status, evaluation=evaluation), questions.asked)

    async def close(self, grace_seconds: float) -> None:
        """Start nothing more and let what runs end, for at most ``grace_seconds``; the rest is recovered next time."""
        tasks = {active.task for active in self._active.values()}
        for active in self._active.values():
            active.driver.pause()
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
        await _cancel(tasks)


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _told(label: str, ended: asyncio.Task[None]) -> None:
    """A run that stops where nobody waits for it must still say why."""
    if ended.cancelled() or (error := ended.exception()) is None:
        return
    if isinstance(error, ChaosError):
        log.warning("run %s stopped: %s", label, error.message)
    else:
        log.error("run %s stopped unexpectedly", label, exc_info=error)


async def _give_up(recorder: Recorder) -> None:
    try:
        await recorder.release(Changes(), ())
    except ChaosError:
        await recorder.stop()


def _wish(scope: frozenset[str] | None, stop_at_approval: bool) -> Wish:
    return Wish(None if scope is None else tuple(sorted(scope)), stop_at_approval)


def apply_outcomes(
    run: Run, state: RunState, facts: Facts, now: float
) -> tuple[list[Action], tuple[str, ...], list[AuditEvent]]:
    """What people said about unknown outcomes and the run has not heard yet: the actions after it, the decisions, the
    events. An answer about another attempt, or given before more evidence came in, changes nothing."""
    actions: list[Action] = []
    heard: list[str] = []
    told: list[AuditEvent] = []
    for decision in run.decisions:
        word = decision.word
        if word is None or decision.applied:
            continue
        heard.append(decision.id)
        (asked,) = decision.actions
        action = state.action(asked.key)
        if action is None or action.state != "outcome-unknown" or outcome_digest(run.label, action) != asked.digest:
            continue
        actions.append(resolved(action, word, now))
        told.append(
            facts.event(
                "outcome-resolved",
                asked.step,
                asked.item,
                word=word,
                attempt=action.attempt,
                evidence=action.evidence,
                decision=decision.id,
            )
        )
    return actions, tuple(heard), told


def resolved(action: Action, word: Event, now: float) -> Action:
    """An action whose outcome was unknown, after a person's word. Raises ``IllegalTransition``."""
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


def chosen_steps(plan: StoredPlan, request: ExecuteRequest) -> frozenset[str] | None:
    """The steps a caller chose, ``None`` for all. Raises ``InvalidInput`` for one that the plan does not have."""
    if request.step_ids is None:
        return None
    known = [step.id for step in plan.plan.steps]
    for step_id in request.step_ids:
        if step_id not in known:
            raise InvalidInput(f"the plan has no step {step_id!r}; it has {', '.join(known)}", key="step_ids")
    return frozenset(request.step_ids)


def _check_dependencies(state: RunState, scope: frozenset[str] | None) -> None:
    """Chosen steps whose dependencies are neither done nor chosen are the caller's error, before anything changes."""
    for step_id in sorted(scope or ()):
        names = sorted(state.dependencies(state.plan.step(step_id)))
        unmet = [name for name in names if not state.view(name).usable and name not in (scope or ())]
        if unmet:
            raise InvalidInput(
                f"step {step_id!r} depends on {', '.join(unmet)}, not done yet; name them too",
                key="step_ids",
                unmet=unmet,
            )
