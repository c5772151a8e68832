"""One run as a value: which steps stand where, what may start next, and how the whole is judged.

Above it the run service turns moves into effects; below it are plans, actions and checks. It exists so that the
whole order of execution (spec §2 graph and fan-out, §4) can be read and tested without a store, a clock or a handler.

Order: reads may run in parallel; other actions run one at a time in plan order, passing only those that wait for
somebody. A step that failed or was denied by policy stops the run unless its ``on_error`` is ``continue``; a person's
denial and an unknown outcome stop only what depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from chaoscore.domain.action import FINISHED, Action, ActionError, Event, State
from chaoscore.domain.capability import Capability
from chaoscore.domain.evaluation import CheckResult, Evaluation, Outcome, StepReason, apply_checks
from chaoscore.domain.json import Json, JsonObject, MissingPath, is_array, resolve_pointer
from chaoscore.domain.limits import Limits
from chaoscore.domain.plan import Plan, Reference, Step
from chaoscore.domain.records import RunStatus
from chaoscore.domain.references import find_references, resolve
from chaoscore.domain.step_actions import PENDING, StepActions

Key = tuple[str, int | None]

CHECK_FAILED = "CHECK_FAILED"
DENIED_BY_POLICY = "DENIED_BY_POLICY"
DENIED_BY_PERSON = "DENIED_BY_PERSON"
APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
DEPENDENCY_UNMET = "DEPENDENCY_UNMET"
RUN_STOPPED = "RUN_STOPPED"
RUN_CANCELLED = "RUN_CANCELLED"
REFERENCE_MISSING = "REFERENCE_MISSING"
TOO_MANY_ITEMS = "TOO_MANY_ITEMS"
ITEMS_NOT_ARRAY = "ITEMS_NOT_ARRAY"


@dataclass(frozen=True, slots=True)
class Propose:
    """This action's arguments are known: put it to the gate."""

    step: Step
    item: int | None
    arguments: JsonObject
    attempt: int


@dataclass(frozen=True, slots=True)
class Settle:
    """This action ends without running: ``skip`` it, or ``fail`` it because its arguments cannot be had."""

    step: Step
    item: int | None
    event: Event
    error: ActionError


@dataclass(frozen=True, slots=True)
class StepView:
    """A step as it stands. ``output`` is set once dependants may use it; ``items`` counts a fan-out's actions."""

    step: Step
    state: State
    output: Json = None
    usable: bool = False
    error: ActionError | None = None
    checks: tuple[CheckResult, ...] = ()
    items: int | None = None

    @property
    def settled(self) -> bool:
        return self.state in FINISHED


