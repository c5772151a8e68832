"""All stores of one data directory: the way in for ``bootstrap`` and for tests."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from chaoscore.adapters.sqlite.audit import SqliteAuditStore
from chaoscore.adapters.sqlite.chain import Chain
from chaoscore.adapters.sqlite.database import WAIT_SECONDS, Database
from chaoscore.adapters.sqlite.decisions import SqliteDecisionStore
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.adapters.sqlite.memory import SqliteMemoryStore
from chaoscore.adapters.sqlite.memory_index import MemoryIndex
from chaoscore.adapters.sqlite.opening import Opening
from chaoscore.adapters.sqlite.plans import SqlitePlanStore
from chaoscore.adapters.sqlite.runs import SqliteRunStore
from chaoscore.adapters.sqlite.turnstile import Turnstile
from chaoscore.app.ports import AuditStore, Clock, DecisionStore, Ids, MemoryStore, PlanStore, Processes, RunStore
from chaoscore.domain.json import JsonObject
from chaoscore.domain.redaction import Redactor

SETTLING_SECONDS = 2.0
STAMPS_PER_SECOND = 20


@dataclass(frozen=True, slots=True)
class Stores:
    """The ports of one data directory, and what closes them."""

    plans: PlanStore
    runs: RunStore
    decisions: DecisionStore
    memory: MemoryStore
    audit: AuditStore
    database: Database
    chain: Chain
    facts: JsonObject
    disk: Disk

    def health(self) -> JsonObject:
        """What was found on opening, and what is wrong since; opens and writes nothing."""
        problem, unwritten = self.chain.problem, self.database.write_problem()
        return {
            **self.facts,
            "writes": unwritten or "ok",
            "audit": "ok" if problem is None else problem.message,
        }

    def stamp(self) -> object:
        """Differs after a write by any process; asks the file system and reads nothing.

        A commit can be read only a while after its last byte was written (it is synced in between), so the stamp goes
        on changing for ``SETTLING_SECONDS``: whoever looks whenever it differs misses nothing.
        """
        path = self.database.path
        files = self.disk.changed(path), self.disk.changed(path.with_name(path.name + "-wal"))
        age = min((self.disk.age_seconds(file[0]) for file in files if file is not None), default=-1.0)
        return files, int(age * STAMPS_PER_SECOND) if 0 <= age < SETTLING_SECONDS else None

    async def close(self) -> None:
        """Finish what was handed over, then close the files."""
        await self.database.close()
        self.chain.close()


async def open_stores(
    directory: Path,
    clock: Clock,
    ids: Ids,
    processes: Processes,
    *,
    redactor: Redactor | None = None,
    disk: Disk | None = None,
    wait_seconds: float = WAIT_SECONDS,
    full_text: bool | None = None,
) -> Stores:
    """Open the stores of a data directory; made when it is not there, only read when it is.

    ``wait_seconds`` bounds how long a call waits for its turn, and then again for a program that locks the file without
    asking for one (an SQLite shell); ``full_text`` false does without FTS5 where it
    is there. Raises ``StorageError``, or ``ConfigurationInvalid`` for a database of a newer version or another program.
    """
    disk = disk or Disk()
    turnstile = Turnstile(disk, directory)
    chain = Chain(disk, directory, ids, redactor)
    opening = Opening(disk, directory, turnstile, chain.prelude, chain.first_rows, wait_seconds)
    database = Database(disk, opening, turnstile, chain.committed, clock, wait_seconds)
    try:
        index = await database.read(lambda connection: _look(connection, chain, full_text))
    except BaseException:
        await database.close()
        raise
    facts: JsonObject = {
        "path": str(opening.path),
        "schema": opening.version,
        "fts5": index.is_there,
        "journal_mode": "wal",
    }
    return Stores(
        plans=SqlitePlanStore(database, chain),
        runs=SqliteRunStore(database, chain, clock, processes),
        decisions=SqliteDecisionStore(database, chain),
        memory=SqliteMemoryStore(database, chain, clock, index),
        audit=SqliteAuditStore(database, opening, chain, redactor or Redactor()),
        database=database,
        chain=chain,
        facts=facts,
        disk=disk,
    )


def _look(connection: sqlite3.Connection, chain: Chain, full_text: bool | None) -> MemoryIndex:
    chain.load(connection.execute)
    return MemoryIndex.of(connection, full_text)
