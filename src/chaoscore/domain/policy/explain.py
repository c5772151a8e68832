"""Why the policy answers what it answers, as data and as lines for a person (``chaoscore policy explain``)."""

from __future__ import annotations

from chaoscore.domain.json import Json
from chaoscore.domain.policy.evaluate import Evaluator
from chaoscore.domain.policy.model import Question


def explain(evaluator: Evaluator, question: Question) -> dict[str, Json]:
    """The verdict, what was asked, and what every part of the file says in general.

    ``verdict.reasons`` name every rule that spoke, ``rules`` counts what each list holds.
    """
    policy = evaluator.policy
    return {
        "capability": question.capability,
        "builtin": question.builtin,
        "urls": list(question.urls),
        "verdict": evaluator.verdict(question).to_json(),
        "rules": {
            "allowedCapabilities": len(policy.allowed),
            "deniedCapabilities": len(policy.denied),
            "requireConfirmationFor": len(policy.confirm),
            "httpAllowedDomains": len(policy.http_allowed_domains),
            "httpAllowPrivate": len(policy.http_allow_private),
        },
        "approvalMode": policy.approval_mode,
        "approvalDoors": list(policy.approval_doors),
        "policyDigest": policy.digest,
        "problem": evaluator.problem,
    }


def explain_text(evaluator: Evaluator, question: Question) -> str:
    """The same as lines, the effect first, then the rule that decided, then every other reason."""
    verdict = evaluator.verdict(question)
    lines = [f"{verdict.effect}  {question.capability}", f"  decided by  {verdict.rule}"]
    lines += [f"  also        {reason}" for reason in verdict.reasons if reason != verdict.rule]
    if verdict.pending:
        lines.append(f"  not known   {', '.join(verdict.pending)}: asked again when it is")
    if verdict.effect == "REQUIRE_APPROVAL":
        doors = ", ".join(verdict.doors)
        who = "the caller, by confirmed: true" if verdict.mode == "caller" else f"a person, at {doors}"
        lines.append(f"  approved by {who}")
    return "\n".join(lines)
