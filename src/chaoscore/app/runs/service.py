"""Runs as the application sees them: open or join one, wait a bounded time, cancel, resolve, list.

A run belongs to the application, not to the request that started it: a caller that goes away pauses it before the next
effect, a caller that comes back joins it (spec §4). The driver below does the work; the tools above speak to callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from chaoscore.app.capabilities import Registry
from chaoscore.app.facts import Facts
from chaoscore.app.gate import Gate, Subject
from chaoscore.app.ports import AuditStore, Clock, Ids, PlanStore, PolicySource, Processes, RunStore
from chaoscore.app.runs.driver import Driver, Listener
from chaoscore.app.runs.recorder import Recorder
from chaoscore.app.tools import CallContext
from chaoscore.domain.action import Action, ActionError, Event, Grant
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import ChaosError, InvalidInput, NotFound
from chaoscore.domain.json import Json, canonical_text
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import lint
from chaoscore.domain.principal import Principal
from chaoscore.domain.records import RUN_FINISHED, Changes, Run, RunStatus, RunSummary, StoredPlan
from chaoscore.domain.run import RunState, recover


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """Exactly one of ``plan`` and ``run`` is the id the caller holds. ``wait_seconds`` bounds the call, not the run."""

    plan: str | None = None
    run: str | None = None
    step_ids: tuple[str, ...] | None = None
    confirmed: bool = False
    wait_seconds: float | None = None
    rerun: bool = False
    stop_at_approval: bool = False


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as it stands when a call returns. ``in_motion``: it goes on after this answer."""

    run: Run
    plan: StoredPlan
    state: RunState
    in_motion: bool = False
    credential: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Active:
    driver: Driver
    task: asyncio.Task[None]
    waiters: int = 0
    closing: bool = False


