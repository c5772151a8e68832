"""What the mediation proof says, written a second time: slow, plain, each rule a sentence over the events before.

It shares nothing with the checker, which keeps no events; both must name the same event first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Event = Any
ENDS = ("run-completed", "run-failed", "run-cancelled")
FINAL = ("action-succeeded", "action-failed", "action-denied", "action-skipped")
OF_ACTION = (*FINAL, "action-outcome-unknown", "action-pending", "verdict-given", "intent-recorded")
NOTHING_RAN = (
    "UNKNOWN_CAPABILITY",
    "LIMIT_EXCEEDED",
    "ARGUMENTS_INVALID",
    "REFERENCE_MISSING",
    "ITEMS_NOT_ARRAY",
    "TOO_MANY_ITEMS",
)


def first_unfounded(log: Sequence[Event]) -> int | None:
    """The sequence number, from 1, of the first event that lacks what it should rest on."""
    for seq, event in enumerate(log, 1):
        run = event.get("run")
        if run is not None and not _founded(event, _life([e for e in log[: seq - 1] if e.get("run") == run])):
            return seq
    return None


def _life(before: list[Event]) -> list[Event]:
    """A run that ended with nothing unknown is forgotten: one that is opened under its label is another."""
    life: list[Event] = []
    for event in before:
        ended = any(e["kind"] in ENDS for e in life) and not _lingering(life)
        life = [event] if ended and event["kind"] == "run-opened" else [*life, event]
    return life


def _founded(event: Event, before: list[Event]) -> bool:
    kind = event["kind"]
    going = any(e["kind"] == "run-opened" for e in before) and not any(e["kind"] in ENDS for e in before)
    lingers = bool(_lingering(before))
    if kind == "run-opened":
        return not going and not lingers
    if kind in ENDS or kind == "verdict-given":
        return going
    if kind in ("action-denied", "action-skipped", "action-pending"):
        return going or lingers
    if kind in ("action-succeeded", "action-failed", "action-outcome-unknown"):
        return (going or lingers) and _result(event, before, going)
    if kind == "late-result-kept":
        return not going or _began(event, before) is not None
    if kind == "intent-recorded":
        return going and _intent(event, before)
    if kind == "grant-given":
        return going and _grant(event, before)
    if kind == "decision-asked":
        name = event["data"].get("decision")
        return going and name is not None and not any(_is(e, "decision-asked", decision=name) for e in before)
    if kind == "decision-answered":
        return going and _answer(event, before)
    return True


def _is(event: Event, kind: str, **data: Any) -> bool:
    return event["kind"] == kind and all(event["data"].get(name) == value for name, value in data.items())


def _place(event: Event, log: list[Event]) -> int:
    return next(place for place, other in enumerate(log) if other is event)


def _same_action(event: Event, other: Event) -> bool:
    return (event.get("step"), event.get("item")) == (other.get("step"), other.get("item"))


def _lingering(before: list[Event]) -> list[Event]:
    """After the end: the newest intents of actions whose outcome nobody knows still."""
    if not any(e["kind"] in ENDS for e in before):
        return []
    newest = []
    for at, event in enumerate(before):
        later = [e for e in before[at + 1 :] if _same_action(e, event)]
        known = any(e["kind"] in (*FINAL, "action-pending", "intent-recorded") for e in later)
        if event["kind"] == "intent-recorded" and not known:
            newest.append(event)
    return newest


def _began(event: Event, intents: list[Event]) -> Event | None:
    attempt = event["data"].get("attempt")
    return next((e for e in intents if _same_action(e, event) and _is(e, "intent-recorded", attempt=attempt)), None)


def _result(event: Event, before: list[Event], going: bool) -> bool:
    data = event["data"]
    intent = _began(event, before if going else _lingering(before))
    if intent is not None:
        return bool(intent["data"].get("digest") == data.get("digest"))
    if data.get("started") is True:
        return False
    verdict = _standing(event, before) if going else None
    code = (data.get("error") or {}).get("code")
    if event["kind"] == "action-failed":
        return code in NOTHING_RAN and (verdict is None or verdict["data"].get("effect") != "ALLOW")
    return event["kind"] == "action-succeeded" and code is None and verdict is None


def _standing(event: Event, before: list[Event]) -> Event | None:
    """The verdict that nothing has happened to the action since."""
    own = [e for e in before if e["kind"] in OF_ACTION and _same_action(e, event)]
    return own[-1] if own and own[-1]["kind"] == "verdict-given" else None


def _denied(digest: Any, before: list[Event]) -> bool:
    for e in before:
        if e["kind"] == "decision-answered" and digest in (e["data"].get("denied") or ()):
            return True
        person = (e["data"].get("error") or {}).get("code") == "DENIED_BY_PERSON"
        if e["kind"] == "action-denied" and person and e["data"].get("digest") == digest:
            return True
    return False


def _intent(event: Event, before: list[Event]) -> bool:
    data, verdict = event["data"], _standing(event, before)
    if any(e["kind"] in FINAL and _same_action(e, event) for e in before) or _began(event, before) is not None:
        return False
    if verdict is None or data.get("digest") is None or data.get("attempt") is None:
        return False
    said = verdict["data"]
    same = all(said.get(name) == data.get(name) for name in ("digest", "attempt", "effect"))
    if not same or said.get("effect") not in ("ALLOW", "REQUIRE_APPROVAL") or _denied(data["digest"], before):
        return False
    if said.get("effect") == "ALLOW":
        return True
    name = data.get("grant")
    grant = next((e for e in before if name is not None and _is(e, "grant-given", grant=name)), None)
    return (
        grant is not None
        and grant["data"].get("digest") == data["digest"]
        and not any(_is(e, "intent-recorded", grant=name, effect="REQUIRE_APPROVAL") for e in before)
        and isinstance(grant["data"].get("expires_at"), float)
        and event["at"] < grant["data"]["expires_at"]
        and _place(grant, before) < _place(verdict, before)
        and _door(verdict, grant)
    )


def _door(verdict: Event, grant: Event) -> bool:
    said, given = verdict["data"], grant["data"]
    if said.get("mode") != "human":
        return True
    doors = said.get("doors") or ()
    return given.get("decision") is not None and given.get("door") != "caller" and given.get("door") in doors


def _grant(event: Event, before: list[Event]) -> bool:
    data = event["data"]
    name, digest = data.get("grant"), data.get("digest")
    if name is None or digest is None or any(_is(e, "grant-given", grant=name) for e in before):
        return False
    verdict = _standing(event, before)
    door = verdict is None or verdict["data"].get("digest") != digest or _door(verdict, event)
    if _denied(digest, before) or not door:
        return False
    if data.get("decision") is None:
        return "decision" not in data or data.get("door") == "caller"
    return any(
        _is(e, "decision-answered", decision=data["decision"], door=data.get("door"), approver=data.get("approver"))
        and digest in (e["data"].get("approved") or ())
        for e in before
    )


def _answer(event: Event, before: list[Event]) -> bool:
    data = event["data"]
    name = data.get("decision")
    question = next((e for e in before if name is not None and _is(e, "decision-asked", decision=name)), None)
    if question is None or any(_is(e, "decision-answered", decision=name) for e in before):
        return False
    later = before[_place(question, before) + 1 :]
    if any(
        _is(e, "decision-ended", decision=name) and e["data"].get("state") in ("expired", "superseded", "cancelled")
        for e in later
    ) or any(_is(e, "decision-asked", supersedes=name) for e in later):
        return False
    approved, denied = set(data.get("approved") or ()), set(data.get("denied") or ())
    asked = {subject.get("digest") for subject in question["data"].get("subjects") or ()}
    return (
        data.get("question") is not None
        and data.get("question") == question["data"].get("question")
        and approved | denied <= asked
        and not approved & denied
        and not any(_denied(digest, before) for digest in approved)
    )
