"""The audit chain: altered, missing, reordered, recomputed and cut-off events are all found, whatever a row holds."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.audit import (
    GENESIS,
    AuditEvent,
    ChainedEvent,
    ChainReport,
    Checkpoint,
    chain_mac,
    event_body,
    keyed_digest,
    verify_chain,
)
from chaoscore.domain.json import Json
from chaoscore.domain.mediation import MediationReport
from tests.domain.values import json_objects, json_values

KEY = b"k" * 32


def chain(bodies: list[str], key: bytes = KEY) -> list[ChainedEvent]:
    events: list[ChainedEvent] = []
    mac = GENESIS
    for seq, body in enumerate(bodies, start=1):
        mac = chain_mac(key, seq, mac, body)
        events.append(ChainedEvent(seq, body, mac))
    return events


def body(number: int) -> str:
    return event_body(AuditEvent("step-started", float(number), "local:501", step=f"s{number}"))


EVENTS = chain([body(number) for number in range(6)])
HEAD = Checkpoint(6, EVENTS[-1].mac)


def verify(events: list[ChainedEvent], checkpoint: Checkpoint | None = HEAD, key: bytes = KEY) -> ChainReport:
    return verify_chain(key, events, checkpoint)


def test_a_whole_chain_is_whole_with_and_without_a_checkpoint() -> None:
    for checkpoint in (None, Checkpoint(0, ""), Checkpoint(3, EVENTS[2].mac), HEAD):
        assert verify(EVENTS, checkpoint) == ChainReport(6, HEAD, mediation=MediationReport())


def test_an_empty_chain_is_whole_when_nothing_is_known_of_it() -> None:
    assert verify([], None) == ChainReport(0, Checkpoint(0, GENESIS), mediation=MediationReport())
    assert verify([], Checkpoint(0, GENESIS)).fault is None


@pytest.mark.parametrize("at", range(6))
def test_an_altered_event_is_found(at: int) -> None:
    events = [*EVENTS]
    events[at] = replace(events[at], body=events[at].body.replace("started", "skipped"))
    report = verify(events)
    assert report.at == at + 1
    assert report.fault == f"event {at + 1} was altered, moved or written without the key"
    assert report.events == at


@pytest.mark.parametrize("text", ["é", "\ud800", "", "\x00", "ü" * 1_000])
@pytest.mark.parametrize("part", ["body", "mac"])
def test_an_altered_event_is_found_whatever_was_written_into_it(part: str, text: str) -> None:
    events = [*EVENTS]
    events[2] = ChainedEvent(3, text, events[2].mac) if part == "body" else ChainedEvent(3, events[2].body, text)
    assert verify(events).at == 3


@pytest.mark.parametrize("at", range(5))
def test_a_missing_event_is_found(at: int) -> None:
    report = verify(EVENTS[:at] + EVENTS[at + 1 :])
    assert (report.at, report.fault) == (at + 1, f"event {at + 1} is missing: the next one is {at + 2}")


@pytest.mark.parametrize("at", range(1, 5))
def test_a_missing_event_is_found_when_the_rest_is_numbered_anew(at: int) -> None:
    rest = [replace(event, seq=event.seq - 1) for event in EVENTS[at + 1 :]]
    assert verify(EVENTS[:at] + rest).at == at + 1


@pytest.mark.parametrize("at", range(5))
def test_reordered_events_are_found(at: int) -> None:
    events = [*EVENTS]
    events[at], events[at + 1] = events[at + 1], events[at]
    assert verify(events).at == at + 1
    renumbered = [replace(event, seq=number) for number, event in enumerate(events, start=1)]
    assert verify(renumbered).at == at + 1


def test_an_event_twice_is_found() -> None:
    assert verify([*EVENTS[:3], EVENTS[2], *EVENTS[3:]]).at == 4


def test_an_event_put_in_is_found() -> None:
    forged = ChainedEvent(4, body(99), chain_mac(b"another key", 4, EVENTS[2].mac, body(99)))
    assert verify([*EVENTS[:3], forged, *EVENTS[3:]]).at == 4


def test_a_chain_recomputed_with_another_key_is_found_at_its_first_event() -> None:
    recomputed = chain([event.body for event in EVENTS], b"another key")
    assert verify(recomputed, None).at == 1


@pytest.mark.parametrize("known", range(1, 7))
def test_a_chain_recomputed_with_the_key_is_found_at_the_checkpoint(known: int) -> None:
    """Whoever has the key but not the checkpoint outside the database cannot rewrite what the checkpoint covers."""
    recomputed = chain([body(0) if number else body(77) for number in range(6)])
    report = verify(recomputed, Checkpoint(known, EVENTS[known - 1].mac))
    assert (report.at, report.fault) == (known, f"event {known} differs from the checkpoint kept outside the database")


@pytest.mark.parametrize("kept", range(6))
def test_a_chain_cut_off_is_found_by_its_checkpoint(kept: int) -> None:
    report = verify(EVENTS[:kept])
    assert report.fault == f"the chain was cut off: it ends at {kept}, the checkpoint knows 6"
    assert report.at == kept + 1


def test_events_after_the_checkpoint_are_part_of_the_chain() -> None:
    assert verify(EVENTS, Checkpoint(2, EVENTS[1].mac)).events == 6
    altered = [*EVENTS[:5], replace(EVENTS[5], body=body(9))]
    assert verify(altered, Checkpoint(2, EVENTS[1].mac)).at == 6


def test_a_chain_is_walked_without_being_held() -> None:
    def endless() -> object:
        mac = GENESIS
        for seq in range(1, 20_001):
            mac = chain_mac(KEY, seq, mac, "{}")
            yield ChainedEvent(seq, "{}", mac)

    assert verify_chain(KEY, endless(), None).events == 20_000  # type: ignore[arg-type]


@st.composite
def tampered(draw: st.DrawFn) -> list[ChainedEvent]:
    """The chain after one to three thefts, swaps, edits or copies, none of them made with the key."""
    events = [*EVENTS]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(events) - 1))
        match draw(st.sampled_from(["drop", "swap", "edit", "copy", "number", "mac"])):
            case "drop" if len(events) > 1:
                del events[at]
            case "swap":
                other = draw(st.integers(0, len(events) - 1))
                events[at], events[other] = events[other], events[at]
            case "edit":
                events[at] = replace(events[at], body=draw(st.text()))
            case "copy":
                events.insert(draw(st.integers(0, len(events))), events[at])
            case "number":
                events[at] = replace(events[at], seq=draw(st.integers(-1, 9)))
            case "mac":
                events[at] = replace(events[at], mac=draw(st.text()))
    return events


@given(tampered())
def test_any_tampering_without_the_key_is_found(events: list[ChainedEvent]) -> None:
    assert (verify(events).fault is None) is (events == EVENTS)


@given(st.lists(json_objects, max_size=5), st.integers(0, 5))
def test_any_events_make_a_whole_chain(data: list[dict[str, Json]], known: int) -> None:
    events = chain([event_body(AuditEvent("kind", 1.0, "local:1", data=part)) for part in data])
    known = min(known, len(events))
    checkpoint = Checkpoint(known, events[known - 1].mac if known else GENESIS)
    assert verify_chain(KEY, events, checkpoint).fault is None


def test_an_event_is_written_with_every_field() -> None:
    event = AuditEvent("verdict", 1.5, "local:501", "c-1", "p-1", "r-1", "s1", 2, {"rule": "é"})
    assert json.loads(event_body(event)) == {
        "kind": "verdict",
        "at": 1.5,
        "principal": "local:501",
        "connection": "c-1",
        "plan": "p-1",
        "run": "r-1",
        "step": "s1",
        "item": 2,
        "data": {"rule": "é"},
    }
    assert event_body(event).isascii()


@given(json_values, json_values)
def test_a_keyed_digest_names_a_value_and_needs_the_key(left: Json, right: Json) -> None:
    assert (keyed_digest(KEY, left) == keyed_digest(KEY, right)) <= (left == right)
    assert keyed_digest(KEY, left) == keyed_digest(KEY, left)
    assert keyed_digest(KEY, left) != keyed_digest(b"another key", left)


def test_what_is_hashed_cannot_be_moved_between_number_and_body() -> None:
    assert chain_mac(KEY, 11, GENESIS, "x") != chain_mac(KEY, 1, GENESIS, "1x")
    assert chain_mac(KEY, 1, GENESIS, "1\nx") != chain_mac(KEY, 1, GENESIS, "x")
