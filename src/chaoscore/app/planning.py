"""Who plans: the caller's own steps, else the configured model, else the rules, else the client's model, else the
caller is asked to (spec §7).

Whoever wrote a plan, the linter checks it; a model's faulty plan goes back to it once. Nothing here asks the policy or
runs anything. The client's own model, where it may be asked, comes between the rules and ``NeedsPlan``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chaoscore.app.budget import ANSWER_TOKENS_MAX, Budget
from chaoscore.app.capabilities import Registry
from chaoscore.app.client_model import CLIENT_MODEL, WRITE_PLAN_SECONDS, ClientModel, Prompt, Silent, Written, read_json
from chaoscore.app.plan_prompt import (
    READING_EACH,
    described,
    instructions_for,
    instructions_in_words,
    reading_each,
    schema_for,
)
from chaoscore.app.ports import AIProvider, GeneratedJson, Ids, Usage
from chaoscore.app.reasoning import request_text, said
from chaoscore.domain.capability import Capability
from chaoscore.domain.errors import Fault, LimitExceeded, NotConfigured, PlanInvalid
from chaoscore.domain.fence import fence
from chaoscore.domain.fitting import fitting
from chaoscore.domain.json import Json, JsonObject, is_array, is_object
from chaoscore.domain.limits import Limits
from chaoscore.domain.lint import LintReport, check_steps
from chaoscore.domain.plan import Author, Step, StepFacts
from chaoscore.domain.plan_schema import PLAN_SCHEMA, from_strict
from chaoscore.domain.rules import Abstained, RulesPlan, plan_by_rules

__all__ = ["Budget", "NeedsPlan", "PlanRequest", "Planner", "Proposal"]

OFFERED_MAX = 8
"""Capabilities shown to a caller who has to write the plan."""
SHOWN_MAX = 32
"""Capabilities shown to a model."""
PREVIOUS_CHARS_MAX = 16_000
_ERROR_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_STATE = re.compile(r"[a-z]+(-[a-z]+){0,3}")

_MEND = "Your answer had the faults listed in the data 'rejected'. Answer again with the whole corrected plan."


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is to be planned. ``steps`` is the caller's raw JSON, ``None`` when somebody else has to write them.

    ``context`` is data from elsewhere (memories, working memory). ``feedback`` tells how an earlier plan went:
    ``{"steps": [{"id", "capability", "state", "error"}]}``; anything else in it is left out (law 8).
    """

    objective: str
    intent: JsonObject | None = None
    steps: Json = None
    context: JsonObject | None = None
    constraints: tuple[str, ...] = ()
    feedback: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan without a fault. ``recalled`` tells that a model wrote it with memories in view."""

    steps: tuple[Step, ...]
    facts: Mapping[str, StepFacts]
    author: Author
    usage: Usage = field(default_factory=Usage)
    recalled: bool = False


@dataclass(frozen=True, slots=True)
class NeedsPlan:
    """Nobody here can write the plan: what the caller needs to write it.

    ``unexplained`` are the words of the goal that the rules could not explain. ``example`` is ``None`` when no plan
    over the registered capabilities can be made up.
    """

    reason: str
    plan_schema: JsonObject
    capabilities: tuple[JsonObject, ...]
    example: JsonObject | None = None
    unexplained: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)

    def to_json(self) -> dict[str, Json]:
        out: dict[str, Json] = {
            "plan_schema": self.plan_schema,
            "capabilities": list(self.capabilities),
            "unexplained": list(self.unexplained),
        }
        if self.example is not None:
            out["example"] = self.example
        if self.usage.calls:
            out["usage"] = self.usage.to_json()
        return out


class Planner:
    def __init__(self, registry: Registry, provider: AIProvider | None, limits: Limits, ids: Ids) -> None:
        self._registry = registry
        self._provider = provider
        self._limits = limits
        self._ids = ids

    @property
    def has_provider(self) -> bool:
        """Whether a model is there to ask."""
        return self._provider is not None and self._provider.is_configured()

    async def propose(
        self, request: PlanRequest, budget: Budget, client: ClientModel | None = None
    ) -> Proposal | NeedsPlan:
        """A plan without faults, or what the caller needs to write one.

        ``client`` is asked when no model is configured and the rules cannot plan; a failing client raises nothing.
        Raises ``PlanInvalid`` with every fault of the caller's steps, or of the model's second try (then
        ``details['author']`` names it); another ``ProviderError``; ``LimitExceeded`` for the budget.
        """
        if request.steps is not None:
            report = check_steps(request.steps, self._registry, self._limits)
            return Proposal(report.require(), report.facts, Author("caller"))
        why = "no model is configured"
        if self._provider is not None and self.has_provider:
            try:
                return await self._ask_model(self._provider, request, budget)
            except NotConfigured as error:
                # Its SDK is not installed: as good as no model, but say so.
                why = error.message
        if request.feedback is not None:
            # Nor the client's model: asking may begin its call anew, and the call has run a plan by now.
            return self._needs_plan(request.objective, f"{why}, and the same rules would plan the same again")
        found = self._by_rules(request)
        if isinstance(found, Proposal):
            return found
        why = f"{why}, and {found.reason}"
        if client is not None:
            written = await self._ask_client(client, request, budget)
            if isinstance(written, Proposal):
                return written
            why = f"{why}; the client's model gave no plan: {written.why}"
        return self._needs_plan(request.objective, why, found.unexplained)

    # -- rules -------------------------------------------------------------------------------------------------

    def _by_rules(self, request: PlanRequest) -> Proposal | Abstained:
        found = plan_by_rules(request.objective, self._registry)
        if isinstance(found, RulesPlan):
            report = check_steps(list(found.steps), self._registry, self._limits)
            if report.ok and not request.constraints:
                return Proposal(report.steps, report.facts, Author("rules"))
            what = "the caller's constraints" if report.ok else f"{report.faults[0].pointer}"
            found = Abstained((), f"rules cannot keep {what}" if report.ok else f"the rules' plan is faulty at {what}")
        return found

    # -- the configured model ----------------------------------------------------------------------------------

    async def _ask_model(self, provider: AIProvider, request: PlanRequest, budget: Budget) -> Proposal | NeedsPlan:
        shown = self._shown(request.objective)
        if not shown:
            return self._needs_plan(request.objective, "no capability is registered")
        fence_id = self._ids.label("fence")
        instructions = instructions_for(shown, fence_id, request.feedback is not None)
        words = self._words(request, fence_id)
        schema = schema_for(shown, self._limits)
        made = await budget.generate_json(provider, instructions, words, schema)
        usage = made.usage
        if _gives_up(made.raw):
            reason = "the model found no plan with the registered capabilities"
            return self._needs_plan(request.objective, reason, usage=usage)
        report = self._checked(made)
        if not report.ok:
            rejected = fence("rejected", _rejected(made.raw, report.faults), fence_id, PREVIOUS_CHARS_MAX)
            made = await budget.generate_json(provider, instructions, f"{words}\n{rejected}\n{_MEND}", schema)
            usage = usage.plus(made.usage)
            report = self._checked(made)
        author = Author("provider", made.provider_id, made.model, usage.tokens)
        if not report.ok:
            raise _model_failed(report.faults, author, usage)
        return Proposal(report.steps, report.facts, author, usage, _recalls(request))

    def _checked(self, made: GeneratedJson) -> LintReport:
        return check_steps(from_strict(made.raw), self._registry, self._limits)

    def _shown(self, objective: str) -> dict[str, Capability]:
        return {capability.name: capability for capability in fitting(objective, self._registry, SHOWN_MAX)}

    def _words(self, request: PlanRequest, fence_id: str) -> str:
        data = said(
            {
                "intent": request.intent,
                "context": said(request.context or {}),
                "previous_run": self._outcomes(request.feedback),
            }
        )
        words = request_text(request.objective, request.constraints, self._limits)
        return f"{words}\n{fence('data', data, fence_id)}" if data else words

    def _outcomes(self, feedback: JsonObject | None) -> list[Json]:
        """How the steps of an earlier plan ended: ids, names, states and codes that have the form of such, nothing
        else, whatever the feedback holds. Schemas come from the registry."""
        steps = feedback.get("steps") if feedback is not None else None
        out: list[Json] = []
        for number, step in enumerate(steps if is_array(steps) else (), 1):
            if number > self._limits.steps_max or not is_object(step):
                break
            name, state, code = step.get("capability"), step.get("state"), step.get("error")
            if not isinstance(name, str) or name not in self._registry:
                continue
            out.append(
                {
                    "step": number,
                    "capability": name,
                    "state": state if isinstance(state, str) and _STATE.fullmatch(state) else "unknown",
                    "error": (code if _ERROR_CODE.fullmatch(code) else "ERROR") if isinstance(code, str) else None,
                }
            )
        return out

    # -- the client's model ------------------------------------------------------------------------------------

    async def _ask_client(self, client: ClientModel, request: PlanRequest, budget: Budget) -> Proposal | Silent:
        """A plan, or why there is none. Not the client's fault to raise: the caller can still write the steps."""
        shown = self._shown(request.objective)
        if not shown:
            return Silent("no capability is registered")
        loop = asyncio.get_running_loop()
        until = loop.time() + min(WRITE_PLAN_SECONDS, self._limits.provider_seconds)
        fence_id = self._ids.label("fence")
        words = self._words(request, fence_id)
        prompt = Prompt(
            instructions_in_words(shown, fence_id),
            words,
            min(ANSWER_TOKENS_MAX, self._limits.provider_tokens_max),
            {"memories": _recalls(request)},
        )
        before = ""
        for calls, key in enumerate(("plan", "plan-again"), 1):
            try:
                budget.check()
            except LimitExceeded as error:
                return Silent(f"{before}the bound {error.details['limit']} was reached")
            answer = await client.write(key, prompt, until - loop.time())
            budget.charge(Usage(calls=1))
            if isinstance(answer, Silent):
                return Silent(before + answer.why)
            raw, faults, report = self._read(answer)
            if report is not None and not faults:
                author = Author("client-model", CLIENT_MODEL, answer.model)
                return Proposal(report.steps, report.facts, author, Usage(calls=calls), _recalls(request))
            if _gives_up(raw):
                return Silent(f"{before}it found none with the registered capabilities")
            before = f"{before}{_said(faults)}; then "
            rejected = fence("rejected", _rejected(raw, faults), fence_id, PREVIOUS_CHARS_MAX)
            prompt = replace(prompt, input=f"{words}\n{rejected}\n{_MEND}")
        return Silent(before.removesuffix("; then "))

    def _read(self, answer: Written) -> tuple[Json, tuple[Fault, ...], LintReport | None]:
        raw, fault = read_json(answer.text)
        if fault is not None:
            return raw, (fault,), None
        report = check_steps(from_strict(raw), self._registry, self._limits)
        return raw, report.faults, report

    # -- the caller --------------------------------------------------------------------------------------------

    def _needs_plan(
        self, objective: str, why: str, unexplained: tuple[str, ...] = (), usage: Usage | None = None
    ) -> NeedsPlan:
        offered = fitting(objective, self._registry, OFFERED_MAX)
        return NeedsPlan(
            f"{why}; write the steps yourself and call again with them",
            PLAN_SCHEMA,
            tuple(described(capability) for capability in offered),
            self._example(offered),
            unexplained,
            usage or Usage(),
        )

    def _example(self, offered: tuple[Capability, ...]) -> JsonObject | None:
        """A plan that the linter takes, over capabilities that are there."""
        if "fs.list" in self._registry and "fs.read_text" in self._registry:
            return {"objective": READING_EACH, "steps": reading_each()}
        for capability in offered:
            steps: list[Json] = [
                {"id": "s1", "capability": capability.name, "arguments": _sample(capability.input_schema)}
            ]
            if check_steps(steps, self._registry, self._limits).ok:
                return {"objective": capability.description[:200], "steps": steps}
        return None


