"""``RunStore``: runs, their actions and their grants, written only by whoever holds the fence.

Every change is one transaction together with its audit events. ``leases`` says who may write; ``rows`` how a row reads.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from chaoscore.adapters.sqlite.chain import Chain, Entry, Execute
from chaoscore.adapters.sqlite.codec import encode
from chaoscore.adapters.sqlite.cursors import make_cursor, read_cursor
from chaoscore.adapters.sqlite.database import Database, Transaction
from chaoscore.adapters.sqlite.decision_rows import apply_decisions, decisions_of, put_grants, require_unanswered
from chaoscore.adapters.sqlite.leases import Leases
from chaoscore.adapters.sqlite.plans import hashed, shown_handle
from chaoscore.adapters.sqlite.rows import (
    RUN_COLUMNS,
    Row,
    action_body,
    action_of,
    evaluation_body,
    grant_of,
    item_column,
    malformed,
    run_of,
    summary_of,
    wish_body,
    with_evidence,
)
from chaoscore.app.ports import Clock, Processes
from chaoscore.domain.action import Action
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import Conflict, InvalidInput, NotFound
from chaoscore.domain.json import JsonObject
from chaoscore.domain.principal import Principal
from chaoscore.domain.records import RUN_FINISHED, Changes, Claim, ProcessIdentity, Run, RunSummary

log = logging.getLogger(__name__)

RUNS_PER_PAGE_MAX = 200

_SELECT = f"SELECT {RUN_COLUMNS} FROM runs"  # noqa: S608
_NEWEST_OF_PLAN = f"{_SELECT} WHERE plan = ? ORDER BY id DESC LIMIT 1"
_BY_LABEL = f"{_SELECT} WHERE label = ?"
_BY_CREDENTIAL = f"{_SELECT} WHERE credential = ?"
_INSERT = (
    "INSERT INTO runs (label, credential, handle, plan, owner, status, created_at, updated_at, root, wish)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ACTIONS = "SELECT step, item, body FROM actions WHERE run = ?"
_GRANTS = (
    "SELECT id, digest, door, approver, granted_at, expires_at, used_at, decision FROM grants"
    " WHERE run = ? ORDER BY granted_at, id"
)
_EVIDENCE = "SELECT step, item, attempt, body FROM evidence WHERE run = ?"
_LIST = (
    "SELECT runs.id, runs.label, runs.handle, runs.plan, plans.handle, json_extract(plans.body, '$.objective'),"
    " runs.status, runs.created_at, runs.updated_at"
    " FROM runs LEFT JOIN plans ON plans.label = runs.plan"
    " WHERE {owner}runs.id < ? ORDER BY runs.id DESC LIMIT ?"
)
_LIST_ALL, _LIST_OWN = _LIST.format(owner=""), _LIST.format(owner="runs.owner = ? AND ")
# An action whose row is malformed is never overwritten: the update finds nothing to do, which is noticed.
_PUT_ACTION = (
    "INSERT INTO actions (run, step, item, body) VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET body = excluded.body WHERE json_valid(body)"
)
_PUT_EVIDENCE = "INSERT OR REPLACE INTO evidence (run, step, item, attempt, body) VALUES (?, ?, ?, ?, ?)"
# A person's no is final: a grant of what was denied meanwhile cannot be used, whoever gave it.
_USE_GRANT = (
    "UPDATE grants SET used_at = ?1 WHERE id = ?2 AND run = ?3 AND used_at IS NULL AND expires_at > ?1"
    " AND NOT EXISTS (SELECT 1 FROM denials WHERE denials.run = ?3 AND denials.digest = grants.digest)"
)
_SET_STATUS = "UPDATE runs SET status = ?, updated_at = ? WHERE id = ?"
_SET_WISH = "UPDATE runs SET wish = ? WHERE id = ?"
_SET_EVALUATION = "UPDATE runs SET evaluation = ?, updated_at = ? WHERE id = ?"


class SqliteRunStore:
    def __init__(self, database: Database, chain: Chain, clock: Clock, processes: Processes) -> None:
        self._database = database
        self._chain = chain
        self._clock = clock
        self._leases = Leases(processes)

    # -- opening and finding ---------------------------------------------------------------------------------

    async def open_run(self, run: Run, credential: str, rerun: bool, events: Sequence[AuditEvent]) -> tuple[Run, bool]:
        handle = shown_handle(credential, run.owner)
        row = (
            run.label,
            hashed(credential),
            handle,
            run.plan,
            run.owner,
            run.status,
            run.created_at,
            run.updated_at,
            run.root,
            wish_body(run.wish) if run.wish is not None else None,
        )
        new = self._chain.entries(events)

        def work(transaction: Transaction) -> tuple[Run, bool]:
            found = transaction.execute(_NEWEST_OF_PLAN, (run.plan,)).fetchone()
            if found is not None:
                newest = _whole(transaction.execute, found)
                finished = newest.status in RUN_FINISHED
                if rerun and not finished:
                    raise Conflict(
                        f"run {newest.label!r} of this plan is {newest.status}; let it end or cancel it before a rerun",
                        run=newest.label,
                        status=newest.status,
                    )
                if not rerun:
                    return newest, False
            try:
                transaction.execute(_INSERT, row)
            except sqlite3.IntegrityError:
                raise Conflict(f"there is a run {run.label!r} already; make a new label", run=run.label) from None
            self._chain.append(transaction, new)
            made = transaction.execute(_BY_LABEL, (run.label,)).fetchone()
            return _whole(transaction.execute, made), True

        return await self._database.write(work)

    async def find_run(self, credential: str, principal: Principal) -> Run | None:
        return await self._one(_BY_CREDENTIAL, hashed(credential), principal)

    async def run_of_plan(self, plan: str) -> Run | None:
        return await self._one(_NEWEST_OF_PLAN, plan)

    async def load_run(self, label: str) -> Run | None:
        return await self._one(_BY_LABEL, label)

    async def _one(self, statement: str, key: str | bytes, principal: Principal | None = None) -> Run | None:
        def work(connection: sqlite3.Connection) -> Run | None:
            connection.execute("BEGIN")  # the run, its actions and its grants as of one moment
            row = connection.execute(statement, (key,)).fetchone()
            found = row is not None and (principal is None or row[4] == principal.key)
            run = _whole(connection.execute, row) if found else None
            connection.execute("COMMIT")
            return run

        return await self._database.read(work)

    async def list_runs(
        self, principal: Principal | None, limit: int, cursor: str | None
    ) -> tuple[tuple[RunSummary, ...], str | None]:
        if principal is not None and principal.is_anonymous:
            return (), None
        owner = () if principal is None else (principal.key,)
        question = ["runs", *owner]
        before = 2**62
        if cursor is not None:
            place = read_cursor(question, cursor)
            if len(place) != 1 or not isinstance(place[0], int):
                raise InvalidInput(f"cursor {cursor[:60]!r} is not one of ours; leave it out to begin", key="cursor")
            before = place[0]
        limit = max(1, min(limit, RUNS_PER_PAGE_MAX))

        def work(connection: sqlite3.Connection) -> list[Row]:
            statement = _LIST_OWN if owner else _LIST_ALL
            return connection.execute(statement, (*owner, before, limit + 1)).fetchall()

        rows = await self._database.read(work)
        summaries = []
        for row in rows[:limit]:
            try:
                summaries.append(summary_of(row[1:]))
            except ValueError as problem:
                log.warning("%s", malformed("run", str(row[1]), problem).message)
        return tuple(summaries), make_cursor(question, [_id(rows[limit - 1])]) if len(rows) > limit else None

    # -- owning ----------------------------------------------------------------------------------------------

    async def claim(self, label: str, process: ProcessIdentity, now: float, lease_seconds: float) -> Claim:
        def work(transaction: Transaction) -> Claim:
            return self._leases.claim(transaction, label, process, now, lease_seconds)

        return await self._database.write(work)

    async def renew(self, claim: Claim, lease_until: float) -> None:
        def work(transaction: Transaction) -> None:
            self._leases.renew(transaction, claim, lease_until)

        await self._database.write(work)

    # -- changing --------------------------------------------------------------------------------------------

    async def commit(self, claim: Claim, changes: Changes, events: Sequence[AuditEvent]) -> None:
        await self._change(claim, changes, events, release=False)

    async def release(self, claim: Claim, changes: Changes, events: Sequence[AuditEvent]) -> None:
        await self._change(claim, changes, events, release=True)

    def _change(
        self, claim: Claim, changes: Changes, events: Sequence[AuditEvent], release: bool
    ) -> asyncio.Future[None]:
        prepared = _Prepared(changes, self._chain.entries(events))

        def work(transaction: Transaction) -> None:
            run = self._leases.held(transaction, claim)
            self._apply(transaction, run, claim.run, prepared)
            if release:
                self._leases.give_up(transaction, run)

        return self._database.write(work)

    async def record_outside(self, label: str, changes: Changes, events: Sequence[AuditEvent]) -> None:
        prepared = _Prepared(changes, self._chain.entries(events))
        now = self._clock.now()

        def work(transaction: Transaction) -> None:
            run = self._leases.outside(transaction, label, now, touches=prepared.touches_the_owner)
            self._apply(transaction, run, label, prepared)

        await self._database.write(work)

    async def add_evidence(
        self,
        label: str,
        step: str,
        item: int | None,
        attempt: int,
        evidence: JsonObject,
        events: Sequence[AuditEvent],
    ) -> None:
        body, new = encode(evidence), self._chain.entries(events)

        def work(transaction: Transaction) -> None:
            run = transaction.execute("SELECT id FROM runs WHERE label = ?", (label,)).fetchone()
            if run is None:
                raise NotFound(f"there is no run {label!r}", run=label)
            transaction.execute(_PUT_EVIDENCE, (run[0], step, item_column(item), attempt, body))
            self._chain.append(transaction, new)

        await self._database.write(work)

    def _apply(self, transaction: Transaction, run: int, label: str, prepared: _Prepared) -> None:
        execute, changes, now = transaction.execute, prepared.changes, self._clock.now()
        require_unanswered(execute, run, changes.unanswered, now)
        put_grants(execute, run, changes.grants)
        for used in changes.used_grants:
            if execute(_USE_GRANT, (now, used, run)).rowcount != 1:
                raise Conflict(
                    f"grant {used!r} cannot be used: it was used already, has expired, is not of this run or a person "
                    "denied the same meanwhile; ask again",
                    grant=used,
                )
        for action, body in prepared.actions:
            item = item_column(action.item)
            if execute(_PUT_ACTION, (run, action.step, item, body)).rowcount != 1:
                raise malformed("action", f"{label}/{action.step}/{item}", ValueError("not JSON"))
            if action.evidence is not None:
                execute(_PUT_EVIDENCE, (run, action.step, item, action.attempt, encode(action.evidence)))
        apply_decisions(execute, run, changes)
        if changes.wish is not None:
            execute(_SET_WISH, (wish_body(changes.wish), run))
        if changes.status is not None:
            execute(_SET_STATUS, (changes.status, now, run))
        if prepared.evaluation is not None:
            execute(_SET_EVALUATION, (prepared.evaluation, now, run))
        self._chain.append(transaction, prepared.events)


class _Prepared:
    """Changes written out as text before any lock is held."""

    __slots__ = ("actions", "changes", "evaluation", "events")

    def __init__(self, changes: Changes, events: Sequence[Entry]) -> None:
        self.changes = changes
        self.events = events
        self.actions: list[tuple[Action, str]] = [(action, action_body(action)) for action in changes.actions]
        self.evaluation = evaluation_body(changes.evaluation) if changes.evaluation is not None else None

    @property
    def touches_the_owner(self) -> bool:
        changes = self.changes
        return changes != Changes(grants=changes.grants)


def _id(row: Row) -> int:
    assert isinstance(row[0], int)
    return row[0]


def _whole(execute: Execute, row: Row) -> Run:
    """A run with its actions and grants. Raises ``StorageError`` naming the row that cannot be read."""
    run, key = run_of(row), (row[0],)
    actions: list[Action] = []
    for step, item, body in execute(_ACTIONS, key).fetchall():
        try:
            actions.append(action_of(step, item, body))
        except ValueError as problem:
            raise malformed("action", f"{run.label}/{step}/{item}", problem) from None
    try:
        grants = tuple(grant_of(grant, run.label) for grant in execute(_GRANTS, key).fetchall())
        complete = with_evidence(actions, execute(_EVIDENCE, key).fetchall())
    except ValueError as problem:
        raise malformed("run", run.label, problem) from None
    return replace(run, actions=complete, grants=grants, decisions=decisions_of(execute, key[0], run.label))
