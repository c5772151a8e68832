"""What a run at rest must ask a person: one question for all actions whose arguments are known, one for each outcome
that nobody knows. Questions that still fit are left alone; those that no longer do are ended and asked anew.

The supervisor calls it just before it lets a run go, so that the question is written in the same transaction in which
the run begins to wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chaoscore.app.capabilities import Registry
from chaoscore.app.facts import Facts
from chaoscore.app.gate import Gate, Subject
from chaoscore.app.runs.book import RunBook
from chaoscore.domain.action import Action
from chaoscore.domain.approval import (
    ACTIONS_PER_DECISION_MAX,
    APPROVE,
    AskedAction,
    DecisionKind,
    DecisionState,
    Difference,
    RunDecision,
    denials,
    differences,
    option_id,
)
from chaoscore.domain.asking import Setting, approval_question, outcome_question, shown_action
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.capability import Capability
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.names import instant_text
from chaoscore.domain.json import Json, JsonObject, digest
from chaoscore.domain.plan import Plan, Reference
from chaoscore.domain.policy.model import DOORS, Verdict
from chaoscore.domain.records import Run, StoredPlan
from chaoscore.domain.references import find_references
from chaoscore.domain.run import RunState

Doors = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Questions:
    asked: tuple[RunDecision, ...] = ()
    ended: tuple[tuple[str, DecisionState], ...] = ()
    events: tuple[AuditEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One action to ask about. ``bound`` is everything the approval is bound to, as it may be shown."""

    step: str
    item: int | None
    digest: str
    verdict: Verdict
    shown: JsonObject
    unknown: Action | None = None


