"""Drives one run in this process: asks the run's state for moves, records intents, lets the gate act, records results.

The service above decides who may call and how long they wait; the pure state below decides the order. Each turn of the
loop is one transaction: the results that came in and the intents that follow from them, so a finished step costs at
most two commits and nobody is told of a result before it is durable (law 5).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace

from chaoscore.app.facts import Facts
from chaoscore.app.gate import Admission, Gate, Outcome, Subject, default_checks
from chaoscore.app.runs.book import RunBook
from chaoscore.app.runs.recorder import Recorder
from chaoscore.domain.action import Action, ActionError, Grant
from chaoscore.domain.approval import RunDecision, denials
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import ChaosError, Conflict, LeaseLost, StorageError
from chaoscore.domain.json import Json, JsonObject, size_bytes
from chaoscore.domain.records import Changes, Run
from chaoscore.domain.run import APPROVAL_EXPIRED, DENIED_BY_PERSON, DENIED_BY_POLICY, Key, Propose, RunState, Settle

log = logging.getLogger(__name__)
Listener = Callable[[JsonObject], None]


@dataclass(frozen=True, slots=True)
class _Start:
    """An action that starts once its intent is durable. ``before`` is what it goes back to when it may not."""

    admission: Admission
    action: Action
    before: Action
    events: tuple[AuditEvent, ...]


@dataclass(slots=True)
class _Turn:
    """What one transaction will hold, and what starts once it is durable."""

    actions: dict[Key, Action] = field(default_factory=dict)
    events: list[AuditEvent] = field(default_factory=list)
    starts: list[_Start] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.actions or self.events or self.starts)


class Driver:
    """One run being driven. Made by the service under a claim; ``drive`` runs once, to a rest or to the end."""

    def __init__(
        self,
        *,
        state: RunState,
        subject: Subject,
        run: Run,
        gate: Gate,
        book: RunBook,
        recorder: Recorder,
        facts: Facts,
        reuse: Callable[[Propose], Action | None],
        scope: frozenset[str] | None,
        stop_at_approval: bool,
    ) -> None:
        self.state = state
        self.subject = subject
        self.run = run
        self.grants = {grant.id: grant for grant in run.grants}
        self.denials: dict[Key, RunDecision] = {}
        self.scope = scope
        self.stop_at_approval = stop_at_approval
        self.facts = facts
        self.notes: list[str] = []
        self._gate = gate
        self._registry = book.registry
        self._store = book.runs
        self._recorder = recorder
        self._clock = book.clock
        self._limits = book.limits
        self._reuse = reuse
        self._asked: set[Key] = set()
        self._effects: dict[asyncio.Future[Outcome], Admission] = {}
        self._listeners: list[Listener] = []
        self._wake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._overdue = False
        self._paused = False
        self._cancelled = False
        self._output_bytes = sum(_size(action.output) for action in state.actions())
        self._late: set[asyncio.Task[None]] = set()
        self._next_expiry = 0.0
        recorder.on_lost(self._wake.set)
        self._note_denials(book.clock.now())

    # -- what others may ask of a run in motion --------------------------------------------------------------

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of every action that changes, after it is durable. Returns how to stop listening."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def pause(self) -> None:
        """Start nothing more; what runs is finished and recorded."""
        self._paused = True
        self._wake.set()

    def resume(self) -> None:
        self._paused = False
        self._wake.set()

    def cancel(self) -> None:
        self._cancelled = True
        self._wake.set()

    async def grant(self, grants: Iterable[Grant], events: Iterable[AuditEvent]) -> None:
        """Record approvals and let waiting actions be looked at again."""
        new = tuple(grants)
        await self._recorder.commit(Changes(grants=new), tuple(events))
        self.grants.update({grant.id: grant for grant in new})
        self.run = replace(self.run, grants=(*self.run.grants, *new))
        self._asked.clear()
        self._wake.set()

    async def hear(self) -> bool:
        """Read what people have answered since, and let what waited for it be looked at again; whether there was
        anything new. Only the run's questions are read: the actions are this driver's own."""
        run = await self._store.load_run(self.subject.run)
        if run is None or [(d.id, d.state) for d in run.decisions] == [(d.id, d.state) for d in self.run.decisions]:
            return False
        self._read_answers(run)
        spent = {action.grant for action in self.state.actions() if action.grant is not None}
        self.grants.update({grant.id: grant for grant in run.grants if grant.id not in spent})
        self._asked.clear()
        self._wake.set()
        return True

    def widen(self, scope: frozenset[str] | None, stop_at_approval: bool) -> None:
        """Another caller joined with its own wishes: the run serves the wider ones."""
        self.scope = None if scope is None or self.scope is None else self.scope | scope
        self.stop_at_approval = self.stop_at_approval and stop_at_approval
        self._asked.clear()
        self._wake.set()

    @property
    def must_ask(self) -> bool:
        """Whether something waits for a person."""
        return any(action.state in ("waiting-for-decision", "outcome-unknown") for action in self.state.actions())

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    # -- the loop --------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """To the end, or to where only somebody else can go on. Raises ``LeaseLost`` when the run was taken over."""
        deadline, self._overdue = self._clock.monotonic() + self._limits.run_seconds, False
        try:
            while not self._recorder.lost.is_set():
                if self._clock.monotonic() > deadline:
                    self._end_of_time()
                turn = _Turn()
                self._collect(turn)
                self._plan_turn(turn)
                if turn:
                    await self._record(turn)
                if self._effects:
                    # What a turn started leaves nothing to plan before an effect ends or somebody says something.
                    await self._wait(deadline)
                elif not turn:
                    return
            raise LeaseLost(f"run {self.subject.run} was taken over by another process", run=self.subject.run)
        except LeaseLost:
            self._keep_evidence()
            raise
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None
            await self._finish_effects()

    def _end_of_time(self) -> None:
        self._paused = True
        if not self._overdue:
            self._overdue = True
            self.notes.append(f"paused after {self._limits.run_seconds:g} s; call chaoscore_execute to go on")

    def _collect(self, turn: _Turn) -> None:
        """Results that came in become actions of this turn."""
        for task in [task for task in self._effects if task.done()]:
            admission = self._effects.pop(task)
            outcome = task.result()
            action = self._current(admission).after(
                outcome.event, output=outcome.output, error=outcome.error, finished_at=self._clock.now()
            )
            self._output_bytes += outcome.size
            if outcome.late is not None:
                self._watch_late(outcome.late, action)
            self._put(turn, action)

    def _read_answers(self, run: Run) -> None:
        self.run = replace(self.run, decisions=run.decisions, grants=run.grants)
        self._note_denials(self._clock.now())

    def _note_denials(self, now: float) -> None:
        """What was denied by now, and when to look again because a question runs out of time."""
        self.denials = denials(self.run.decisions, now)
        self._next_expiry = min((d.expires_at for d in self.run.decisions if d.is_open(now)), default=float("inf"))

    def _deny(self, turn: _Turn) -> None:
        """What waits and was denied is over, whatever the policy says by now: a person's no is final."""
        now = self._clock.now()
        if now >= self._next_expiry:
            self._note_denials(now)
        if not self.denials:
            return
        for action in list(self.state.actions()):
            if action.state == "waiting-for-decision" and action.key in self.denials:
                self._put(turn, denied(action, self.denials[action.key], now))

    def _plan_turn(self, turn: _Turn) -> None:
        self._deny(turn)
        while True:
            busy = frozenset(a.key for a in map(self._current, self._effects.values())) | frozenset(
                start.action.key for start in turn.starts
            )
            if self._cancelled:
                moves: list[Propose | Settle] = list(self.state.cancellations())
            else:
                quiet = self._paused or (self.stop_at_approval and bool(self._asked))
                moves = self.state.moves(busy=busy, asked=frozenset(self._asked), scope=self.scope, quiet=quiet)
            if not moves:
                return
            changed = False
            for move in moves:
                if isinstance(move, Settle):
                    self._settle(turn, move)
                    changed = True
                elif not self._propose(turn, move):
                    changed = True
                    break
            if not changed:
                return  # all of them start: that frees nothing, so nothing more can follow

    def _settle(self, turn: _Turn, move: Settle) -> None:
        action = self._recorded(move.step.id, move.item, move.step.capability)
        self._put(turn, action.after(move.event, error=move.error, finished_at=self._clock.now()))

    def _propose(self, turn: _Turn, move: Propose) -> bool:
        """Put one action to the gate. False when what it decided changes what may follow in this turn."""
        action = self._recorded(move.step.id, move.item, move.step.capability)
        now = self._clock.now()
        fault = self._gate.fault(move)
        if fault is None and self._output_bytes > self._limits.run_output_bytes_max:
            fault = ActionError("LIMIT_EXCEEDED", f"the run's outputs exceed {self._limits.run_output_bytes_max} bytes")
        if fault is not None:
            self._put(turn, action.after("fail", error=fault, arguments=move.arguments, finished_at=now))
            return False
        admission = self._gate.admit(self.subject, move, self.grants.values())
        known = {"arguments": move.arguments, "digest": admission.digest, "verdict": admission.verdict}
        if admission.verdict.effect == "DENY":
            turn.events.append(self.facts.verdict(admission))
            error = ActionError(DENIED_BY_POLICY, "; ".join(admission.verdict.reasons) or admission.verdict.rule)
            self._put(turn, action.after("deny", error=error, finished_at=now, **known))
            return False
        earlier = self._reuse(move)
        if earlier is not None and action.state == "pending":
            self._put(turn, action.after("reuse", output=earlier.output, finished_at=now, **known))
            return False
        refusal = self.denials.get(action.key)
        if refusal is not None:
            turn.events.append(self.facts.verdict(admission))
            self._put(turn, denied(action, refusal, now, **known))
            return False
        if not admission.may_start:
            self._asked.add(action.key)
            if action.state != "waiting-for-decision" or action.digest != admission.digest:
                turn.events.append(self.facts.verdict(admission))
                self._put(turn, action.after("require", **known))
            return False
        grant = admission.grant.id if admission.grant else None
        if grant is not None:
            self.grants.pop(grant)
        started = action.after("start", started_at=now, grant=grant, error=None, attempt=move.attempt, **known)
        events = (self.facts.verdict(admission), self.facts.intent(admission))
        turn.starts.append(_Start(admission, started, action, events))
        self.state.put(started)
        return True

    async def _record(self, turn: _Turn) -> None:
        """Make the turn durable, then start and tell."""
        try:
            await self._commit(turn)
        except (LeaseLost, StorageError):
            self._keep_results(turn)
            raise
        for start in turn.starts:
            self._launch(start.admission)
        for action in (*turn.actions.values(), *(start.action for start in turn.starts)):
            self._tell(action)

    async def _commit(self, turn: _Turn) -> None:
        """A start that may not be after all (a person answered meanwhile what was asked about it, a grant's time ran
        out between two looks) takes back the starts of this turn and nothing else; then the answers are read again.
        """
        used = tuple(start.action.grant for start in turn.starts if start.action.grant is not None)
        unanswered = self._asked_about({start.action.key for start in turn.starts})
        starts = tuple(start.action for start in turn.starts)
        changes = Changes((*turn.actions.values(), *starts), used_grants=used, unanswered=unanswered)
        try:
            await self._recorder.commit(changes, [*turn.events, *(e for start in turn.starts for e in start.events)])
        except Conflict as refused:
            if not (used or unanswered):
                raise
            log.info("run %s: %s", self.subject.run, refused.message)
            for start in turn.starts:
                self.state.put(start.before)
            turn.starts.clear()
            if turn:
                await self._recorder.commit(Changes(tuple(turn.actions.values())), turn.events)
            await self._read_grants()
            self._wake.set()

    def _asked_about(self, keys: set[Key]) -> tuple[str, ...]:
        """The open questions about these actions. Only whoever holds the run asks, so no other can be open."""
        waiting = [d for d in self.run.decisions if d.kind == "approval" and d.state == "waiting"] if keys else []
        return tuple(d.id for d in waiting if any(asked.key in keys for asked in d.actions))

    async def _read_grants(self) -> None:
        run = await self._store.load_run(self.subject.run)
        if run is not None:
            self._read_answers(run)
            self.grants = {grant.id: grant for grant in run.grants}

    def _launch(self, admission: Admission) -> None:
        step = admission.proposal.step
        checks = default_checks(self._registry[step.capability], (check.path for check in step.expect))
        self._effects[self._gate.perform(self.subject, admission, checks, self._wake.set)] = admission

    async def _wait(self, deadline: float) -> None:
        """Until an effect ends, somebody says something, or the run's time is up."""
        if self._alarm is None and not self._overdue:
            remaining = max(0.0, deadline - self._clock.monotonic()) + 0.01
            self._alarm = asyncio.get_running_loop().call_later(remaining, self._ring)
        await self._wake.wait()
        self._wake.clear()

    def _ring(self) -> None:
        self._alarm = None
        self._wake.set()

    # -- small things ----------------------------------------------------------------------------------------

    def _recorded(self, step: str, item: int | None, capability: str) -> Action:
        return self.state.action((step, item)) or Action(step, item, capability)

    def _current(self, admission: Admission) -> Action:
        proposal = admission.proposal
        return self._recorded(proposal.step.id, proposal.item, proposal.step.capability)

    def _put(self, turn: _Turn, action: Action, told: bool = True) -> None:
        turn.actions.pop(action.key, None)  # the last word on an action is also the last in order
        turn.actions[action.key] = action
        if told:
            turn.events.append(self.facts.settled(action))
        self.state.put(action)

    def _tell(self, action: Action) -> None:
        if not self._listeners:
            return
        message: dict[str, Json] = {
            "kind": "action",
            "step": action.step,
            "item": action.item,
            "capability": action.capability,
            "state": action.state,
            "error": action.error.to_json() if action.error else None,
            "progress": self.state.settled_count,
            "total": len(self.state.plan.steps),
            "message": _say(action),
        }
        for listener in tuple(self._listeners):
            listener(message)

    def _watch_late(self, late: asyncio.Task[Json], action: Action) -> None:
        """An effect that outlived its deadline: keep what it says in the end as evidence, never as the result."""

        async def keep() -> None:
            await asyncio.wait({late})
            await self._add_evidence(action, _evidence(late))

        self._background(keep())

    async def _add_evidence(self, action: Action, evidence: JsonObject) -> None:
        event = self.facts.event("late-result-kept", action.step, action.item, attempt=action.attempt)
        try:
            await self._store.add_evidence(
                self.subject.run, action.step, action.item, action.attempt, evidence, (event,)
            )
        except ChaosError as error:
            log.warning("could not keep a late result of %s %s: %s", self.subject.run, action.step, error)

    def _keep_results(self, turn: _Turn) -> None:
        """Results that could not be recorded are kept as evidence for whoever decides about the unknown outcome."""
        for action in turn.actions.values():
            if action.finished_at is not None and action.started_at is not None:
                self._background(self._add_evidence(action, {"event": action.state, "output": action.output}))

    def _keep_evidence(self) -> None:
        for task, admission in self._effects.items():
            self._background(self._keep_outcome(task, self._current(admission)))

    async def _keep_outcome(self, task: asyncio.Future[Outcome], action: Action) -> None:
        await asyncio.wait({task})
        outcome = task.result()
        await self._add_evidence(action, {"event": outcome.event, "output": outcome.output})

    def _background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _finish_effects(self) -> None:
        """Effects in flight are shielded: the driver never leaves one behind unwatched."""
        if self._effects:
            await asyncio.wait(set(self._effects))


def denied(action: Action, decision: RunDecision, now: float, **known: object) -> Action:
    """An action after a person's no, or after nobody answered in time; both are final."""
    response = decision.response
    if response is None:
        error = ActionError(APPROVAL_EXPIRED, f"nobody answered decision {decision.id} in time, which counts as no")
    else:
        error = ActionError(DENIED_BY_PERSON, f"{response.approver} said no ({response.door})")
    return action.after("deny", error=error, finished_at=now, **known)


def _size(output: Json) -> int:
    return 0 if output is None else size_bytes(output)


def _evidence(late: asyncio.Task[Json]) -> JsonObject:
    if late.cancelled():
        return {"event": "cancelled"}
    if late.exception() is not None:
        return {"event": "error", "error": type(late.exception()).__name__}
    return {"event": "result", "output": late.result()}


def _say(action: Action) -> str:
    where = action.step if action.item is None else f"{action.step}[{action.item}]"
    tail = f": {action.error.code}" if action.error else ""
    return f"{where} {action.capability} {action.state}{tail}"
