"""How what happens becomes audit events: one function per fact, values redacted, ids as public labels (spec §9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chaoscore.app.gate import Admission
from chaoscore.domain.action import Action, Grant
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.evaluation import Evaluation
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.policy.model import Verdict
from chaoscore.domain.records import RunStatus

Redact = Callable[[Json], JsonObject]


@dataclass(frozen=True, slots=True)
class Facts:
    """Bound to one run and one caller. ``redact`` turns values into a keyed digest and a short preview."""

    redact: Redact
    now: Callable[[], float]
    principal: str
    connection: str | None
    plan: str | None = None
    run: str | None = None

    def event(self, kind: str, /, step: str | None = None, item: int | None = None, **data: Json) -> AuditEvent:
        return AuditEvent(kind, self.now(), self.principal, self.connection, self.plan, self.run, step, item, data)

    def verdict(self, admission: Admission) -> AuditEvent:
        proposal = admission.proposal
        return self.event(
            "verdict-given",
            proposal.step.id,
            proposal.item,
            capability=proposal.step.capability,
            attempt=proposal.attempt,
            digest=admission.digest,
            arguments=self.redact(proposal.arguments),
            **verdict_facts(admission.verdict),
        )

    def intent(self, admission: Admission) -> AuditEvent:
        proposal = admission.proposal
        return self.event(
            "intent-recorded",
            proposal.step.id,
            proposal.item,
            capability=proposal.step.capability,
            attempt=proposal.attempt,
            digest=admission.digest,
            effect=admission.verdict.effect,
            grant=admission.grant.id if admission.grant else None,
        )

    def settled(self, action: Action) -> AuditEvent:
        return self.event(
            f"action-{action.state}",
            action.step,
            action.item,
            capability=action.capability,
            attempt=action.attempt,
            digest=action.digest,
            started=action.started_at is not None,
            error=action.error.to_json() if action.error else None,
            output=self.redact(action.output) if action.output is not None else None,
        )

    def granted(self, grant: Grant, step: str, item: int | None) -> AuditEvent:
        return self.event(
            "grant-given",
            step,
            item,
            grant=grant.id,
            digest=grant.digest,
            door=grant.door,
            approver=grant.approver,
            expires_at=grant.expires_at,
            decision=grant.decision,
        )

    def asked(self, decision: RunDecision, supersedes: str | None) -> AuditEvent:
        subjects: list[Json] = [
            {"option": action.option, "step": action.step, "item": action.item, "digest": action.digest}
            for action in decision.actions
        ]
        return self.event(
            "decision-asked",
            decision=decision.id,
            question=decision.question_digest,
            kind=decision.kind,
            subjects=subjects,
            supersedes=supersedes,
            expires_at=decision.expires_at,
        )

    def answered(self, decision: RunDecision) -> AuditEvent:
        response = decision.response
        assert response is not None
        return self.event(
            "decision-answered",
            decision=decision.id,
            question=decision.question_digest,
            door=response.door,
            approver=response.approver,
            options=list(response.options),
            approved=[action.digest for action in decision.approved],
            denied=[action.digest for action in decision.denied],
            rationale=self.redact(response.rationale) if response.rationale else None,
        )

    def status(self, status: RunStatus, evaluation: Evaluation) -> AuditEvent:
        return self.event(f"run-{status}", outcome=evaluation.outcome, counts=dict(evaluation.counts))


def verdict_facts(verdict: Verdict) -> dict[str, Json]:
    facts: dict[str, Json] = {"effect": verdict.effect, "rule": verdict.rule, "reasons": list(verdict.reasons)}
    if verdict.effect == "REQUIRE_APPROVAL":
        facts |= {"mode": verdict.mode, "doors": list(verdict.doors)}
    return facts
