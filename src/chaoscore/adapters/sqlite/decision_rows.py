"""Rows of decisions and grants as values, and the statements that a run's transaction uses for them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import get_args

from chaoscore.adapters.sqlite.chain import Execute
from chaoscore.adapters.sqlite.codec import decode_object, encode
from chaoscore.adapters.sqlite.rows import malformed
from chaoscore.adapters.sqlite.typed import (
    Malformed,
    a_number,
    a_text,
    an_integer,
    one_of,
)
from chaoscore.domain.action import Grant
from chaoscore.domain.approval import (
    AskedAction,
    DecisionKind,
    DecisionState,
    Difference,
    RunDecision,
    RunResponse,
    WaitingDecision,
)
from chaoscore.domain.errors import Conflict
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.fields import WrongShape
from chaoscore.domain.json import Json, JsonObject, is_array, is_object
from chaoscore.domain.policy.model import ApprovalMode
from chaoscore.domain.records import Changes

Row = Sequence[object]

SUMMARY_CHARS_MAX = 160

COLUMNS = (
    "decisions.id, runs.label, decisions.kind, decisions.state, decisions.applied, decisions.created_at,"
    " decisions.expires_at, decisions.root, decisions.digest, decisions.body, decisions.response"
)
_OF_RUN = f"SELECT {COLUMNS} FROM decisions JOIN runs ON runs.id = decisions.run WHERE decisions.run = ? ORDER BY seq"  # noqa: S608
_PUT = (
    "INSERT INTO decisions (id, run, kind, state, created_at, expires_at, root, digest, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_END = "UPDATE decisions SET state = ?, applied = 1 WHERE id = ? AND run = ? AND state = 'waiting'"
_APPLY = "UPDATE decisions SET applied = 1 WHERE id = ? AND run = ?"
_PUT_GRANT = (
    "INSERT INTO grants (id, run, digest, door, approver, granted_at, expires_at, used_at, decision)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DENIED_BY = "SELECT decision FROM denials WHERE run = ? AND digest = ?"
_BY_ID = f"SELECT {COLUMNS} FROM decisions JOIN runs ON runs.id = decisions.run WHERE decisions.id = ?"  # noqa: S608
_UNANSWERED = "SELECT 1 FROM decisions WHERE id = ? AND run = ? AND state = 'waiting' AND expires_at > ?"
_DENY = "INSERT OR IGNORE INTO denials (run, digest, decision) VALUES (?, ?, ?)"

_KINDS: tuple[DecisionKind, ...] = get_args(DecisionKind)
_STATES: tuple[DecisionState, ...] = get_args(DecisionState)
_MODES: tuple[ApprovalMode, ...] = get_args(ApprovalMode)


def decisions_of(execute: Execute, run: object, label: str) -> tuple[RunDecision, ...]:
    """Oldest first. Raises ``StorageError`` (STORE_CORRUPT)."""
    return tuple(decision_of(row) for row in execute(_OF_RUN, (run,)).fetchall())


def put_grants(execute: Execute, run: int, grants: Iterable[Grant]) -> None:
    """Raises ``Conflict`` for a grant that is there already, and for one of what was denied meanwhile."""
    for grant in grants:
        denied = execute(_DENIED_BY, (run, grant.digest)).fetchone()
        if denied is not None:
            raise Conflict(
                f"what grant {grant.id!r} is for was denied with decision {denied[0]!r} meanwhile; a no is final",
                grant=grant.id,
                decision=str(denied[0]),
            )
        row = (
            grant.id,
            run,
            grant.digest,
            grant.door,
            grant.approver,
            grant.granted_at,
            grant.expires_at,
            grant.used_at,
            grant.decision,
        )
        try:
            execute(_PUT_GRANT, row)
        except sqlite3.IntegrityError:
            raise Conflict(f"there is a grant {grant.id!r} already", grant=grant.id) from None


def require_unanswered(execute: Execute, run: int, decisions: Iterable[str], now: float) -> None:
    """Raises ``Conflict`` when one of them takes no answer any more."""
    for name in decisions:
        if execute(_UNANSWERED, (name, run, now)).fetchone() is None:
            raise Conflict(f"decision {name!r} was answered or ran out of time meanwhile; look again", decision=name)


def put_denials(execute: Execute, run: int, decision: RunDecision, denied: Iterable[AskedAction]) -> None:
    for action in denied:
        execute(_DENY, (run, action.digest, decision.id))


def apply_decisions(execute: Execute, run: int, changes: Changes) -> None:
    """New questions, questions that ended, answers taken into account. Ending one that was answered meanwhile raises
    ``Conflict``: an answer is never lost to somebody who thought that it was not needed."""
    for decision in changes.asked:
        row = (
            decision.id,
            run,
            decision.kind,
            decision.state,
            decision.created_at,
            decision.expires_at,
            decision.root,
            decision.question_digest,
            encode(_body(decision)),
        )
        try:
            execute(_PUT, row)
        except sqlite3.IntegrityError:
            raise Conflict(f"there is a decision {decision.id!r} already", decision=decision.id) from None
    for name, state in changes.ended:
        if execute(_END, (state, name, run)).rowcount != 1:
            raise Conflict(f"decision {name!r} was answered meanwhile", decision=name)
        if state == "expired":  # which counts as no
            ended = decision_of(execute(_BY_ID, (name,)).fetchone())
            put_denials(execute, run, ended, ended.actions if ended.kind == "approval" else ())
    for name in changes.applied:
        execute(_APPLY, (name, run))


def _body(decision: RunDecision) -> dict[str, Json]:
    return {
        "question": decision.question.to_json(),
        "actions": [
            {
                "option": action.option,
                "step": action.step,
                "item": action.item,
                "digest": action.digest,
                "shown": action.shown,
                "changed": [[d.pointer, d.before, d.after, d.absent] for d in action.changed],
            }
            for action in decision.actions
        ],
        "mode": decision.mode,
        "doors": list(decision.doors),
    }


def decision_of(row: Row) -> RunDecision:
    """A row of ``COLUMNS``. Raises ``StorageError`` (STORE_CORRUPT)."""
    name, run, kind, state, applied, created, expires, root, digest, body, response = row
    try:
        raw = decode_object(body)
        actions, doors, mode = raw.get("actions"), raw.get("doors"), raw.get("mode")
        if not is_array(actions) or not is_array(doors):
            raise Malformed("it has no actions or no doors")
        return RunDecision(
            id=a_text(name),
            run=a_text(run),
            kind=one_of(kind, _KINDS),
            question=Decision.from_json(raw.get("question")),
            question_digest=a_text(digest),
            actions=tuple(_action(action) for action in actions),
            mode=one_of(mode, _MODES),
            doors=tuple(a_text(door) for door in doors),
            root=None if root is None else a_text(root),
            created_at=a_number(created),
            expires_at=a_number(expires),
            state=one_of(state, _STATES),
            response=None if response is None else _response(decode_object(response)),
            applied=applied == 1,
        )
    except (ValueError, WrongShape) as problem:
        raise malformed("decision", str(name), problem) from None


BRIEF_COLUMNS = (
    "decisions.seq, decisions.id, runs.label, decisions.kind, decisions.created_at, decisions.expires_at,"
    " decisions.digest, decisions.body"
)


def brief_of(row: Row) -> WaitingDecision:
    """A row of ``BRIEF_COLUMNS``. Raises ``StorageError`` (STORE_CORRUPT)."""
    place, name, run, kind, created, expires, digest, body = row
    try:
        raw = decode_object(body)
        question, actions = raw.get("question"), raw.get("actions")
        if not is_object(question) or not is_array(actions):
            raise Malformed("it has no question or no actions")
        shown = [action.get("shown") for action in actions if is_object(action)]
        names = dict.fromkeys(a_text(each.get("capability")) for each in shown if is_object(each))
        return WaitingDecision(
            place=an_integer(place),
            id=a_text(name),
            run=a_text(run),
            kind=one_of(kind, _KINDS),
            title=a_text(question.get("title")),
            interaction_type=a_text(question.get("interactionType")),
            mode=one_of(raw.get("mode"), _MODES),
            capabilities=tuple(names),
            summary=_summary(shown[0] if shown else None),
            actions=len(actions),
            digest=a_text(digest),
            created_at=a_number(created),
            expires_at=a_number(expires),
        )
    except ValueError as problem:
        raise malformed("decision", str(name), problem) from None


def _summary(shown: Json) -> str:
    """Why the first action is asked for, in the plan's words, or else the beginning of its arguments."""
    if not is_object(shown):
        return ""
    why, arguments = shown.get("why"), shown.get("arguments")
    if isinstance(why, str) and why.strip():
        return why[:SUMMARY_CHARS_MAX]
    if not is_object(arguments):
        return ""
    values = (value if isinstance(value, str) else encode(value) for value in arguments.values())
    parts = (f"{name}: {value[:SUMMARY_CHARS_MAX]}" for name, value in zip(arguments, values, strict=True))
    return ", ".join(islice(parts, 4))[:SUMMARY_CHARS_MAX]


