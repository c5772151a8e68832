"""The tables, by schema version. A version once released never changes; the next one is added below it.

``opening`` runs what a database file lacks, in one transaction. What a migration does to rows must keep every one of
them: state is never thrown away to make a schema fit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

Migration = Callable[[sqlite3.Connection], None]

APPLICATION_ID = 0x43484153
"""``CHAS``: tells our files from any other SQLite database."""

INDEX_TABLE = """CREATE VIRTUAL TABLE IF NOT EXISTS memory_index
    USING fts5(tokens, content='', columnsize=0, detail=none, tokenize='ascii')"""
"""Postings only: the words and pieces of a memory are computed from its row whenever they are needed."""

_FIRST = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE plans (
        id INTEGER PRIMARY KEY,
        label TEXT NOT NULL UNIQUE,
        credential BLOB NOT NULL UNIQUE,
        handle TEXT,
        owner TEXT NOT NULL,
        binding BLOB,
        body TEXT NOT NULL
    )""",
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        label TEXT NOT NULL UNIQUE,
        credential BLOB NOT NULL UNIQUE,
        handle TEXT,
        plan TEXT NOT NULL,
        owner TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        fence INTEGER NOT NULL DEFAULT 0,
        lease_until REAL,
        process TEXT,
        evaluation TEXT
    )""",
    "CREATE INDEX runs_by_plan ON runs (plan, id)",
    "CREATE INDEX runs_by_owner ON runs (owner, id)",
    # item is -1 for a plain step: a key may not hold NULL and still be one
    """CREATE TABLE actions (
        run INTEGER NOT NULL,
        step TEXT NOT NULL,
        item INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (run, step, item)
    ) WITHOUT ROWID""",
    # apart from the actions, so that the owner's next write of an action cannot take it away
    """CREATE TABLE evidence (
        run INTEGER NOT NULL,
        step TEXT NOT NULL,
        item INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (run, step, item, attempt)
    ) WITHOUT ROWID""",
    """CREATE TABLE grants (
        id TEXT PRIMARY KEY,
        run INTEGER NOT NULL,
        digest TEXT NOT NULL,
        door TEXT NOT NULL,
        approver TEXT NOT NULL,
        granted_at REAL NOT NULL,
        expires_at REAL NOT NULL,
        used_at REAL
    ) WITHOUT ROWID""",
    "CREATE INDEX grants_by_run ON grants (run)",
    """CREATE TABLE audit (
        seq INTEGER PRIMARY KEY,
        principal TEXT NOT NULL,
        run TEXT,
        body TEXT NOT NULL,
        mac TEXT NOT NULL
    )""",
    # which events are whose: filled many at a time, because an index would cost every commit two pages
    "CREATE TABLE audit_by_run (run TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID",
    """CREATE TABLE audit_by_principal (
        principal TEXT NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (principal, seq)
    ) WITHOUT ROWID""",
    """CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END""",
    """CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END""",
    # an id is never used twice: the search index may keep postings of a row that is gone
    """CREATE TABLE memories (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        expires_at REAL,
        kind TEXT NOT NULL,
        source TEXT NOT NULL,
        trust TEXT NOT NULL,
        episode TEXT,
        valid_from REAL,
        valid_to REAL,
        indexed INTEGER NOT NULL,
        tags TEXT NOT NULL,
        value TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX memories_by_key ON memories (namespace, key)",
    "CREATE INDEX memories_by_age ON memories (namespace, id)",
    "CREATE INDEX memories_by_end ON memories (expires_at) WHERE expires_at IS NOT NULL",
    "CREATE INDEX memories_not_indexed ON memories (namespace, id) WHERE indexed = 0",
    """CREATE TABLE memory_history (
        namespace TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        expires_at REAL,
        kind TEXT NOT NULL,
        source TEXT NOT NULL,
        trust TEXT NOT NULL,
        episode TEXT,
        valid_from REAL,
        valid_to REAL,
        tags TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (namespace, key, version)
    )""",
)


def _first(connection: sqlite3.Connection) -> None:
    for statement in _FIRST:
        connection.execute(statement)
    if has_fts5(connection):
        connection.execute(INDEX_TABLE)


_DECISIONS = (
    "ALTER TABLE runs ADD COLUMN root TEXT",
    "ALTER TABLE runs ADD COLUMN wish TEXT",
    "ALTER TABLE grants ADD COLUMN decision TEXT",
    # what a run asks a person; applied = 1 once the run has taken the answer, or the end without one, into account
    """CREATE TABLE decisions (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        run INTEGER NOT NULL,
        kind TEXT NOT NULL,
        state TEXT NOT NULL,
        applied INTEGER NOT NULL DEFAULT 0,
        created_at REAL NOT NULL,
        expires_at REAL NOT NULL,
        root TEXT,
        digest TEXT NOT NULL,
        body TEXT NOT NULL,
        response TEXT
    )""",
    "CREATE INDEX decisions_by_run ON decisions (run, seq)",
    "CREATE INDEX decisions_by_state ON decisions (state, seq)",
    "CREATE INDEX decisions_by_end ON decisions (expires_at) WHERE state = 'waiting'",
    "CREATE INDEX decisions_not_applied ON decisions (seq) WHERE state = 'answered' AND applied = 0",
    "CREATE INDEX runs_by_lease ON runs (lease_until) WHERE lease_until IS NOT NULL",
    # apart, so that a grant of something that was denied can be refused in the transaction that would use it
    """CREATE TABLE denials (
        run INTEGER NOT NULL,
        digest TEXT NOT NULL,
        decision TEXT NOT NULL,
        PRIMARY KEY (run, digest)
    ) WITHOUT ROWID""",
)


def _decisions(connection: sqlite3.Connection) -> None:
    for statement in _DECISIONS:
        connection.execute(statement)


MIGRATIONS: Sequence[Migration] = (_first, _decisions)
"""``MIGRATIONS[n]`` takes a database from version ``n`` to ``n + 1``."""


def has_fts5(connection: sqlite3.Connection) -> bool:
    """Whether this SQLite can search full text. Asks the library; touches no file."""
    row = connection.execute("SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'").fetchone()
    return bool(row and row[0])