class Asking:
    def __init__(self, book: RunBook, gate: Gate) -> None:
        self._book = book
        self._gate = gate

    def questions(
        self, plan: StoredPlan, run: Run, state: RunState, scope: frozenset[str] | None, facts: Facts, over: bool
    ) -> Questions:
        """``run`` carries the decisions so far, ``state`` the actions as they are now; ``over`` ends every question."""
        now = self._book.clock.now()
        open_ones = [d for d in run.decisions if d.state == "waiting"]
        wanted = [] if over else [*self._approvals(plan, run, state, scope, now), *self._outcomes(plan, run, state)]
        # An approval's digest covers who may answer; what became of an action does not, so it is told apart here.
        needed: dict[tuple[bool, str, str, tuple[str, ...]], _Wanted] = {
            (w.unknown is not None, w.digest, w.verdict.mode, w.verdict.doors): w for w in wanted
        }
        ended: list[tuple[str, DecisionState]] = []
        for decision in open_ones:
            outcome, mode, doors = decision.kind == "outcome", decision.mode, decision.doors
            keys = [(outcome, action.digest, mode, doors) for action in decision.actions]
            if not over and decision.is_open(now) and all(key in needed for key in keys):
                for key in keys:
                    needed.pop(key)
            else:
                ended.append((decision.id, self._ending(decision, over, now)))
        asked = [*self._grouped(plan, run, needed.values(), now)]
        replaced = ended[0][0] if len(ended) == 1 and asked else None
        events = [
            *(facts.event("decision-ended", decision=name, state=how) for name, how in ended),
            *(facts.asked(decision, replaced) for decision in asked),
        ]
        return Questions(tuple(asked), tuple(ended), tuple(events))

    @staticmethod
    def _ending(decision: RunDecision, over: bool, now: float) -> DecisionState:
        if decision.has_expired(now):
            return "expired"
        return "cancelled" if over else "superseded"

    # -- what is needed --------------------------------------------------------------------------------------

    def _approvals(
        self, plan: StoredPlan, run: Run, state: RunState, scope: frozenset[str] | None, now: float
    ) -> list[_Wanted]:
        """Everything that waits, and with it what will wait and is known already: nobody is asked twice for one run
        who could have been asked once."""
        waiting = [a for a in state.actions() if a.state == "waiting-for-decision"]
        if not waiting:
            return []
        refused = denials(run.decisions, now)
        subject = Subject(run.label, plan.plan.owner)
        found: list[_Wanted] = []
        for proposal in state.known():
            step = proposal.step
            recorded = state.action((step.id, proposal.item))
            waits = recorded is not None and recorded.state == "waiting-for-decision"
            if not waits and scope is not None and step.id not in scope:
                continue
            verdict = self._gate.judge(step.capability, proposal.arguments)
            if verdict.effect != "REQUIRE_APPROVAL" or (step.id, proposal.item) in refused:
                continue
            digest_now = self._gate.digest(subject, proposal, verdict)
            granted = any(grant.fits(digest_now, now) for grant in run.grants)
            if granted:
                continue
            shown = self._shown(plan.plan, step.id, proposal.item, proposal.arguments, verdict, proposal.attempt)
            found.append(_Wanted(step.id, proposal.item, digest_now, verdict, shown))
        return found

    def _outcomes(self, plan: StoredPlan, run: Run, state: RunState) -> list[_Wanted]:
        found: list[_Wanted] = []
        for action in state.actions():
            if action.state != "outcome-unknown":
                continue
            verdict = self._gate.judge(action.capability, action.arguments or {})
            shown = self._shown(plan.plan, action.step, action.item, action.arguments, verdict, action.attempt)
            found.append(_Wanted(action.step, action.item, outcome_digest(run.label, action), verdict, shown, action))
        return found

    def _shown(
        self, plan: Plan, step_id: str, item: int | None, arguments: Json, verdict: Verdict, attempt: int
    ) -> JsonObject:
        step, registry, redactor = plan.step(step_id), self._book.registry, self._book.redactor
        capability = registry.get(step.capability)
        shown = shown_action(
            capability=step.capability,
            risk=capability.risk if capability is not None else "high",
            description=capability.description if capability is not None else "",
            effects=_effects(capability),
            why=redactor.text(step.why),
            arguments=redactor.json(arguments),
            verdict=verdict.to_json(),
            sources=_sources(plan, step_id, registry),
        )
        definition = registry.definition_digest(step.capability) if step.capability in registry else ""
        sources = redactor.json(shown["sources"])
        return {**shown, "sources": sources, "attempt": attempt, "definition": definition}

    # -- the questions ---------------------------------------------------------------------------------------

    def _grouped(self, plan: StoredPlan, run: Run, needed: Iterable[_Wanted], now: float) -> Iterable[RunDecision]:
        """One question for the approvals of one mode and doors, at most so many actions each."""
        groups: dict[Doors, list[_Wanted]] = {}
        for want in needed:
            if want.unknown is not None:
                yield self._outcome(plan, run, want, now)
            else:
                groups.setdefault((want.verdict.mode, want.verdict.doors), []).append(want)
        for group in groups.values():
            for start in range(0, len(group), ACTIONS_PER_DECISION_MAX):
                yield self._approval(plan, run, group[start : start + ACTIONS_PER_DECISION_MAX], now)

    def _approval(self, plan: StoredPlan, run: Run, wanted: list[_Wanted], now: float) -> RunDecision:
        setting = self._setting(plan.plan, run, now, wanted[0].verdict)
        single = len(wanted) == 1
        actions = tuple(
            AskedAction(
                APPROVE if single else option_id(want.step, want.item),
                want.step,
                want.item,
                want.digest,
                want.shown,
                _changed(run, want),
            )
            for want in wanted
        )
        return self._decision(setting, run, approval_question(setting, actions), actions, wanted[0].verdict, "approval")

    def _outcome(self, plan: StoredPlan, run: Run, want: _Wanted, now: float) -> RunDecision:
        assert want.unknown is not None
        setting = self._setting(plan.plan, run, now, want.verdict)
        asked = AskedAction("retry", want.step, want.item, want.digest, want.shown)
        redactor, error = self._book.redactor, want.unknown.error
        told = replace(
            want.unknown,
            evidence=redactor.json(want.unknown.evidence),
            error=None if error is None else replace(error, message=redactor.text(error.message)),
        )
        question = outcome_question(setting, asked, told)
        return self._decision(setting, run, question, (asked,), want.verdict, "outcome")

    def _decision(
        self,
        setting: Setting,
        run: Run,
        question: Decision,
        actions: tuple[AskedAction, ...],
        verdict: Verdict,
        kind: DecisionKind,
    ) -> RunDecision:
        return RunDecision(
            id=setting.decision,
            run=run.label,
            kind=kind,
            question=question,
            question_digest=question.digest(),
            actions=actions,
            mode=verdict.mode,
            doors=verdict.doors,
            root=run.root,
            created_at=setting.created_at,
            expires_at=setting.expires_at,
        )

    def _setting(self, plan: Plan, run: Run, now: float, verdict: Verdict) -> Setting:
        dependants: dict[str, list[str]] = {}
        for step in plan.steps:
            for name in _needs(plan, step.id):
                dependants.setdefault(name, []).append(step.id)
        date = instant_text(int(now * 1000))[:10]
        name = self._book.ids.label("d").removeprefix("d-")
        author = plan.author.source if plan.author.model is None else f"{plan.author.source} {plan.author.model}"
        if plan.recalled:
            author += ", after recalling memories"
        return Setting(
            decision=f"DEC-{date}-{run.label}-{name}",
            run=run.label,
            objective=self._book.redactor.text(plan.objective),
            author=author,
            dependants={key: tuple(names) for key, names in dependants.items()},
            created_at=now,
            expires_at=now + self._book.limits.decision_seconds,
            doors=verdict.doors if verdict.mode == "human" else DOORS,
        )


