"""``DecisionStore``: what runs ask people.

Answers need no claim on the run; everything else about a decision is written with the run's own changes (``runs``).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence

from chaoscore.adapters.sqlite.chain import Chain
from chaoscore.adapters.sqlite.cursors import make_cursor, read_cursor
from chaoscore.adapters.sqlite.database import Database, Transaction
from chaoscore.adapters.sqlite.decision_rows import (
    BRIEF_COLUMNS,
    COLUMNS,
    brief_of,
    decision_of,
    put_denials,
    put_grants,
    response_body,
)
from chaoscore.domain.action import Grant
from chaoscore.domain.approval import DecisionState, RunDecision, WaitingDecision, WaitingRef
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import Conflict, InvalidInput, NotFound, StorageError
from chaoscore.domain.principal import Principal

log = logging.getLogger(__name__)

DECISIONS_PER_PAGE_MAX = 200

_SELECT = f"SELECT {COLUMNS} FROM decisions JOIN runs ON runs.id = decisions.run"  # noqa: S608
_BY_ID = f"{_SELECT} WHERE decisions.id = ?"
_ANSWER = "UPDATE decisions SET state = 'answered', response = ? WHERE id = ? AND state = 'waiting' AND expires_at > ?"
_REFS = (
    "SELECT decisions.id, runs.label, decisions.root FROM decisions JOIN runs ON runs.id = decisions.run"
    " WHERE decisions.state = 'waiting' ORDER BY decisions.seq"
)
_COUNT = "SELECT count(*) FROM decisions WHERE state = 'waiting'"
_COUNT_OPEN = "SELECT count(*) FROM decisions WHERE state = 'waiting' AND expires_at > ?"
_BRIEF = (
    f"SELECT {BRIEF_COLUMNS} FROM decisions JOIN runs ON runs.id = decisions.run"  # noqa: S608
    " WHERE decisions.state = 'waiting' AND decisions.seq > ? AND decisions.expires_at > ?"
    " ORDER BY decisions.seq LIMIT ?"
)
# Answered or out of time, and the run has not heard of it yet; or left in the middle by a process that is gone.
_READY = (
    "SELECT runs.label FROM (SELECT run, seq FROM decisions WHERE state = 'answered' AND applied = 0"
    " UNION ALL SELECT run, seq FROM decisions WHERE state = 'waiting' AND expires_at <= ?1"
    " UNION ALL SELECT id, 0 FROM runs WHERE lease_until <= ?1 AND status = 'running') AS due"
    " JOIN runs ON runs.id = due.run"
    " WHERE runs.status NOT IN ('completed', 'failed', 'cancelled')"
    " AND (runs.lease_until IS NULL OR runs.lease_until <= ?1)"
    " GROUP BY runs.id ORDER BY min(due.seq) LIMIT ?2"
)


class SqliteDecisionStore:
    def __init__(self, database: Database, chain: Chain) -> None:
        self._database = database
        self._chain = chain

    async def find_decision(self, decision: str) -> RunDecision | None:
        def work(connection: sqlite3.Connection) -> RunDecision | None:
            row = connection.execute(_BY_ID, (decision,)).fetchone()
            return decision_of(row) if row is not None else None

        return await self._database.read(work)

    async def list_decisions(
        self,
        states: Sequence[DecisionState],
        limit: int,
        cursor: str | None,
        principal: Principal | None = None,
        newest_first: bool = False,
    ) -> tuple[tuple[RunDecision, ...], str | None]:
        if principal is not None and principal.is_anonymous:
            return (), None
        question = ["decisions", *states, principal.key if principal is not None else None, newest_first]
        place = 2**62 if newest_first else 0
        if cursor is not None:
            read = read_cursor(question, cursor)
            if len(read) != 1 or not isinstance(read[0], int):
                raise InvalidInput(f"cursor {cursor[:60]!r} is not one of ours; leave it out to begin", key="cursor")
            place = read[0]
        size = max(1, min(limit, DECISIONS_PER_PAGE_MAX))
        compare, order = ("<", "DESC") if newest_first else (">", "ASC")
        owner = "" if principal is None else " AND runs.owner = ?"
        marks = ", ".join("?" for _ in states)
        statement = (
            f"SELECT decisions.seq, {COLUMNS} FROM decisions JOIN runs ON runs.id = decisions.run"  # noqa: S608
            f" WHERE decisions.state IN ({marks}) AND decisions.seq {compare} ?{owner}"
            f" ORDER BY decisions.seq {order} LIMIT ?"
        )
        values = (*states, place, *(() if principal is None else (principal.key,)), size + 1)

        def work(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
            return connection.execute(statement, values).fetchall()

        rows = await self._database.read(work)
        found = tuple(decision_of(row[1:]) for row in rows[:size])
        last = rows[size - 1][0] if len(rows) > size else None
        return found, make_cursor(question, [last]) if isinstance(last, int) else None

    async def count_waiting(self) -> int:
        def work(connection: sqlite3.Connection) -> int:
            return int(connection.execute(_COUNT).fetchone()[0])

        return await self._database.read(work)

    async def waiting_after(
        self, place: int, limit: int, now: float
    ) -> tuple[tuple[WaitingDecision, ...], int, tuple[str, ...]]:
        size = max(1, min(limit, DECISIONS_PER_PAGE_MAX))

        def work(connection: sqlite3.Connection) -> tuple[list[WaitingDecision], int, list[str]]:
            found: list[WaitingDecision] = []
            faults: list[str] = []
            at = place
            while len(found) < size and len(faults) < DECISIONS_PER_PAGE_MAX:
                rows = connection.execute(_BRIEF, (at, now, size)).fetchall()
                for row in rows:
                    at = row[0]
                    try:
                        found.append(brief_of(row))
                    except StorageError as problem:
                        faults.append(problem.message)
                if len(rows) < size:
                    break
            del found[size:]
            return found, int(connection.execute(_COUNT_OPEN, (now,)).fetchone()[0]), faults

        found, total, faults = await self._database.read(work)
        for fault in faults:
            log.warning("%s", fault)
        return tuple(found), total, tuple(faults)

    async def waiting_refs(self) -> tuple[WaitingRef, ...]:
        def work(connection: sqlite3.Connection) -> tuple[WaitingRef, ...]:
            return tuple(WaitingRef(str(name), str(run), root) for name, run, root in connection.execute(_REFS))

        return await self._database.read(work)

    async def answer(self, decision: RunDecision, grants: Sequence[Grant], events: Sequence[AuditEvent]) -> None:
        response = decision.response
        assert response is not None
        body, new = response_body(response), self._chain.entries(events)

        def work(transaction: Transaction) -> None:
            execute = transaction.execute
            run = execute("SELECT id FROM runs WHERE label = ?", (decision.run,)).fetchone()
            if run is None:
                raise NotFound(f"there is no run {decision.run!r}", run=decision.run)
            if execute(_ANSWER, (body, decision.id, response.at)).rowcount != 1:
                row = execute(_BY_ID, (decision.id,)).fetchone()
                if row is None:
                    raise NotFound(f"there is no decision {decision.id!r}", decision=decision.id)
                decision_of(row).require_open(response.at)
                raise Conflict(f"decision {decision.id!r} takes no answer", decision=decision.id)
            put_grants(execute, run[0], grants)
            put_denials(execute, run[0], decision, decision.denied)
            self._chain.append(transaction, new)

        await self._database.write(work)

    async def ready_runs(self, now: float, limit: int) -> tuple[str, ...]:
        def work(connection: sqlite3.Connection) -> tuple[str, ...]:
            return tuple(str(row[0]) for row in connection.execute(_READY, (now, limit)).fetchall())

        return await self._database.read(work)
