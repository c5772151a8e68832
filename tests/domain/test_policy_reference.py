"""R5: the indexed evaluator answers what the obvious one answers.

The long campaign compares at least 100,000 cases:
``pytest tests/domain/test_policy_reference.py -m campaign --hypothesis-profile=campaign -s``
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.domain.policy.evaluate import Evaluator
from chaoscore.domain.policy.model import Question
from tests.domain import reference_policy
from tests.domain.policies import RawPolicy, policy_of, questions, raw_policies, urls

QUESTIONS = 8
cases = st.tuples(raw_policies, st.lists(questions, min_size=QUESTIONS, max_size=QUESTIONS), st.booleans())


def in_general(reason: str) -> str:
    """A reason as the reference words it: rules of the file whole, everything else by its kind."""
    kind, _, _ = reason.partition(": ")
    return reason if kind.endswith("]") else f"{kind}: "


def compare(case: tuple[RawPolicy, list[Question], bool]) -> int:
    raw, asked, broken = case
    evaluator = Evaluator(policy_of(raw), "it cannot be read" if broken else None)
    for question in asked:
        effect, rule, reasons = reference_policy.decide(
            raw, question.capability, question.builtin, list(question.urls), broken
        )
        verdict = evaluator.verdict(question)
        said = {in_general(reason) for reason in verdict.reasons}
        assert (verdict.effect, said) == (effect, reasons | ({"policy-unreadable: "} if broken else set())), question
        assert in_general(f"{verdict.rule}: " if verdict.rule == "policy-unreadable" else verdict.rule) == rule
    return len(asked)


@settings(max_examples=250)
@given(cases)
def test_the_policy_answers_what_the_obvious_evaluator_answers(case: tuple[RawPolicy, list[Question], bool]) -> None:
    compare(case)


@settings(max_examples=400)
@given(urls)
def test_a_url_is_read_as_the_obvious_reader_reads_it(url: str) -> None:
    raw: RawPolicy = {
        "allowedCapabilities": [],
        "deniedCapabilities": [],
        "requireConfirmationFor": [],
        "httpAllowedDomains": ["nowhere.invalid"],
    }
    compare((raw, [Question("a.b", True, (url,))], False))


@pytest.mark.campaign
def test_the_policy_answers_what_the_obvious_evaluator_answers_in_a_hundred_thousand_cases() -> None:
    compared = 0

    @settings(max_examples=13_000)
    @given(cases)
    def campaign(case: tuple[RawPolicy, list[Question], bool]) -> None:
        nonlocal compared
        compared += compare(case)

    campaign()
    print(f"\n{compared} cases compared, all verdicts identical")
    assert compared >= 100_000


def test_the_reference_is_small_and_shares_no_code_with_the_product() -> None:
    text = Path(reference_policy.__file__).read_text()
    assert len(text.splitlines()) <= 40
    imported = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported == {"re"}