class RunState:
    """The recorded actions of one run over its plan, with everything derived from them.

    ``put`` replaces one action; all answers are derived from the plan, the registry's facts and the actions alone.
    """

    def __init__(
        self,
        plan: Plan,
        capabilities: Mapping[str, Capability],
        limits: Limits,
        actions: Iterable[Action] = (),
    ) -> None:
        self.plan = plan
        self.limits = limits
        self._capabilities = capabilities
        self._dependencies = {step.id: dependencies_of(step) for step in plan.steps}
        self._steps = {step.id: step for step in plan.steps}
        self._actions = {step.id: StepActions() for step in plan.steps}
        self._views: dict[str, StepView] = {}
        self._items: dict[str, tuple[Json, ...]] = {}
        self._over = _fan_outs_over(plan)
        self._order = {step.id: index for index, step in enumerate(plan.steps)}
        self._dependants = _dependants(self._dependencies)
        self._open_dependencies = {name: set(needed) for name, needed in self._dependencies.items()}
        self._unsettled = dict(self._steps)
        self._frontier = {step.id for step in plan.steps if not self._dependencies[step.id]}
        self._stop: StepView | None = None
        for action in actions:
            self.put(action)

    # -- what is recorded ------------------------------------------------------------------------------------

    def put(self, action: Action) -> None:
        self._actions[action.step].put(action)
        self._views.pop(action.step, None)
        for fan_out in self._over.get(action.step, ()):
            self._views.pop(fan_out, None)

    def action(self, key: Key) -> Action | None:
        return self._actions[key[0]].get(key[1])

    def actions(self) -> Iterable[Action]:
        for by_item in self._actions.values():
            yield from by_item

    def is_read(self, step: Step) -> bool:
        capability = self._capabilities.get(step.capability)
        return capability is not None and capability.annotations.read_only

    # -- what follows from it --------------------------------------------------------------------------------

    def view(self, step_id: str) -> StepView:
        view = self._views.get(step_id)
        if view is None:
            step = self._steps[step_id]
            view = self._fan_out_view(step) if step.for_each is not None else self._plain_view(step)
            self._views[step_id] = view
        return view

    def views(self) -> tuple[StepView, ...]:
        return tuple(self.view(step.id) for step in self.plan.steps)

    def _plain_view(self, step: Step) -> StepView:
        action = self._actions[step.id].get(None)
        if action is None:
            return StepView(step, PENDING)
        if action.state != "succeeded":
            return StepView(step, action.state, error=action.error)
        return self._checked(step, action.output, None)

    def _fan_out_view(self, step: Step) -> StepView:
        recorded = self._actions[step.id]
        whole = recorded.get(None)
        if whole is not None:
            return StepView(step, whole.state, error=whole.error)
        items = self.items(step)
        if items is None:
            return StepView(step, PENDING)
        state = recorded.combined(len(items))
        if state not in FINISHED:
            return StepView(step, state, items=len(items))
        actions = [recorded.get(index) for index in range(len(items))]
        if state != "succeeded" and step.on_error == "stop":
            error = next((a.error for a in actions if a is not None and a.error), None)
            return StepView(step, state, error=error, items=len(items))
        output: list[Json] = [a.output if a is not None and a.state == "succeeded" else None for a in actions]
        return self._checked(step, output, len(items))

    def _checked(self, step: Step, output: Json, items: int | None) -> StepView:
        results = apply_checks(step.expect, output)
        broken = next((result for result in results if not result.passed), None)
        if broken is None:
            return StepView(step, "succeeded", output, True, None, results, items)
        return StepView(step, "failed", None, False, ActionError(CHECK_FAILED, broken.reason), results, items)

    def items(self, step: Step) -> tuple[Json, ...] | None:
        """The items of a fan-out, ``None`` while its source is not known or cannot be used."""
        if step.for_each is None:
            return None
        cached = self._items.get(step.id)
        if cached is not None:
            return cached
        source = self.view(step.for_each.source.step)
        if not source.usable:
            return None
        try:
            found = resolve_pointer(source.output, step.for_each.source.path)
        except MissingPath:
            return None
        if not is_array(found) or len(found) > min(step.for_each.max, self.limits.items_max):
            return None
        self._items[step.id] = tuple(found)
        return self._items[step.id]

    def outputs(self, step: Step) -> dict[str, Json]:
        return {name: self.view(name).output for name in self.dependencies(step)}

    def dependencies(self, step: Step) -> frozenset[str]:
        """References ∪ ``after``."""
        return self._dependencies[step.id]

    # -- what may happen next --------------------------------------------------------------------------------

    def stopped_by(self) -> StepView | None:
        """The step whose failure stops the run, if one did."""
        self._advance()
        return self._stop

    @property
    def settled_count(self) -> int:
        """How many steps have come to their end."""
        self._advance()
        return len(self._steps) - len(self._unsettled)

    def _advance(self) -> None:
        """Move the frontier: the unsettled steps whose dependencies have all settled, or one of them in vain."""
        looking = True
        while looking:
            looking = False
            for name in [name for name in self._frontier if self.view(name).settled]:
                looking = True
                self._frontier.discard(name)
                self._unsettled.pop(name, None)
                view = self.view(name)
                if _stops(view) and (self._stop is None or self._order[name] < self._order[self._stop.step.id]):
                    self._stop = view
                for dependant in self._dependants.get(name, ()):
                    needed = self._open_dependencies[dependant]
                    needed.discard(name)
                    if dependant in self._unsettled and (not needed or not view.usable):
                        self._frontier.add(dependant)

    def moves(
        self,
        *,
        busy: frozenset[Key],
        asked: frozenset[Key],
        scope: frozenset[str] | None = None,
        quiet: bool = False,
    ) -> list[Propose | Settle]:
        """What to do now, in plan order.

        ``busy`` are the actions in flight in this process, ``asked`` those already found waiting in this pass,
        ``scope`` the steps to advance (``None``: all), ``quiet`` starts nothing, only settles what can no longer run.
        """
        stop = self.stopped_by()
        if stop is not None:
            error = ActionError(RUN_STOPPED, f"step {stop.step.id!r} did not succeed and stops the run")
            ends = [
                Settle(step, key, "skip", error) for step in self._unsettled.values() for key in self._skippable(step)
            ]
            if ends:
                return list(ends)
        moves: list[Propose | Settle] = []
        room = self.limits.concurrency_max - len(busy)
        writing = any(not self.is_read(self._steps[key[0]]) for key in busy)
        for step in sorted((self._steps[name] for name in self._frontier), key=lambda step: self._order[step.id]):
            vain = self._in_vain(step)
            if vain:
                moves.extend(vain)
                continue
            if stop is not None or (scope is not None and step.id not in scope):
                continue
            read = self.is_read(step)
            for move in self._ready(step, busy, asked):
                if isinstance(move, Settle):
                    moves.append(move)
                elif quiet or room <= 0 or not (read or self._may_write(step, writing, asked, scope)):
                    break
                else:
                    moves.append(move)
                    room -= 1
                    writing = writing or not read
        return moves

    def _may_write(self, step: Step, writing: bool, asked: frozenset[Key], scope: frozenset[str] | None) -> bool:
        """Non-reads run one at a time in plan order, passing only steps that wait for somebody or are out of scope."""
        if writing:
            return False
        for earlier in self._unsettled.values():
            if earlier.id == step.id:
                return True
            if self.is_read(earlier) or (scope is not None and earlier.id not in scope):
                continue
            if not self._waits(earlier, asked):
                return False
        return True

    def _in_vain(self, step: Step) -> list[Settle]:
        """Skips for a step one of whose dependencies ended without an output that it could use."""
        for name in sorted(self.dependencies(step)):
            view = self.view(name)
            if view.settled and not view.usable:
                error = ActionError(DEPENDENCY_UNMET, f"step {name!r}, which it depends on, is {view.state}")
                return [Settle(step, key, "skip", error) for key in self._skippable(step)]
        return []

    def _skippable(self, step: Step) -> list[int | None]:
        recorded = self._actions[step.id]
        items = self.items(step)
        if items is not None:
            return list(recorded.startable(len(items)))
        action = recorded.get(None)
        return [None] if action is None or action.state in ("pending", "waiting-for-decision") else []

    def _ready(self, step: Step, busy: frozenset[Key], asked: frozenset[Key]) -> Iterator[Propose | Settle]:
        """What of this step may be done now, in item order and no further than the caller wants to know."""
        if any(not self.view(name).usable for name in self.dependencies(step)):
            return
        if step.for_each is None:
            yield from self._ready_action(step, None, None, busy, asked)
            return
        items = self.items(step)
        if items is None:
            yield Settle(step, None, "fail", self._item_fault(step))
            return
        recorded = self._actions[step.id]
        failed: Action | None = None
        if step.on_error == "stop" and recorded.count("failed", "denied"):
            # A person's no is for its item alone: others may be approved already.
            failed = next((a for a in recorded if a.state in ("failed", "denied") and not _by_person(a)), None)
        if failed is not None:
            error = ActionError(RUN_STOPPED, f"item {failed.item} did not succeed")
            for key in self._skippable(step):
                if (step.id, key) not in busy:
                    yield Settle(step, key, "skip", error)
            return
        for index in recorded.startable(len(items)):
            yield from self._ready_action(step, index, items[index], busy, asked)

    def _ready_action(
        self, step: Step, index: int | None, item: Json, busy: frozenset[Key], asked: frozenset[Key]
    ) -> Iterator[Propose | Settle]:
        action = self._actions[step.id].get(index)
        key = (step.id, index)
        state = PENDING if action is None else action.state
        if state not in ("pending", "waiting-for-decision") or key in asked or key in busy:
            return
        try:
            arguments = resolve(step.arguments, self.outputs(step), item)
        except (MissingPath, ValueError) as missing:
            error = ActionError(REFERENCE_MISSING, f"what it refers to is not there: {missing}")
            yield Settle(step, index, "fail", error)
            return
        assert isinstance(arguments, Mapping)
        yield Propose(step, index, arguments, 1 if action is None else action.attempt)

    def _item_fault(self, step: Step) -> ActionError:
        assert step.for_each is not None
        source = step.for_each.source
        try:
            found = resolve_pointer(self.view(source.step).output, source.path)
        except MissingPath:
            return ActionError(REFERENCE_MISSING, f"the output of {source.step!r} has no {source.path!r}")
        if not is_array(found):
            return ActionError(ITEMS_NOT_ARRAY, f"{source.step}{source.path} is not an array")
        most = min(step.for_each.max, self.limits.items_max)
        return ActionError(TOO_MANY_ITEMS, f"{len(found)} items are more than the {most} allowed; none was run")

    def _waits(self, step: Step, asked: frozenset[Key]) -> bool:
        """Nothing that this process does moves the step on: it, or all that it waits for, waits for somebody."""
        view = self.view(step.id)
        if view.settled:
            return False
        unusable = [name for name in self.dependencies(step) if not self.view(name).usable]
        if unusable:
            return all(self._waits(self._steps[name], asked) for name in unusable)
        if self._actions[step.id].count("running"):
            return False
        return all((step.id, key) in asked for key in self._skippable(step))

    def cancellations(self) -> list[Settle]:
        """What an explicit cancel settles: everything that has not started. What runs or is unknown stays so."""
        error = ActionError(RUN_CANCELLED, "the run was cancelled before this action started")
        return [
            Settle(step, item, "cancel", error)
            for step in self.plan.steps
            if not self.view(step.id).settled
            for item in self._skippable(step)
        ]

    def known(self) -> list[Propose]:
        """Every action that has not started and whose arguments are known now: what ``confirmed`` can speak of."""
        out: list[Propose] = []
        for step in self.plan.steps:
            if self.view(step.id).settled:
                continue
            if all(self.view(name).usable for name in self.dependencies(step)):
                moves = self._ready(step, frozenset(), frozenset())
            elif step.for_each is None and not dependencies_by_reference(step):
                moves = self._ready_action(step, None, None, frozenset(), frozenset())
            else:
                continue
            out.extend(move for move in moves if isinstance(move, Propose))
        return out

    # -- how it ends -----------------------------------------------------------------------------------------

    def status(self, cancelled: bool = False) -> RunStatus:
        """The run's status when nothing is in flight. A cancel that came after the last step began ended nothing."""
        views = self.views()
        if cancelled and not (all(view.settled for view in views) and not self._cut_short()):
            return "cancelled"
        states = {view.state for view in views}
        if any(action.state == "outcome-unknown" for action in self.actions()):
            return "needs-attention"
        if any(action.state == "waiting-for-decision" for action in self.actions()):
            return "waiting-for-decision"
        if states <= FINISHED:
            return "completed" if self.evaluate().outcome in ("achieved", "partial") else "failed"
        return "running"

    def _cut_short(self) -> bool:
        return any(action.error is not None and action.error.code == RUN_CANCELLED for action in self.actions())

    def evaluate(self) -> Evaluation:
        """achieved | partial | failed | blocked, from recorded facts alone (spec §5)."""
        views = self.views()
        counts: dict[str, int] = {}
        for view in views:
            counts[view.state] = counts.get(view.state, 0) + 1
        reasons = tuple(StepReason(v.step.id, v.state, _reason(v)) for v in views)
        results = [result for view in views for result in view.checks]
        failed = sum(1 for result in results if not result.passed)
        return Evaluation(self._outcome(views), counts, len(results), failed, reasons)

    def _outcome(self, views: tuple[StepView, ...]) -> Outcome:
        if all(view.state == "succeeded" for view in views):
            return "achieved"
        if any(a.state in ("waiting-for-decision", "outcome-unknown") for a in self.actions()):
            return "blocked"
        stop = self.stopped_by()
        if stop is not None:
            return "blocked" if stop.state == "denied" else "failed"
        if not any(view.state == "succeeded" for view in views):
            return "blocked" if any(view.state == "denied" for view in views) else "failed"
        return "partial" if all(view.settled for view in views) else "blocked"


