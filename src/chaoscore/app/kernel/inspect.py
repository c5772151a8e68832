"""``chaoscore_inspect``: what is there, per topic. Reads only; a foreign id answers like a missing one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from chaoscore.app.approvals import Approvals
from chaoscore.app.capabilities import Registry
from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.app.envelope import Envelope
from chaoscore.app.folder_mirror import FolderMirror
from chaoscore.app.kernel.report import decision_json, how_to_answer, run_json
from chaoscore.app.memories import MemoryService
from chaoscore.app.plans import PlanService, plan_json
from chaoscore.app.ports import AIProvider, AuditStore, PolicySource
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.app.runs.service import RunService
from chaoscore.app.tools import CallContext
from chaoscore.domain.errors import InvalidInput, NotFound
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.memory import RecallQuery
from chaoscore.domain.policy.model import Policy, Question
from chaoscore.domain.records import RunSummary

STEP_OUTPUT_BYTES_MAX = 1_048_576

Health = Callable[[], JsonObject]
Topic = Callable[[JsonObject, CallContext], Awaitable[Envelope]]


@runtime_checkable
class Describing(Protocol):
    """A provider that can tell more of itself than the port asks for."""

    def describe(self) -> JsonObject:
        """Facts for people: no key, no password."""
        ...


class Inspector:
    """One method per topic; ``inspect`` picks it."""

    def __init__(
        self,
        *,
        registry: Registry,
        policy: PolicySource,
        plans: PlanService,
        runs: RunService,
        approvals: Approvals,
        mirror: FolderMirror,
        memories: MemoryService,
        audit: AuditStore,
        provider: AIProvider | None,
        limits: Limits,
        health: Health,
        copyable: Copyable = PLAIN,
    ) -> None:
        self._registry = registry
        self._policy = policy
        self._plans = plans
        self._runs = runs
        self._approvals = approvals
        self._mirror = mirror
        self._memories = memories
        self._audit = audit
        self._provider = provider
        self._limits = limits
        self._health = health
        self._copyable = copyable
        self._topics: dict[str, Topic] = {
            "capabilities": self._capabilities,
            "policy": self._policy_in_force,
            "session": self._session,
            "plan": self._plan,
            "run": self._run,
            "runs": self._list_runs,
            "decisions": self._decisions,
            "audit": self._audit_tail,
            "memory": self._memory,
            "providers": self._providers,
            "health": self._show_health,
        }

    async def inspect(self, arguments: JsonObject, context: CallContext) -> Envelope:
        topic = self._topics[str(arguments.get("what", "health"))]
        return await topic(arguments, context)

    async def _capabilities(self, arguments: JsonObject, context: CallContext) -> Envelope:
        wanted = arguments.get("name")
        shown: list[Json] = []
        for capability in self._registry.values():
            if wanted is not None and capability.name != wanted:
                continue
            verdict = self._policy.verdict(Question(capability.name, capability.builtin, (), capability.scope))
            shown.append({**capability.definition(), "verdict": verdict.to_json()})
        if wanted is not None and not shown:
            near = ", ".join(self._registry.nearest(str(wanted))) or "none like it"
            raise NotFound(f"there is no capability {wanted!r}; near names: {near}", key="name")
        return _shown(f"{len(shown)} capabilities", capabilities=shown)

    async def _policy_in_force(self, arguments: JsonObject, context: CallContext) -> Envelope:
        problem = self._policy.problem()
        return _shown(
            "the policy cannot be read: nothing is allowed without approval until it is mended"
            if problem
            else "the policy in force",
            policy=policy_json(self._policy.policy()),
            problem=problem,
            warnings=list(self._policy.warnings()),
        )

    async def _session(self, arguments: JsonObject, context: CallContext) -> Envelope:
        connection = context.connection
        if not connection.stateful:
            return _shown("a stateless connection has no working memory", stateful=False, working_memory=[])
        return _shown(
            f"{len(connection.working)} entries in this connection's working memory",
            stateful=True,
            connection=connection.id,
            principal=context.principal.key,
            working_memory=list(connection.working),
        )

    async def _plan(self, arguments: JsonObject, context: CallContext) -> Envelope:
        report = await self._plans.find(_needed(arguments, "plan_id"), context)
        return _shown("the plan, with the verdict that policy gives each step now", **plan_json(report, self._registry))

    async def _run(self, arguments: JsonObject, context: CallContext) -> Envelope:
        report = await self._runs.look(_run_request(arguments), context)
        step = arguments.get("step")
        if step is None:
            return _shown("the run as recorded", **run_json(report, copyable=self._copyable))
        if not any(view.step.id == step for view in report.state.views()):
            raise NotFound(f"the run has no step {step!r}", key="step")
        data = run_json(report, STEP_OUTPUT_BYTES_MAX, self._copyable)
        steps = data["steps"]
        assert isinstance(steps, list)
        return _shown(f"step {step} of the run", run=data["label"], step=next(s for s in steps if s["id"] == step))

    async def _list_runs(self, arguments: JsonObject, context: CallContext) -> Envelope:
        if context.principal.is_anonymous:
            return _shown("an anonymous caller has no list: the id of a run is its only key", runs=[], cursor=None)
        runs, cursor = await self._runs.list(context.principal, _limit(arguments), _cursor(arguments))
        return _shown(f"{len(runs)} runs, newest first", runs=[summary_json(run) for run in runs], cursor=cursor)

    async def _decisions(self, arguments: JsonObject, context: CallContext) -> Envelope:
        """What the caller's runs wait for, oldest first; an anonymous caller names the run."""
        if "run_id" in arguments or "plan_id" in arguments:
            run = (await self._runs.look(_run_request(arguments), context)).run
            found, cursor = tuple(d for d in run.decisions if d.state == "waiting"), None
        else:
            found, cursor = await self._approvals.waiting(context.principal, _limit(arguments), _cursor(arguments))
        waiting: list[Json] = [
            {**decision_json(decision), "folder_problem": self._mirror.problem(decision.id)} for decision in found
        ]
        message = f"{len(waiting)} decisions wait for a person" if waiting else "nothing waits for anybody"
        return _shown(message, decisions=waiting, cursor=cursor, how=how_to_answer(self._copyable))

    async def _audit_tail(self, arguments: JsonObject, context: CallContext) -> Envelope:
        run: str | None = None
        if "run_id" in arguments or "plan_id" in arguments:
            run = (await self._runs.look(_run_request(arguments), context)).run.label
        elif context.principal.is_anonymous:
            raise InvalidInput("an anonymous caller sees the audit of one run: give its run_id", key="run_id")
        before = _cursor(arguments)
        if before is not None and not before.isdigit():
            raise InvalidInput(f"cursor {before!r} is not one of ours", key="cursor")
        found = await self._audit.tail(context.principal, run, _limit(arguments), int(before) if before else None)
        events: list[Json] = [{"seq": seq, **event} for seq, event in found]
        cursor = str(found[-1][0]) if len(found) == _limit(arguments) else None
        return _shown(f"{len(events)} audit events, newest first", events=events, cursor=cursor)

    async def _memory(self, arguments: JsonObject, context: CallContext) -> Envelope:
        key = arguments.get("key")
        if isinstance(key, str):
            versions = await self._memories.history(key, _limit(arguments), context)
            return _shown(f"{len(versions)} earlier versions", memories=[m.to_json() for m in versions])
        query = RecallQuery(limit=_limit(arguments), cursor=_cursor(arguments))
        page = await self._memories.recall(query, context)
        return _shown(
            f"{len(page.memories)} memories, newest first",
            memories=[m.to_json() for m in page.memories],
            cursor=page.cursor,
        )

    async def _providers(self, arguments: JsonObject, context: CallContext) -> Envelope:
        provider = self._provider
        shown: list[Json] = [] if provider is None else [described(provider)]
        if provider is None or not provider.is_configured():
            return _shown(
                "no provider is configured; plans come from the caller's steps or from rules",
                provider=None if provider is None else provider.id,
                configured=False,
                providers=shown,
                how="set OPENAI_API_KEY (or OPENAI_BASE_URL for a local server), or send steps to chaoscore_plan",
            )
        return _shown(f"{provider.display_name} is configured", provider=provider.id, configured=True, providers=shown)

    async def _show_health(self, arguments: JsonObject, context: CallContext) -> Envelope:
        health = self._health()
        return Envelope("SHOWN", f"status {health['status']}", health)


