"""The runs in motion in this process: claimed, recovered, driven, joined and brought to rest.

The service above decides who may call; each driver below drives one run. It exists so that a run belongs to the
application and not to the request that started it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from chaoscore.app.gate import Gate, Subject
from chaoscore.app.runs.book import ExecuteRequest, RunBook, same
from chaoscore.app.runs.driver import Driver
from chaoscore.app.runs.recorder import Recorder
from chaoscore.app.tools import CallContext
from chaoscore.domain.action import Grant
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import ChaosError, InvalidInput
from chaoscore.domain.records import RUN_FINISHED, Changes, Run, StoredPlan
from chaoscore.domain.run import RunState, recover

Granted = tuple[list[Grant], list[AuditEvent]]
Approve = Callable[[RunState], Granted]
"""What the caller approves in a run as it stands at call time."""


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
        self._active: dict[str, Active] = {}
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def in_motion(self, label: str) -> bool:
        return label in self._active

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
        grants, events = approve(active.driver.state)
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
            recovered = tuple(
                recover(action, book.registry.get(action.capability), book.clock.now())
                for action in run.actions
                if action.state == "running"
            )
            for action in recovered:
                state.put(action)
            grants, events = approve(state)
            if recovered or grants or run.status != "running":
                changes = Changes(actions=recovered, grants=tuple(grants), status="running")
                await recorder.commit(changes, [*(facts.settled(action) for action in recovered), *events])
            reuse = await book.reusable(plan)
            driver = Driver(
                state=state,
                subject=Subject(run.label, plan.plan.owner),
                grants=(*run.grants, *grants),
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
        active = Active(driver, asyncio.get_running_loop().create_task(self._drive(run.label, driver, recorder)))
        self._active[run.label] = active
        return active

    async def _drive(self, label: str, driver: Driver, recorder: Recorder) -> None:
        try:
            await driver.drive()
            self._active[label].closing = True
            status = driver.state.status(driver.cancelled)
            evaluation = driver.state.evaluate()
            events = (driver.facts.status(status, evaluation),)
            await recorder.release(Changes(status=status, evaluation=evaluation), events)
        finally:
            self._active.pop(label, None)
            await recorder.stop()

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


async def _give_up(recorder: Recorder) -> None:
    try:
        await recorder.release(Changes(), ())
    except ChaosError:
        await recorder.stop()


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
