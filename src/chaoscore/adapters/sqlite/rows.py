"""Rows of plans and runs as values, and back: exact, and never guessing.

A row that is not what was written is malformed: it is reported by its key, left as it is, and nothing else fails
because of it (law 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from chaoscore.adapters.sqlite.codec import decode, decode_object, encode
from chaoscore.adapters.sqlite.typed import (
    Malformed,
    a_number,
    a_text,
    a_text_or_none,
    an_integer,
    an_object,
    one_of,
    some_texts,
)
from chaoscore.domain.action import Action, ActionError, Grant, State
from chaoscore.domain.errors import StorageError
from chaoscore.domain.evaluation import Evaluation, Outcome, StepReason
from chaoscore.domain.json import Json, is_array, is_object
from chaoscore.domain.plan import Plan, plan_from_json, plan_to_json
from chaoscore.domain.policy.model import DOORS, ApprovalMode, Effect, Verdict
from chaoscore.domain.records import ProcessIdentity, Run, RunStatus, RunSummary, StoredPlan, Wish

Row = Sequence[object]

NO_ITEM = -1

RUN_COLUMNS = (
    "id, label, handle, plan, owner, status, created_at, updated_at, fence,"
    " lease_until, process, evaluation, root, wish"
)

_STATES: tuple[State, ...] = get_args(State)
_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
_EFFECTS: tuple[Effect, ...] = get_args(Effect)
_MODES: tuple[ApprovalMode, ...] = get_args(ApprovalMode)
_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def malformed(kind: str, key: str, problem: Exception) -> StorageError:
    return StorageError(
        f"the stored {kind} {key!r} is malformed ({problem}); it was left as it is: restore a backup or go on without",
        code="STORE_CORRUPT",
        kind=kind,
        key=key,
    )


# -- plans -------------------------------------------------------------------------------------------------------


def plan_body(plan: Plan) -> str:
    return encode(plan_to_json(plan))


def stored_plan(label: object, handle: object, body: object) -> StoredPlan:
    """Raises ``StorageError`` (STORE_CORRUPT)."""
    try:
        plan = plan_from_json(decode(body))
        if plan.label != label:
            raise Malformed("it carries another label")
        return StoredPlan(plan, a_text_or_none(handle))
    except ValueError as problem:
        raise malformed("plan", str(label), problem) from None


# -- runs --------------------------------------------------------------------------------------------------------


def run_of(row: Row) -> Run:
    """A row of ``RUN_COLUMNS`` without actions and grants. Raises ``StorageError`` (STORE_CORRUPT)."""
    try:
        _, label, handle, plan, owner, status, created, updated, fence, lease, process, evaluation, root, wish = row
        return Run(
            label=a_text(label),
            handle=a_text_or_none(handle),
            plan=a_text(plan),
            owner=a_text(owner),
            status=one_of(status, _STATUSES),
            created_at=a_number(created),
            updated_at=a_number(updated),
            fence=an_integer(fence),
            lease_until=None if lease is None else a_number(lease),
            process=None if process is None else _process(process),
            evaluation=None if evaluation is None else _evaluation(evaluation),
            root=a_text_or_none(root),
            wish=None if wish is None else _wish(wish),
        )
    except ValueError as problem:
        raise malformed("run", str(row[1]), problem) from None


def summary_of(row: Row) -> RunSummary:
    """Of {label, handle, plan, plan handle, objective, status, created, updated}. Raises ``Malformed``."""
    label, handle, plan, plan_handle, objective, status, created, updated = row
    return RunSummary(
        a_text(label),
        a_text_or_none(handle),
        a_text(plan),
        a_text_or_none(plan_handle),
        a_text(objective),
        one_of(status, _STATUSES),
        a_number(created),
        a_number(updated),
    )


def wish_body(wish: Wish) -> str:
    return encode([None if wish.steps is None else list(wish.steps), wish.stop_at_approval])


def _wish(text: object) -> Wish:
    raw = decode(text)
    if not is_array(raw) or len(raw) != 2 or not isinstance(raw[1], bool):
        raise Malformed("the wish is not steps and a flag")
    return Wish(None if raw[0] is None else some_texts(raw[0]), raw[1])


def process_body(process: ProcessIdentity) -> str:
    return encode([process.boot, process.namespace, process.pid, process.started, process.nonce])


def _process(text: object) -> ProcessIdentity:
    raw = decode(text)
    if not is_array(raw) or len(raw) != 5:
        raise Malformed("the owner is not a process")
    boot, namespace, pid, started, nonce = raw
    return ProcessIdentity(a_text(boot), a_text(namespace), an_integer(pid), a_text(started), a_text(nonce))


def evaluation_body(evaluation: Evaluation) -> str:
    return encode(evaluation.to_json())


def _evaluation(text: object) -> Evaluation:
    raw = decode_object(text)
    counts, reasons = raw.get("counts"), raw.get("reasons")
    if not is_object(counts) or not is_array(reasons):
        raise Malformed("the evaluation has no counts or reasons")
    return Evaluation(
        outcome=one_of(raw.get("outcome"), _OUTCOMES),
        counts={state: an_integer(count) for state, count in counts.items()},
        checks=an_integer(raw.get("checks")),
        checks_failed=an_integer(raw.get("checks_failed")),
        reasons=tuple(
            StepReason(a_text(reason.get("step")), a_text(reason.get("state")), a_text(reason.get("reason")))
            for reason in map(an_object, reasons)
        ),
    )


# -- actions -----------------------------------------------------------------------------------------------------


def action_body(action: Action) -> str:
    """Everything but the key and the evidence, which have columns and a table of their own; defaults are left out."""
    raw: dict[str, Json] = {"capability": action.capability, "state": action.state}
    if action.attempt != 1:
        raw["attempt"] = action.attempt
    if action.arguments is not None:
        raw["arguments"] = action.arguments
    if action.digest is not None:
        raw["digest"] = action.digest
    if action.verdict is not None:
        raw["verdict"] = _verdict_json(action.verdict)
    if action.output is not None:
        raw["output"] = action.output
    if action.error is not None:
        raw["error"] = [action.error.code, action.error.message]
    if action.grant is not None:
        raw["grant"] = action.grant
    if action.started_at is not None:
        raw["started_at"] = action.started_at
    if action.finished_at is not None:
        raw["finished_at"] = action.finished_at
    return encode(raw)


def action_of(step: object, item: object, body: object) -> Action:
    """Raises ``ValueError``."""
    raw = decode_object(body)
    arguments, verdict, error = raw.get("arguments"), raw.get("verdict"), raw.get("error")
    index = an_integer(item)
    started, finished = raw.get("started_at"), raw.get("finished_at")
    return Action(
        step=a_text(step),
        item=None if index == NO_ITEM else index,
        capability=a_text(raw.get("capability")),
        state=one_of(raw.get("state"), _STATES),
        attempt=an_integer(raw.get("attempt", 1)),
        arguments=None if arguments is None else an_object(arguments),
        digest=a_text_or_none(raw.get("digest")),
        verdict=None if verdict is None else _verdict(verdict),
        output=raw.get("output"),
        error=None if error is None else _error(error),
        grant=a_text_or_none(raw.get("grant")),
        started_at=None if started is None else a_number(started),
        finished_at=None if finished is None else a_number(finished),
    )


def with_evidence(actions: Sequence[Action], rows: Sequence[Row]) -> tuple[Action, ...]:
    """``rows`` are {step, item, attempt, body}; evidence belongs to the attempt it came from."""
    if not rows:
        return tuple(actions)
    kept = {(step, item, attempt): decode(body) for step, item, attempt, body in rows}
    return tuple(
        replace(action, evidence=kept.get((action.step, item_column(action.item), action.attempt)))
        for action in actions
    )


def item_column(item: int | None) -> int:
    return NO_ITEM if item is None else item


def _error(raw: Json) -> ActionError:
    if not is_array(raw) or len(raw) != 2:
        raise Malformed("an error is not a code and a message")
    return ActionError(a_text(raw[0]), a_text(raw[1]))


def _verdict_json(verdict: Verdict) -> dict[str, Json]:
    return {
        "effect": verdict.effect,
        "rule": verdict.rule,
        "reasons": list(verdict.reasons),
        "mode": verdict.mode,
        "doors": list(verdict.doors),
        "scope": verdict.scope,
        "pending": list(verdict.pending),
    }


def _verdict(raw: Json) -> Verdict:
    at = an_object(raw)
    return Verdict(
        effect=one_of(at.get("effect"), _EFFECTS),
        rule=a_text(at.get("rule")),
        reasons=some_texts(at.get("reasons")),
        mode=one_of(at.get("mode"), _MODES),
        doors=tuple(one_of(door, DOORS) for door in some_texts(at.get("doors"))),
        scope=an_object(at.get("scope")),
        pending=some_texts(at.get("pending")),
    )


def grant_of(row: Row, run: str) -> Grant:
    """Of {id, digest, door, approver, granted, expires, used, decision}. Raises ``Malformed``."""
    name, digest, door, approver, granted, expires, used, decision = row
    return Grant(
        a_text(name),
        run,
        a_text(digest),
        a_text(door),
        a_text(approver),
        a_number(granted),
        a_number(expires),
        None if used is None else a_number(used),
        a_text_or_none(decision),
    )
