"""Why the policy answers what it answers: the same verdict as the gate's, in data and in lines."""

from __future__ import annotations

import json

from hypothesis import given

from chaoscore.domain.policy.evaluate import Evaluator
from chaoscore.domain.policy.explain import explain, explain_text
from chaoscore.domain.policy.model import Policy, Question
from tests.domain.policies import RawPolicy, policy_of, questions, raw_policies

POLICY = Policy(
    denied=("fs.write_text",),
    confirm=("http.*",),
    http_allowed_domains=("example.com", "*.example.org"),
    approval_mode="human",
    approval_doors=("web", "folder"),
    digest="sha256:0",
)


def test_an_explanation_names_the_deciding_rule_first_and_every_other_reason() -> None:
    text = explain_text(Evaluator(POLICY), Question("http.request", True, ("https://a.example.org",)))
    assert text.splitlines() == [
        "REQUIRE_APPROVAL  http.request",
        "  decided by  requireConfirmationFor[0]: http.*",
        "  also        allowedCapabilities: empty, so every built-in capability is allowed",
        "  also        httpAllowedDomains[1]: *.example.org",
        "  approved by a person, at web, folder",
    ]


def test_an_explanation_says_who_may_confirm_in_caller_mode() -> None:
    text = explain_text(Evaluator(Policy(confirm=("a.b",))), Question("a.b", True))
    assert text.endswith("approved by the caller, by confirmed: true")


def test_an_explanation_says_what_is_not_known_yet() -> None:
    text = explain_text(Evaluator(POLICY), Question("http.request", True, (None,)))
    assert "  not known   url: asked again when it is" in text.splitlines()


def test_an_explanation_as_data_counts_the_rules_and_tells_a_broken_file() -> None:
    data = explain(Evaluator(POLICY, "policy.json is missing"), Question("fs.write_text", True))
    assert data["problem"] == "policy.json is missing"
    assert data["policyDigest"] == "sha256:0"
    assert data["approvalDoors"] == ["web", "folder"]
    assert data["rules"] == {
        "allowedCapabilities": 0,
        "deniedCapabilities": 1,
        "requireConfirmationFor": 1,
        "httpAllowedDomains": 2,
        "httpAllowPrivate": 0,
    }
    verdict = data["verdict"]
    assert isinstance(verdict, dict)
    assert (verdict["effect"], verdict["rule"]) == ("DENY", "deniedCapabilities[0]: fs.write_text")


@given(raw_policies, questions)
def test_an_explanation_is_the_verdict_of_the_gate(raw: RawPolicy, question: Question) -> None:
    evaluator = Evaluator(policy_of(raw))
    verdict = evaluator.verdict(question)
    data = explain(evaluator, question)
    assert data["verdict"] == verdict.to_json()
    json.dumps(data)
    lines = explain_text(evaluator, question).splitlines()
    assert lines[0].startswith(f"{verdict.effect}  ")
    assert lines[1] == f"  decided by  {verdict.rule}"
    assert all(any(line.endswith(reason) for line in lines) for reason in verdict.reasons)