def outcome_digest(run: str, action: Action) -> str:
    """What a question about an unknown outcome is for: this attempt, and the evidence there was."""
    return digest(
        {
            "run": run,
            "step": action.step,
            "item": action.item,
            "attempt": action.attempt,
            "digest": action.digest,
            "evidence": action.evidence,
        }
    )


def _changed(run: Run, want: _Wanted) -> tuple[Difference, ...]:
    """What is different from the last time a person was asked about the same step."""
    for decision in reversed(run.decisions):
        if decision.kind != "approval":
            continue
        for action in decision.actions:
            if action.key == (want.step, want.item) and action.digest != want.digest:
                return differences(_comparable(action.shown), _comparable(want.shown))
    return ()


def _comparable(shown: JsonObject) -> JsonObject:
    return {key: shown.get(key) for key in ("capability", "arguments", "verdict", "definition", "attempt")}


def _effects(capability: Capability | None) -> str:
    if capability is None:
        return "unknown"
    notes = capability.annotations
    if notes.read_only:
        return "reads only"
    words = ["can be repeated without harm" if notes.idempotent else "happens again each time it runs"]
    if notes.destructive:
        words.append("may destroy or overwrite")
    if notes.open_world:
        words.append("reaches outside this machine")
    return ", ".join(words)


def _sources(plan: Plan, step_id: str, registry: Registry) -> list[JsonObject]:
    """Where each argument that the plan did not write comes from."""
    step = plan.step(step_id)
    found: list[JsonObject] = []
    for pointer, reference in find_references(step.arguments):
        if isinstance(reference, Reference):
            origin, words = reference.step, f"step {reference.step}, output {reference.path or '/'}"
        else:
            assert step.for_each is not None
            origin = step.for_each.source.step
            words = f"the item{' ' + reference.path if reference.path else ''}, from step {origin}"
        capability = registry.get(plan.step(origin).capability)
        found.append(
            {"argument": pointer, "from": words, "untrusted": capability is None or capability.untrusted_output}
        )
    return found


def _needs(plan: Plan, step_id: str) -> set[str]:
    step = plan.step(step_id)
    names = {ref.step for _, ref in find_references(step.arguments) if isinstance(ref, Reference)} | set(step.after)
    if step.for_each is not None:
        names.add(step.for_each.source.step)
    return names
