"""Finding runs and reading them back: what every part of the run service needs and nothing that changes a run.

Above it the supervisor, the service and the answers; below it the stores.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from chaoscore.app.capabilities import Registry
from chaoscore.app.facts import Facts
from chaoscore.app.ports import AuditStore, Clock, DecisionStore, Ids, PlanStore, Processes, RunStore
from chaoscore.app.tools import CallContext
from chaoscore.domain.action import Action, Grant
from chaoscore.domain.errors import ChaosError, InvalidInput, NotFound
from chaoscore.domain.json import Json, canonical_text
from chaoscore.domain.limits import Limits
from chaoscore.domain.records import Claim, Run, StoredPlan
from chaoscore.domain.redaction import Redactor
from chaoscore.domain.run import RunState


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """Exactly one of ``plan`` and ``run`` is the id the caller holds. ``wait_seconds`` bounds the call, not the run.

    ``label`` names a run without its id, for whoever owns this process and its store; no tool takes it.
    """

    plan: str | None = None
    run: str | None = None
    step_ids: tuple[str, ...] | None = None
    confirmed: bool = False
    wait_seconds: float | None = None
    rerun: bool = False
    stop_at_approval: bool = False
    label: str | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as it stands when a call returns. ``in_motion``: it goes on after this answer."""

    run: Run
    plan: StoredPlan
    state: RunState
    in_motion: bool = False
    credential: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunBook:
    """The ports and bounds that runs are read and claimed with. ``root`` is the interactions folder of new runs."""

    plans: PlanStore
    runs: RunStore
    audit: AuditStore
    registry: Registry
    clock: Clock
    ids: Ids
    processes: Processes
    limits: Limits
    decisions: DecisionStore
    redactor: Redactor = field(default_factory=Redactor)
    root: str | None = None

    async def existing(self, request: ExecuteRequest, context: CallContext) -> tuple[StoredPlan, Run]:
        """The run a caller names, by its own id or its plan's. A foreign one answers like a missing one."""
        if request.run is not None or request.label is not None:
            run = await self._named(request, context)
            plan = await self.plans.plan_by_label(run.plan) if run is not None else None
        else:
            plan = await self.plans.find_plan(request.plan or "", context.principal, context.binding)
            run = await self.runs.run_of_plan(plan.plan.label) if plan is not None else None
        if run is None or plan is None:
            name = request.run or request.label or request.plan
            raise NotFound(f"there is no run for {name!r}; chaoscore_execute starts one", key="run_id")
        return plan, run

    async def _named(self, request: ExecuteRequest, context: CallContext) -> Run | None:
        if request.run is not None:
            return await self.runs.find_run(request.run, context.principal)
        # The operator answers for the runs of callers who hold an id that is stored nowhere.
        return await self.runs.load_run(request.label or "") if context.principal.kind == "local" else None

    async def open(self, request: ExecuteRequest, context: CallContext) -> tuple[StoredPlan, Run, str | None]:
        """The run to execute, made now where the plan has none yet, and the id to answer with."""
        if sum(name is not None for name in (request.plan, request.run, request.label)) != 1:
            raise InvalidInput("give exactly one of plan_id and run_id", key="plan_id")
        if request.plan is None:
            plan, run = await self.existing(request, context)
            if not request.rerun:
                return plan, run, request.run or run.handle
        else:
            found = await self.plans.find_plan(request.plan or "", context.principal, context.binding)
            if found is None:
                raise NotFound(f"there is no plan {request.plan!r}; make one with chaoscore_plan", key="plan_id")
            plan = found
        credential, label, now = self.ids.credential("run"), self.ids.label("r"), self.clock.now()
        new = Run(label, credential, plan.plan.label, plan.plan.owner, "running", now, now, root=self.root)
        event = self.facts(plan, label, context).event("run-opened", rerun=request.rerun)
        run, made = await self.runs.open_run(new, credential, request.rerun, (event,))
        return plan, run, credential if made else run.handle

    async def reload(self, label: str) -> Run:
        run = await self.runs.load_run(label)
        if run is None:
            raise ChaosError(f"run {label!r} vanished from the store", code="STORE_CORRUPT")
        return run

    async def claim(self, label: str) -> Claim:
        """Raises ``Busy`` while a live process holds the run."""
        return await self.runs.claim(label, self.processes.current(), self.clock.now(), self.limits.lease_seconds)

    def state(self, plan: StoredPlan, run: Run) -> RunState:
        return RunState(plan.plan, self.registry, self.limits, run.actions)

    def facts(self, plan: StoredPlan, run: str, context: CallContext) -> Facts:
        return Facts(
            self.audit.redact, self.clock.now, context.principal.key, context.connection.id, plan.plan.label, run
        )

    def facts_of(self, plan: StoredPlan, run: str, connection: str | None) -> Facts:
        """Facts about a run that somebody else than its caller moves on: they belong to the run's owner."""
        return Facts(self.audit.redact, self.clock.now, plan.plan.owner, connection, plan.plan.label, run)

    def new_grant(self, run: Run, digest: str, door: str, approver: str) -> Grant:
        now = self.clock.now()
        return Grant(self.ids.label("g"), run.label, digest, door, approver, now, now + self.limits.grant_seconds)

    async def reusable(self, plan: StoredPlan) -> dict[str, Action]:
        """Succeeded non-read actions of the plans this one replaces, by ``same``: they never run again."""
        done: dict[str, Action] = {}
        predecessor = plan.plan.predecessor
        while predecessor is not None:
            earlier = await self.runs.run_of_plan(predecessor)
            for action in earlier.actions if earlier is not None else ():
                capability = self.registry.get(action.capability)
                read = capability is not None and capability.annotations.read_only
                if action.state == "succeeded" and not read and action.arguments is not None:
                    done.setdefault(same(action.capability, action.arguments), action)
            before = await self.plans.plan_by_label(predecessor)
            predecessor = before.plan.predecessor if before is not None else None
        return done


def same(capability: str, arguments: Json) -> str:
    """Two actions of one capability with the same resolved arguments are the same action."""
    return f"{capability}\n{canonical_text(arguments)}"