def _fan_outs_over(plan: Plan) -> dict[str, list[str]]:
    """For each step the fan-outs whose items follow from it, directly or through other fan-outs."""
    over: dict[str, list[str]] = {}
    for step in reversed(plan.steps):
        if step.for_each is not None:
            over.setdefault(step.for_each.source.step, []).extend([step.id, *over.get(step.id, ())])
    return over


def _dependants(dependencies: Mapping[str, frozenset[str]]) -> dict[str, list[str]]:
    dependants: dict[str, list[str]] = {}
    for name, needed in dependencies.items():
        for other in needed:
            dependants.setdefault(other, []).append(name)
    return dependants


def dependencies_of(step: Step) -> frozenset[str]:
    """References ∪ ``after``."""
    return frozenset(step.after) | dependencies_by_reference(step)


def dependencies_by_reference(step: Step) -> frozenset[str]:
    names = {ref.step for _, ref in find_references(step.arguments) if isinstance(ref, Reference)}
    if step.for_each is not None:
        names.add(step.for_each.source.step)
    return frozenset(names)


def recover(action: Action, capability: Capability | None, at: float) -> Action:
    """An action found ``running`` after its process died: repeat it where that does no harm, else nobody knows."""
    if capability is not None and capability.annotations.may_repeat:
        return action.after("retry", attempt=action.attempt + 1, started_at=None)
    error = ActionError("PROCESS_DIED", "the process died between the intent and the result; nobody knows the outcome")
    return action.after("lose", error=error, finished_at=at)


def _stops(view: StepView) -> bool:
    """A failure, or a denial by policy, of a step that does not say ``continue``."""
    return view.state in ("failed", "denied") and view.step.on_error == "stop" and not _by_person(view)


def _by_person(view: StepView | Action) -> bool:
    return view.state == "denied" and view.error is not None and view.error.code in (DENIED_BY_PERSON, APPROVAL_EXPIRED)


def _reason(view: StepView) -> str:
    if view.error is not None:
        return f"{view.error.code}: {view.error.message}"
    if view.state == "succeeded":
        count = len(view.checks)
        return (
            f"succeeded; {count} check{'s' if count != 1 else ''} held" if count else "succeeded; nothing was checked"
        )
    return view.state
