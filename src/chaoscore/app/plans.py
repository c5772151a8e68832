"""Making, previewing and finding plans: the planner proposes, the linter and the policy answer before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from chaoscore.app.capabilities import Registry
from chaoscore.app.gate import Gate
from chaoscore.app.memories import MemoryService, Recalled
from chaoscore.app.planning import Budget, NeedsPlan, Planner, PlanRequest
from chaoscore.app.ports import AuditStore, Clock, Ids, PlanStore, PolicySource
from chaoscore.app.tools import CallContext
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import InvalidInput, NotFound
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import lint
from chaoscore.domain.plan import Plan, StepFacts, step_to_json
from chaoscore.domain.policy.model import Verdict
from chaoscore.domain.records import StoredPlan


@dataclass(frozen=True, slots=True)
class NewPlan:
    """What a caller asks for. ``steps`` is raw JSON as the caller wrote it; ``predecessor`` a plan's label."""

    objective: str | None = None
    intent: JsonObject | None = None
    steps: Json = None
    constraints: tuple[str, ...] = ()
    change_id: str | None = None
    predecessor: str | None = None
    feedback: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A stored plan with the verdict of every step, given before anything runs. ``credential`` is its ``plan_…`` id."""

    plan: StoredPlan
    credential: str
    verdicts: dict[str, Verdict]
    facts: dict[str, StepFacts]


class PlanService:
    def __init__(
        self,
        *,
        plans: PlanStore,
        audit: AuditStore,
        planner: Planner,
        memories: MemoryService,
        gate: Gate,
        registry: Registry,
        policy: PolicySource,
        clock: Clock,
        ids: Ids,
        limits: Limits,
    ) -> None:
        self._plans = plans
        self._audit = audit
        self._planner = planner
        self._memories = memories
        self._gate = gate
        self._registry = registry
        self._policy = policy
        self._clock = clock
        self._ids = ids
        self._limits = limits

    @property
    def can_replan(self) -> bool:
        """Whether a failed plan can be replaced without the caller: a model must be there to ask."""
        return self._planner.has_provider

    async def make(
        self, request: NewPlan, context: CallContext, budget: Budget | None = None, recalled: Recalled | None = None
    ) -> PlanReport | NeedsPlan:
        """Propose, lint, preview the policy, store.

        Nothing is stored before the plan is there: a call that ends because the client's model is asked may come again.
        Raises ``PlanInvalid`` with every fault, a ``ProviderError``, or ``LimitExceeded`` for the budget.
        """
        objective = _objective(request)
        if request.steps is None and recalled is None:
            recalled = await self._memories.context_for(objective, context)
        proposal = await self._planner.propose(
            PlanRequest(
                objective=objective,
                intent=request.intent,
                steps=request.steps,
                context=recalled.context if recalled is not None else None,
                constraints=request.constraints,
                feedback=request.feedback,
            ),
            budget or Budget(self._limits),
            context.client_model,
        )
        if isinstance(proposal, NeedsPlan):
            return proposal
        plan = Plan(
            label=self._ids.label("p"),
            objective=objective,
            steps=proposal.steps,
            author=proposal.author,
            policy_digest=self._policy.policy().digest,
            created_at=self._clock.now(),
            owner=context.principal.key,
            intent=request.intent,
            change_id=request.change_id,
            predecessor=request.predecessor,
            recalled=proposal.recalled,
        )
        credential = self._ids.credential("plan")
        event = AuditEvent(
            "plan-stored",
            self._clock.now(),
            context.principal.key,
            context.connection.id,
            plan.label,
            data={
                "objective": self._audit.redact(objective),
                "steps": len(plan.steps),
                "author": plan.author.source,
                "provider": plan.author.provider,
                "model": plan.author.model,
                "policy_digest": plan.policy_digest,
                "predecessor": plan.predecessor,
            },
        )
        binding = context.binding if context.principal.is_anonymous else None
        await self._plans.add_plan(plan, credential, binding, (event,))
        stored = StoredPlan(plan, credential)
        return PlanReport(stored, credential, self.verdicts(plan), dict(proposal.facts))

    async def find(self, credential: str, context: CallContext) -> PlanReport:
        """Raises ``NotFound`` for a missing and for a foreign one alike."""
        stored = await self._plans.find_plan(credential, context.principal, context.binding)
        if stored is None:
            raise NotFound(f"there is no plan {credential!r}; make one with chaoscore_plan", key="plan_id")
        facts = lint(stored.plan.steps, self._registry, self._limits).facts
        return PlanReport(stored, credential, self.verdicts(stored.plan), dict(facts))

    def verdicts(self, plan: Plan) -> dict[str, Verdict]:
        """What the policy says of each step now; arguments that come later are named as pending."""
        return {step.id: self._gate.judge(step.capability, step.arguments, written=True) for step in plan.steps}


def plan_json(report: PlanReport, registry: Registry) -> dict[str, Json]:
    """The plan as tools and the terminal show it."""
    plan = report.plan.plan
    steps: list[Json] = []
    for step in plan.steps:
        capability = registry.get(step.capability)
        facts = report.facts.get(step.id, StepFacts())
        shown = step_to_json(step)
        shown["verdict"] = report.verdicts[step.id].to_json()
        if capability is not None:
            shown["risk"] = capability.risk
            shown["read_only"] = capability.annotations.read_only
        shown["depends_on"] = sorted(facts.depends_on)
        if facts.derives_from:
            shown["derives_from"] = {pointer: list(names) for pointer, names in facts.derives_from.items()}
        if facts.untrusted_sinks:
            shown["untrusted_sinks"] = list(facts.untrusted_sinks)
        steps.append(shown)
    return {
        "plan_id": report.credential,
        "label": plan.label,
        "version": plan.version,
        "objective": plan.objective,
        "intent": plan.intent,
        "author": {
            "source": plan.author.source,
            "provider": plan.author.provider,
            "model": plan.author.model,
            "tokens": plan.author.tokens,
        },
        "policy_digest": plan.policy_digest,
        "created_at": plan.created_at,
        "change_id": plan.change_id,
        "predecessor": plan.predecessor,
        "recalled": plan.recalled,
        "steps": steps,
    }


def _objective(request: NewPlan) -> str:
    if request.objective:
        return request.objective
    found = (request.intent or {}).get("objective")
    if isinstance(found, str) and found:
        return found
    if request.steps is not None:
        return "run the caller's plan"
    raise InvalidInput("give an objective, an intent from chaoscore_reason, or steps", key="objective")
