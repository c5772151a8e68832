"""The life of one action: every state against every event, what an approval is bound to, and when a grant fits."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.action import FINISHED, TABLE, Action, Event, Grant, State, approval_digest, transition
from chaoscore.domain.errors import IllegalTransition
from chaoscore.domain.policy.model import Verdict
from tests.domain.values import json_objects

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)

# Written out a second time, by event: where each may happen and where it leads.
LEGAL: dict[Event, dict[State, State]] = {
    "start": {"pending": "running", "waiting-for-decision": "running"},
    "require": {"pending": "waiting-for-decision", "waiting-for-decision": "waiting-for-decision"},
    "deny": {"pending": "denied", "waiting-for-decision": "denied"},
    "skip": {"pending": "skipped", "waiting-for-decision": "skipped"},
    "succeed": {"running": "succeeded"},
    "fail": {"pending": "failed", "running": "failed", "waiting-for-decision": "failed"},
    "lose": {"running": "outcome-unknown"},
    "reuse": {"pending": "succeeded"},
    "retry": {"running": "pending", "outcome-unknown": "pending"},
    "happened": {"outcome-unknown": "succeeded"},
    "give-up": {"outcome-unknown": "failed"},
    "cancel": {"pending": "skipped", "waiting-for-decision": "skipped", "outcome-unknown": "outcome-unknown"},
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_leads_where_the_table_says_or_nowhere(state: State, event: Event) -> None:
    action = Action("s1", None, "x.y", state)
    expected = LEGAL[event].get(state)
    if expected is not None:
        assert transition(state, event) == expected
        assert action.after(event) == replace(action, state=expected)
        return
    with pytest.raises(IllegalTransition) as raised:
        action.after(event, attempt=9)
    assert raised.value.message == f"an action that is {state!r} cannot {event!r}"
    assert action == Action("s1", None, "x.y", state)


def test_the_table_knows_every_state_and_no_other() -> None:
    assert set(TABLE) == set(STATES)
    assert {event for row in TABLE.values() for event in row} == set(EVENTS)


def test_what_is_finished_stays_finished() -> None:
    assert {state for state in STATES if not TABLE[state]} == FINISHED == {"succeeded", "failed", "denied", "skipped"}


def test_from_every_state_an_end_can_be_reached() -> None:
    reaches = set(FINISHED)
    for _ in STATES:
        reaches |= {state for state in STATES if reaches & set(TABLE[state].values())}
    assert reaches == set(STATES)


def test_an_effect_begins_only_where_it_has_been_started() -> None:
    """Law 5: nothing becomes running, and so can succeed, be lost or fail with an effect, but through ``start``."""
    into_running = {(state, event) for state in STATES for event, after in TABLE[state].items() if after == "running"}
    assert into_running == {("pending", "start"), ("waiting-for-decision", "start")}
    from_nowhere = {event for state in STATES for event, after in TABLE[state].items() if after == "succeeded"}
    assert from_nowhere == {"succeed", "reuse", "happened"}


def test_an_unknown_outcome_is_repeated_by_nothing_but_a_retry() -> None:
    assert {event for event, after in TABLE["outcome-unknown"].items() if after in ("pending", "running")} == {"retry"}


@given(st.lists(st.sampled_from(EVENTS), max_size=12))
def test_no_order_of_events_leaves_the_states(events: list[Event]) -> None:
    action = Action("s1", 3, "x.y")
    for event in events:
        before = action
        try:
            action = action.after(event)
        except IllegalTransition:
            assert action is before
        assert action.state in STATES
        assert action.key == ("s1", 3)
        assert before.state not in FINISHED or action is before


def test_other_fields_change_along_with_the_state() -> None:
    action = Action("s1", None, "x.y", "running", started_at=1.0).after("succeed", output={"a": 1}, finished_at=2.0)
    assert (action.state, action.output, action.started_at, action.finished_at) == ("succeeded", {"a": 1}, 1.0, 2.0)


# -- approvals -------------------------------------------------------------------------------------------------

VERDICT = Verdict("REQUIRE_APPROVAL", "requireConfirmationFor[0]: x.y", ("requireConfirmationFor[0]: x.y",))
SUBJECT: dict[str, Any] = {
    "run": "r-1",
    "step": "s1",
    "item": None,
    "attempt": 1,
    "principal": "local:501",
    "capability": "x.y",
    "definition": "sha256:00",
    "arguments": {"path": "a", "n": 1},
    "verdict": VERDICT,
}
OTHERS: list[tuple[str, Any]] = [
    ("run", "r-2"),
    ("step", "s2"),
    ("item", 0),
    ("attempt", 2),
    ("principal", "local:502"),
    ("principal", "anonymous"),
    ("capability", "x.z"),
    ("definition", "sha256:01"),
    ("arguments", {"path": "a", "n": 2}),
    ("arguments", {"path": "a", "n": "1"}),
    ("arguments", {"path": "a", "n": True}),
    ("arguments", {"path": "a"}),
    ("arguments", {"path": "a", "n": 1, "m": None}),
    ("arguments", {"path": "a", "n": 2**53 + 1}),
    ("verdict", replace(VERDICT, effect="ALLOW")),
    ("verdict", replace(VERDICT, rule="requireConfirmationFor[1]: x.y")),
    ("verdict", replace(VERDICT, rule="policy-unreadable")),
    ("verdict", replace(VERDICT, mode="human")),
    ("verdict", replace(VERDICT, doors=("web",))),
    ("verdict", replace(VERDICT, scope={"roots": ["/srv"]})),
]


@pytest.mark.parametrize(("part", "other"), OTHERS)
def test_an_approval_is_for_exactly_one_thing(part: str, other: Any) -> None:
    assert approval_digest(**SUBJECT) != approval_digest(**{**SUBJECT, part: other})


def test_an_approval_names_everything_it_is_bound_to() -> None:
    assert {part for part, _ in OTHERS} == set(SUBJECT)


def test_an_approval_is_not_bound_to_the_order_of_keys_or_to_reasons() -> None:
    reordered = {**SUBJECT, "arguments": {"n": 1, "path": "a"}, "verdict": replace(VERDICT, reasons=("another",))}
    assert approval_digest(**SUBJECT) == approval_digest(**reordered)


@given(json_objects, json_objects)
def test_different_arguments_have_different_approvals(left: Any, right: Any) -> None:
    same = approval_digest(**{**SUBJECT, "arguments": left}) == approval_digest(**{**SUBJECT, "arguments": right})
    assert same <= (left == right)


GRANT = Grant("g-1", "r-1", "sha256:aa", "web", "local:501", 100.0, 200.0)


@pytest.mark.parametrize(
    ("grant", "digest", "now", "fits"),
    [
        (GRANT, "sha256:aa", 100.0, True),
        (GRANT, "sha256:aa", 199.9, True),
        (GRANT, "sha256:aa", 200.0, False),
        (GRANT, "sha256:ab", 150.0, False),
        (GRANT, "", 150.0, False),
        (replace(GRANT, used_at=120.0), "sha256:aa", 150.0, False),
        (replace(GRANT, used_at=0.0), "sha256:aa", 150.0, False),
    ],
)
def test_a_grant_fits_one_digest_once_until_it_expires(grant: Grant, digest: str, now: float, fits: bool) -> None:
    assert grant.fits(digest, now) is fits


def test_an_action_starts_with_nothing_recorded() -> None:
    action = Action("s1", None, "x.y")
    recorded = {field.name: getattr(action, field.name) for field in fields(action)}
    assert recorded.pop("state") == "pending"
    assert recorded.pop("attempt") == 1
    assert (recorded.pop("step"), recorded.pop("item"), recorded.pop("capability")) == ("s1", None, "x.y")
    assert set(recorded.values()) == {None}