def response_body(response: RunResponse) -> str:
    return encode(response.to_json())


def _response(raw: JsonObject) -> RunResponse:
    options, rationale = raw.get("options"), raw.get("rationale")
    if not is_array(options):
        raise Malformed("the response has no options")
    return RunResponse(
        tuple(a_text(option) for option in options),
        None if rationale is None else a_text(rationale),
        a_text(raw.get("door")),
        a_text(raw.get("approver")),
        a_number(raw.get("at")),
    )


def _action(raw: Json) -> AskedAction:
    if not is_object(raw):
        raise Malformed("an action is not an object")
    item, shown, changed = raw.get("item"), raw.get("shown"), raw.get("changed")
    if not is_object(shown) or not is_array(changed) or not (item is None or isinstance(item, int)):
        raise Malformed("an action is incomplete")
    return AskedAction(
        a_text(raw.get("option")),
        a_text(raw.get("step")),
        item,
        a_text(raw.get("digest")),
        shown,
        tuple(_difference(difference) for difference in changed),
    )


def _difference(raw: Json) -> Difference:
    if not is_array(raw) or len(raw) != 4:
        raise Malformed("a difference is not four values")
    absent = raw[3]
    if absent == "before":
        return Difference(a_text(raw[0]), raw[1], raw[2], "before")
    return Difference(a_text(raw[0]), raw[1], raw[2], "after" if absent == "after" else None)