def described(provider: AIProvider) -> JsonObject:
    """Who it is, which model it asks and where, and whether the schema is enforced (``None``: nobody knows yet)."""
    facts: dict[str, Json] = {
        "id": provider.id,
        "display_name": provider.display_name,
        "configured": provider.is_configured(),
        "model": None,
        "endpoint": None,
        "schema_enforced": None,
    }
    return {**facts, **provider.describe()} if isinstance(provider, Describing) else facts


def policy_json(policy: Policy) -> dict[str, Json]:
    meaning = {
        "caller": "an approval is the calling agent's word: confirmed: true lets waiting actions run",
        "human": "only a person's answer through an approval door lets waiting actions run",
    }
    return {
        "allowedCapabilities": list(policy.allowed),
        "deniedCapabilities": list(policy.denied),
        "requireConfirmationFor": list(policy.confirm),
        "httpAllowedDomains": list(policy.http_allowed_domains),
        "httpAllowPrivate": list(policy.http_allow_private),
        "approvalMode": policy.approval_mode,
        "approvalModeMeans": meaning[policy.approval_mode],
        "approvalDoors": list(policy.approval_doors),
        "digest": policy.digest,
    }


def summary_json(run: RunSummary) -> dict[str, Json]:
    return {
        "run_id": run.handle,
        "label": run.label,
        "plan_id": run.plan_handle,
        "objective": run.objective,
        "status": run.status,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
    }


def _shown(message: str, **data: Json) -> Envelope:
    return Envelope("SHOWN", message, data)


def _needed(arguments: JsonObject, key: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str):
        raise InvalidInput(f"what={arguments.get('what')!r} needs {key}", key=key)
    return value


def _run_request(arguments: JsonObject) -> ExecuteRequest:
    run, plan = arguments.get("run_id"), arguments.get("plan_id")
    if isinstance(run, str):
        return ExecuteRequest(run=run)
    if isinstance(plan, str):
        return ExecuteRequest(plan=plan)
    raise InvalidInput(f"what={arguments.get('what')!r} needs run_id (or plan_id)", key="run_id")


def _limit(arguments: JsonObject) -> int:
    value = arguments.get("limit", 20)
    return int(value) if isinstance(value, int | float) else 20


def _cursor(arguments: JsonObject) -> str | None:
    value = arguments.get("cursor")
    return value if isinstance(value, str) else None