def _gives_up(raw: Json) -> bool:
    return is_object(raw) and raw.get("steps") == []


def _recalls(request: PlanRequest) -> bool:
    return is_object(request.context) and bool(request.context.get("memories"))


def _said(faults: tuple[Fault, ...]) -> str:
    where = faults[0].pointer[:100] or "its root"
    return f"its plan has {len(faults)} fault{'s' if len(faults) != 1 else ''}, the first at {where}"


def _rejected(raw: Json, faults: tuple[Fault, ...]) -> JsonObject:
    return {"faults": [fault.to_json() for fault in faults], "plan": raw}


def _model_failed(faults: tuple[Fault, ...], author: Author, usage: Usage) -> PlanInvalid:
    error = PlanInvalid(faults)
    error.message = (
        f"the model {author.model!r} twice wrote a faulty plan ({len(faults)} faults now); "
        "mend it and send the steps, or word the objective otherwise"
    )
    error.args = (error.message,)
    error.details["author"] = {"source": author.source, "provider": author.provider, "model": author.model}
    error.details["usage"] = usage.to_json()
    return error


def _sample(schema: JsonObject) -> dict[str, Json]:
    """Arguments with a value of the right type for every required key."""
    properties, required = schema.get("properties"), schema.get("required")
    if not is_object(properties) or not is_array(required):
        return {}
    return {str(key): _sample_value(properties.get(str(key))) for key in required}


def _sample_value(schema: Json) -> Json:
    if not is_object(schema):
        return "…"
    choices = schema.get("enum")
    if is_array(choices) and choices:
        return choices[0]
    match schema.get("type"):
        case "integer" | "number":
            least = schema.get("minimum")
            return least if isinstance(least, int | float) else 1
        case "boolean":
            return False
        case "array":
            return []
        case "object":
            return _sample(schema)
    return "…"