class RunService:
    """One per process."""

    def __init__(
        self,
        *,
        plans: PlanStore,
        runs: RunStore,
        audit: AuditStore,
        gate: Gate,
        registry: Registry,
        policy: PolicySource,
        clock: Clock,
        ids: Ids,
        processes: Processes,
        limits: Limits,
    ) -> None:
        self._plans = plans
        self._runs = runs
        self._audit = audit
        self._gate = gate
        self._registry = registry
        self._policy = policy
        self._clock = clock
        self._ids = ids
        self._processes = processes
        self._limits = limits
        self._active: dict[str, _Active] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    # -- execute ---------------------------------------------------------------------------------------------

    async def execute(
        self, request: ExecuteRequest, context: CallContext, listener: Listener | None = None
    ) -> RunReport:
        """Open, join or continue the run and wait for it at most ``wait_seconds``.

        Raises ``NotFound``, ``InvalidInput`` (steps, unmet dependencies), ``Busy`` and ``StorageError``. Cancelling the
        call pauses the run before its next effect unless somebody else waits for it too.
        """
        plan, run, credential = await self._open(request, context)
        if run.status in RUN_FINISHED:
            return RunReport(run, plan, self._state(plan, run), credential=credential)
        async with self._opening.setdefault(run.label, asyncio.Lock()):
            active, notes = await self._activate(plan, run, request, context)
        stop_listening = active.driver.listen(listener) if listener is not None else None
        active.waiters += 1
        try:
            wait = self._limits.wait_seconds_default if request.wait_seconds is None else request.wait_seconds
            done, _ = await asyncio.wait({active.task}, timeout=min(wait, self._limits.wait_seconds_max))
        except asyncio.CancelledError:
            if active.waiters == 1:
                active.driver.pause()
            raise
        finally:
            active.waiters -= 1
            if stop_listening is not None:
                stop_listening()
        if done:
            active.task.result()
        current = await self._reload(run.label)
        state = self._state(plan, current)
        notes = (*notes, *active.driver.notes)
        return RunReport(current, plan, state, in_motion=not done, credential=credential, notes=notes)

    async def _open(self, request: ExecuteRequest, context: CallContext) -> tuple[StoredPlan, Run, str | None]:
        if (request.plan is None) == (request.run is None):
            raise InvalidInput("give exactly one of plan_id and run_id", key="plan_id")
        if request.run is not None:
            run = await self._runs.find_run(request.run, context.principal)
            if run is None:
                raise NotFound(f"there is no run {request.run!r}; chaoscore_inspect lists yours", key="run_id")
            plan = await self._plans.plan_by_label(run.plan)
            if plan is None:
                raise ChaosError(f"the plan of run {run.label!r} cannot be read", code="STORE_CORRUPT")
            if not request.rerun:
                return plan, run, request.run
        else:
            assert request.plan is not None
            found = await self._plans.find_plan(request.plan, context.principal, context.binding)
            if found is None:
                raise NotFound(f"there is no plan {request.plan!r}; make one with chaoscore_plan", key="plan_id")
            plan = found
        credential = self._ids.credential("run")
        now = self._clock.now()
        label = self._ids.label("r")
        new = Run(label, credential, plan.plan.label, plan.plan.owner, "running", now, now)
        event = self._facts(plan, label, context).event("run-opened", rerun=request.rerun)
        run, made = await self._runs.open_run(new, credential, request.rerun, (event,))
        return plan, run, credential if made else run.handle

    async def _activate(
        self, plan: StoredPlan, run: Run, request: ExecuteRequest, context: CallContext
    ) -> tuple[_Active, tuple[str, ...]]:
        """The run's driver in this process: joined where there is one, otherwise claimed, recovered and started."""
        active = self._active.get(run.label)
        while active is not None and active.closing:
            await asyncio.wait({active.task})
            active = self._active.get(run.label)
        scope = self._scope(plan, run, request)
        if active is not None:
            active.driver.resume()
            active.driver.widen(scope, request.stop_at_approval)
            grants, events, notes = self._confirm(active.driver.state, plan, run, request, context)
            if grants:
                await active.driver.grant(grants, events)
            return active, notes
        claim = await self._runs.claim(
            run.label, self._processes.current(), self._clock.now(), self._limits.lease_seconds
        )
        recorder = Recorder(self._runs, claim, self._clock, self._limits.lease_seconds)
        try:
            run = await self._reload(run.label)
            facts = self._facts(plan, run.label, context)
            state = self._state(plan, run)
            self._check_dependencies(state, scope)
            recovered = [
                recover(action, self._registry.get(action.capability), self._clock.now())
                for action in run.actions
                if action.state == "running"
            ]
            for action in recovered:
                state.put(action)
            grants, events, notes = self._confirm(state, plan, run, request, context)
            events = [*(facts.settled(action) for action in recovered), *events]
            changes = Changes(actions=tuple(recovered), grants=tuple(grants), status="running")
            await recorder.commit(changes, events)
            reuse = await self._reusable(plan, run)
            driver = Driver(
                state=state,
                subject=Subject(run.label, plan.plan.owner),
                grants=(*run.grants, *grants),
                gate=self._gate,
                registry=self._registry,
                store=self._runs,
                recorder=recorder,
                facts=facts,
                clock=self._clock,
                limits=self._limits,
                reuse=lambda move: reuse.get(_same(move.step.capability, move.arguments)),
                scope=scope,
                stop_at_approval=request.stop_at_approval,
            )
        except BaseException:
            await self._give_up(recorder)
            raise
        active = _Active(driver, asyncio.get_running_loop().create_task(self._drive(run.label, driver, recorder)))
        self._active[run.label] = active
        return active, notes

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
            self._opening.pop(label, None)
            await recorder.stop()

    async def _give_up(self, recorder: Recorder) -> None:
        try:
            await recorder.release(Changes(), ())
        except ChaosError:
            await recorder.stop()

    # -- approvals by the caller -----------------------------------------------------------------------------

    def _confirm(
        self, state: RunState, plan: StoredPlan, run: Run, request: ExecuteRequest, context: CallContext
    ) -> tuple[list[Grant], list[AuditEvent], tuple[str, ...]]:
        """Grants for the actions whose arguments are known at call time; those that come later ask again."""
        if not request.confirmed:
            return [], [], ()
        if self._policy.policy().approval_mode == "human":
            return [], [], ("confirmed does nothing here: the policy's approvalMode is human, a person must answer",)
        facts = self._facts(plan, run.label, context)
        subject = Subject(run.label, plan.plan.owner)
        now = self._clock.now()
        grants: list[Grant] = []
        events: list[AuditEvent] = []
        for proposal in state.known():
            if request.step_ids is not None and proposal.step.id not in request.step_ids:
                continue
            verdict = self._gate.judge(proposal.step.capability, proposal.arguments)
            if verdict.effect != "REQUIRE_APPROVAL" or verdict.mode != "caller":
                continue
            grant = Grant(
                self._ids.label("g"),
                run.label,
                self._gate.digest(subject, proposal, verdict),
                "caller",
                context.principal.key,
                now,
                now + self._limits.grant_seconds,
            )
            grants.append(grant)
            events.append(facts.granted(grant, proposal.step.id, proposal.item))
        return grants, events, ()

    # -- cancel, resolve, look -------------------------------------------------------------------------------

    async def cancel(self, request: ExecuteRequest, context: CallContext) -> RunReport:
        """End the run for good. What runs now is finished and recorded; what is unknown stays unknown."""
        plan, run = await self._existing(request, context)
        if run.status in RUN_FINISHED:
            return RunReport(run, plan, self._state(plan, run), notes=(f"the run had already ended: {run.status}",))
        active = self._active.get(run.label)
        if active is None:
            claim = await self._runs.claim(
                run.label, self._processes.current(), self._clock.now(), self._limits.lease_seconds
            )
            run = await self._reload(run.label)
            actions = self._after_cancel(plan, run)
            facts = self._facts(plan, run.label, context)
            state = self._state(plan, run)
            for action in actions:
                state.put(action)
            evaluation = state.evaluate()
            events = [*(facts.settled(action) for action in actions), facts.status("cancelled", evaluation)]
            await self._runs.release(claim, Changes(actions=actions, status="cancelled", evaluation=evaluation), events)
        else:
            active.driver.cancel()
            await asyncio.wait({active.task}, timeout=request.wait_seconds or self._limits.wait_seconds_default)
        run = await self._reload(run.label)
        return RunReport(run, plan, self._state(plan, run), in_motion=run.status not in RUN_FINISHED)

    def _after_cancel(self, plan: StoredPlan, run: Run) -> tuple[Action, ...]:
        now = self._clock.now()
        state = self._state(plan, run)
        actions: list[Action] = []
        for action in run.actions:
            if action.state == "running":
                actions.append(recover(action, self._registry.get(action.capability), now))
                state.put(actions[-1])
        for settle in state.cancellations():
            before = state.action((settle.step.id, settle.item)) or Action(
                settle.step.id, settle.item, settle.step.capability
            )
            actions = [action for action in actions if action.key != before.key]
            actions.append(before.after(settle.event, error=settle.error, finished_at=now))
        return tuple(actions)

    async def resolve(
        self, request: ExecuteRequest, step: str, item: int | None, word: Event, context: CallContext
    ) -> RunReport:
        """A person's word on an unknown outcome: ``retry``, ``happened`` or ``give-up``. The run can then go on.

        Raises ``IllegalTransition`` when the action's outcome is not unknown.
        """
        plan, run = await self._existing(request, context)
        claim = await self._runs.claim(
            run.label, self._processes.current(), self._clock.now(), self._limits.lease_seconds
        )
        changes, events = Changes(), []
        try:
            run = await self._reload(run.label)
            facts = self._facts(plan, run.label, context)
            running = [a for a in run.actions if a.state == "running"]
            actions = {a.key: recover(a, self._registry.get(a.capability), self._clock.now()) for a in running}
            found = actions.get((step, item)) or next((a for a in run.actions if a.key == (step, item)), None)
            if found is None:
                raise NotFound(f"run {run.label!r} has no action {step!r}", key="step")
            actions[found.key] = _resolved(found, word, self._clock.now())
            events = [
                facts.event("outcome-resolved", step, item, word=word, attempt=found.attempt, evidence=found.evidence),
                *(facts.settled(action) for action in actions.values()),
            ]
            changes = Changes(actions=tuple(actions.values()), status=_reopened(run.status))
        finally:
            await self._runs.release(claim, changes, events)
        run = await self._reload(run.label)
        return RunReport(run, plan, self._state(plan, run))

    async def look(self, request: ExecuteRequest, context: CallContext) -> RunReport:
        """The run as recorded, whoever drives it; changes nothing."""
        plan, run = await self._existing(request, context)
        return RunReport(run, plan, self._state(plan, run), in_motion=run.label in self._active)

    async def list(
        self, principal: Principal, limit: int, cursor: str | None
    ) -> tuple[tuple[RunSummary, ...], str | None]:
        return await self._runs.list_runs(principal, limit, cursor)

    async def close(self, grace_seconds: float) -> None:
        """Start nothing more and let what runs end, for at most ``grace_seconds``; the rest is recovered next time."""
        for active in self._active.values():
            active.driver.pause()
        tasks = {active.task for active in self._active.values()}
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
        for task in tasks:
            task.cancel()

    # -- small things ----------------------------------------------------------------------------------------

    async def _existing(self, request: ExecuteRequest, context: CallContext) -> tuple[StoredPlan, Run]:
        if request.run is not None:
            run = await self._runs.find_run(request.run, context.principal)
            plan = await self._plans.plan_by_label(run.plan) if run is not None else None
        else:
            plan = await self._plans.find_plan(request.plan or "", context.principal, context.binding)
            run = await self._runs.run_of_plan(plan.plan.label) if plan is not None else None
        if run is None or plan is None:
            name = request.run or request.plan
            raise NotFound(f"there is no run for {name!r}; chaoscore_execute starts one", key="run_id")
        return plan, run

    async def _reload(self, label: str) -> Run:
        run = await self._runs.load_run(label)
        if run is None:
            raise ChaosError(f"run {label!r} vanished from the store", code="STORE_CORRUPT")
        return run

    def _state(self, plan: StoredPlan, run: Run) -> RunState:
        facts = lint(plan.plan.steps, self._registry, self._limits).facts
        return RunState(plan.plan, self._registry, facts, self._limits, run.actions)

    def _facts(self, plan: StoredPlan, run: str, context: CallContext) -> Facts:
        return Facts(
            self._audit.redact, self._clock.now, context.principal.key, context.connection.id, plan.plan.label, run
        )

    def _scope(self, plan: StoredPlan, run: Run, request: ExecuteRequest) -> frozenset[str] | None:
        if request.step_ids is None:
            return None
        known = [step.id for step in plan.plan.steps]
        for step_id in request.step_ids:
            if step_id not in known:
                raise InvalidInput(f"the plan has no step {step_id!r}; it has {', '.join(known)}", key="step_ids")
        return frozenset(request.step_ids)

    def _check_dependencies(self, state: RunState, scope: frozenset[str] | None) -> None:
        for step_id in sorted(scope or ()):
            unmet = [
                name
                for name in sorted(state.dependencies(state.plan.step(step_id)))
                if not state.view(name).usable and name not in (scope or ())
            ]
            if unmet:
                raise InvalidInput(
                    f"step {step_id!r} depends on {', '.join(unmet)}, not done yet; name them too",
                    key="step_ids",
                    unmet=unmet,
                )

    async def _reusable(self, plan: StoredPlan, run: Run) -> dict[str, Action]:
        """Succeeded non-read actions of the plans this one replaces: the same action never runs again."""
        done: dict[str, Action] = {}
        predecessor = plan.plan.predecessor
        while predecessor is not None:
            earlier = await self._runs.run_of_plan(predecessor)
            for action in earlier.actions if earlier is not None else ():
                capability = self._registry.get(action.capability)
                read = capability is not None and capability.annotations.read_only
                if action.state == "succeeded" and not read and action.arguments is not None:
                    done.setdefault(_same(action.capability, action.arguments), action)
            before = await self._plans.plan_by_label(predecessor)
            predecessor = before.plan.predecessor if before is not None else None
        return done


def _same(capability: str, arguments: Json) -> str:
    return f"{capability}\n{canonical_text(arguments)}"


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


def _reopened(status: RunStatus) -> RunStatus:
    return status if status in RUN_FINISHED else "running"


def waiting_actions(state: RunState) -> Iterable[Action]:
    """The actions of a run that wait for somebody's approval."""
    return (action for action in state.actions() if action.state == "waiting-for-decision")
