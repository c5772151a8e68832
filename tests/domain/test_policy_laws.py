"""The laws of the policy, each as a property over generated policies and questions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.policy.evaluate import EVALUATION_ERROR, UNREADABLE, Evaluator, names_capability
from chaoscore.domain.policy.model import DOORS, Policy, Question
from tests.domain.policies import (
    DOMAINS,
    NAMES,
    PREFIXES,
    RawPolicy,
    ask,
    policy_of,
    questions,
    raw_policies,
    tightness,
)

rules = st.sampled_from((*NAMES, *PREFIXES))


def with_rule(raw: RawPolicy, key: str, rule: str) -> RawPolicy:
    return {**raw, key: [*(entry for entry in raw[key] if entry != rule), rule]}


@given(raw_policies, questions)
def test_deny_trumps_approval(raw: RawPolicy, question: Question) -> None:
    both = with_rule(
        with_rule(raw, "requireConfirmationFor", question.capability), "deniedCapabilities", question.capability
    )
    if question.capability in NAMES:
        verdict = ask(both, question)
        assert verdict.effect == "DENY"
        assert any(reason.startswith("requireConfirmationFor[") for reason in verdict.reasons)


@given(raw_policies, questions)
def test_approval_trumps_allow(raw: RawPolicy, question: Question) -> None:
    if question.capability in NAMES:
        asked = ask(with_rule(raw, "requireConfirmationFor", question.capability), question)
        assert asked.effect != "ALLOW"


@given(raw_policies, questions, rules)
def test_adding_a_deny_never_loosens(raw: RawPolicy, question: Question, rule: str) -> None:
    assert tightness(ask(with_rule(raw, "deniedCapabilities", rule), question)) >= tightness(ask(raw, question))


@given(raw_policies, questions, rules)
def test_adding_a_confirmation_never_loosens(raw: RawPolicy, question: Question, rule: str) -> None:
    assert tightness(ask(with_rule(raw, "requireConfirmationFor", rule), question)) >= tightness(ask(raw, question))


@given(raw_policies, questions, st.sampled_from(DOMAINS))
def test_adding_a_domain_never_tightens(raw: RawPolicy, question: Question, domain: str) -> None:
    assert tightness(ask(with_rule(raw, "httpAllowedDomains", domain), question)) <= tightness(ask(raw, question))


@given(raw_policies, questions, rules)
def test_a_longer_list_of_allowed_capabilities_never_tightens(raw: RawPolicy, question: Question, rule: str) -> None:
    if raw["allowedCapabilities"]:
        longer = with_rule(raw, "allowedCapabilities", rule)
        assert tightness(ask(longer, question)) <= tightness(ask(raw, question))


@given(raw_policies, questions, st.randoms(use_true_random=False))
def test_the_order_of_rules_changes_no_effect_and_no_reason(raw: RawPolicy, question: Question, random: Any) -> None:
    def without_places(reasons: tuple[str, ...]) -> set[str]:
        return {reason.partition("]: ")[2] or reason for reason in reasons}

    shuffled = {key: random.sample(entries, len(entries)) for key, entries in raw.items()}
    one, other = ask(raw, question), ask(shuffled, question)
    assert one.effect == other.effect
    assert without_places(one.reasons) == without_places(other.reasons)


@given(raw_policies, questions)
def test_a_verdict_names_the_deciding_rule_among_its_reasons(raw: RawPolicy, question: Question) -> None:
    verdict = ask(raw, question)
    assert verdict.rule == verdict.reasons[0]
    key, _, entry = verdict.rule.partition("[")
    if entry:
        place, _, rule = entry.partition("]: ")
        assert raw[key][int(place)] == rule


@given(raw_policies, questions)
def test_the_same_question_gets_the_same_verdict(raw: RawPolicy, question: Question) -> None:
    evaluator = Evaluator(policy_of(raw))
    assert evaluator.verdict(question) == evaluator.verdict(question) == Evaluator(policy_of(raw)).verdict(question)


@given(raw_policies, questions)
def test_a_url_that_is_not_known_yet_loosens_nothing(raw: RawPolicy, question: Question) -> None:
    unknown = replace(question, urls=(None,) * len(question.urls))
    before, after = ask(raw, unknown), ask(raw, question)
    assert tightness(before) <= tightness(after), "knowing more may only tighten"
    assert bool(before.pending) == bool(question.urls)
    if not raw["httpAllowedDomains"] and question.urls:
        assert before.effect == "DENY", "no domain is allowed, so no url can be"


@given(raw_policies, questions)
def test_an_unreadable_policy_keeps_its_denials_and_asks_for_everything_else(
    raw: RawPolicy, question: Question
) -> None:
    healthy, degraded = ask(raw, question), ask(raw, question, "policy.json is missing")
    assert tightness(degraded) >= max(tightness(healthy), 1)
    if healthy.effect == "DENY":
        assert (degraded.effect, degraded.rule) == ("DENY", healthy.rule)
    else:
        assert (degraded.effect, degraded.rule) == ("REQUIRE_APPROVAL", UNREADABLE)
    assert degraded.reasons == (*healthy.reasons, f"{UNREADABLE}: policy.json is missing")


@given(raw_policies, questions)
def test_a_degraded_evaluator_answers_like_one_made_anew(raw: RawPolicy, question: Question) -> None:
    assert Evaluator(policy_of(raw)).degraded("gone").verdict(question) == ask(raw, question, "gone")


@given(raw_policies, questions)
def test_what_is_not_built_in_runs_only_when_it_is_listed(raw: RawPolicy, question: Question) -> None:
    foreign = replace(question, builtin=False)
    listed = names_capability(policy_of(raw), question.capability)
    if not listed:
        assert ask(raw, foreign).effect == "DENY"
    else:
        assert ask(raw, foreign).effect == ask(raw, replace(question, builtin=True)).effect


class Fuse:
    """Blows at the Nth use."""

    def __init__(self, uses: int) -> None:
        self.left = uses

    def use(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("the fuse blew")


class FaultyText(str):
    """Text whose every way of being looked at goes through a fuse."""

    fuse: Fuse

    def __hash__(self) -> int:
        self.fuse.use()
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        self.fuse.use()
        return super().__eq__(other)

    def __len__(self) -> int:
        self.fuse.use()
        return super().__len__()

    def __getitem__(self, key: Any) -> str:
        self.fuse.use()
        return super().__getitem__(key)

    def rfind(self, *args: Any) -> int:
        self.fuse.use()
        return super().rfind(*args)


class FaultyUrls(tuple[str | None, ...]):
    fuse: Fuse

    def __iter__(self) -> Any:
        self.fuse.use()
        return super().__iter__()

    def __contains__(self, item: object) -> bool:
        self.fuse.use()
        return super().__contains__(item)


@given(raw_policies, questions, st.integers(0, 24), st.booleans())
def test_an_error_inside_evaluation_only_tightens(raw: RawPolicy, question: Question, uses: int, broken: bool) -> None:
    problem = "it is broken" if broken else None
    honest = ask(raw, question, problem)
    name, urls = FaultyText(question.capability), FaultyUrls(question.urls)
    name.fuse = urls.fuse = fuse = Fuse(uses)
    verdict = Evaluator(policy_of(raw), problem).verdict(Question(name, question.builtin, urls))
    assert tightness(verdict) >= tightness(honest)
    if fuse.left < 0:
        assert verdict.effect == "DENY"
        assert verdict.rule == EVALUATION_ERROR
        assert "the fuse blew" not in " ".join(verdict.reasons), "what an exception says may be anything"
    else:
        assert verdict == honest


def test_the_first_use_is_where_an_error_is_first_possible() -> None:
    """Guards the test above: its fuse is really in the way."""
    name = FaultyText("a.b")
    name.fuse = Fuse(0)
    assert Evaluator(Policy()).verdict(Question(name, True)).rule == EVALUATION_ERROR


@given(st.text(), st.booleans(), st.lists(st.one_of(st.none(), st.text()), max_size=3), raw_policies)
def test_every_question_gets_a_verdict(name: str, builtin: bool, urls: list[str | None], raw: RawPolicy) -> None:
    verdict = ask(raw, Question(name, builtin, tuple(urls)))
    assert verdict.effect in ("ALLOW", "DENY", "REQUIRE_APPROVAL")
    assert verdict.rule != EVALUATION_ERROR


@given(raw_policies, questions, st.sampled_from(("caller", "human")), st.lists(st.sampled_from(DOORS), unique=True))
def test_a_verdict_carries_the_mode_the_doors_and_the_scope(
    raw: RawPolicy, question: Question, mode: Any, doors: list[Any]
) -> None:
    policy = replace(policy_of(raw), approval_mode=mode, approval_doors=tuple(doors))
    verdict = Evaluator(policy).verdict(replace(question, scope={"roots": ["/srv"]}))
    assert (verdict.mode, verdict.doors, verdict.scope) == (mode, tuple(doors), {"roots": ["/srv"]})


@given(raw_policies, questions, rules)
def test_a_rule_that_matches_nothing_asked_changes_no_effect(raw: RawPolicy, question: Question, rule: str) -> None:
    prefix = rule.removesuffix("*")
    if question.capability == rule or (rule.endswith(".*") and question.capability.startswith(prefix)):
        return
    for key in ("deniedCapabilities", "requireConfirmationFor"):
        assert ask(with_rule(raw, key, rule), question).effect == ask(raw, question).effect
