# ruff: noqa: S608 - statements are put together from names in this file, values are bound
"""The rebuildable index: one SQLite file in the user's cache directory, shared by all our processes on one folder.

It holds facts and the token of how far they reach, in one transaction. It is a cache: ``synchronous=OFF``, and whatever
is wrong with it, it is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaoscore.adapters.files.interaction import facts as f
from chaoscore.adapters.files.interaction.signals import Token
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.domain.interaction.names import command_token
from chaoscore.domain.interaction.states import SESSION_TERMINAL

_VERSION = 2
_TERMINAL = ", ".join(f"'{state}'" for state in sorted(SESSION_TERMINAL))
_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
  name TEXT PRIMARY KEY, state TEXT, change_id TEXT, source_command TEXT, command TEXT, last_seen TEXT,
  inode INTEGER, size INTEGER, mtime INTEGER, fault TEXT) WITHOUT ROWID;
CREATE INDEX sessions_unfinished ON sessions (state) WHERE state NOT IN ({_TERMINAL});
CREATE INDEX sessions_seen ON sessions (last_seen, name);
CREATE INDEX sessions_change ON sessions (change_id, last_seen, name);
CREATE INDEX sessions_command ON sessions (command, last_seen, name);
CREATE INDEX sessions_fault ON sessions (name) WHERE fault IS NOT NULL;
CREATE TABLE decisions (
  name TEXT PRIMARY KEY, state TEXT, run TEXT, change_id TEXT,
  inode INTEGER, size INTEGER, mtime INTEGER, fault TEXT) WITHOUT ROWID;
CREATE INDEX decisions_waiting ON decisions (state) WHERE state IN ('waiting', 'created');
CREATE INDEX decisions_run ON decisions (run);
CREATE INDEX decisions_fault ON decisions (name) WHERE fault IS NOT NULL;
CREATE TABLE capsules (
  name TEXT PRIMARY KEY, change_id TEXT, updated_at TEXT,
  inode INTEGER, size INTEGER, mtime INTEGER, fault TEXT) WITHOUT ROWID;
CREATE INDEX capsules_updated ON capsules (updated_at, name || '.json');
CREATE INDEX capsules_change ON capsules (change_id, updated_at, name || '.json');
CREATE INDEX capsules_fault ON capsules (name) WHERE fault IS NOT NULL;
CREATE TABLE counts (kind TEXT PRIMARY KEY, rows INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counts VALUES ('sessions', 0), ('decisions', 0), ('capsules', 0);
""" + "".join(
    f"CREATE TRIGGER {kind}_{name} AFTER {event} ON {kind} "
    f"BEGIN UPDATE counts SET rows = rows {step} WHERE kind = '{kind}'; END;"
    for kind in ("sessions", "decisions", "capsules")
    for name, event, step in (("in", "INSERT", "+ 1"), ("out", "DELETE", "- 1"))
)
Row = tuple[f.Facts | None, f.Version, str | None]


def index_path(cache_dir: Path, root: str) -> Path:
    """One file per folder: by its real path and inode, so that a folder put in its place gets its own."""
    real = os.path.realpath(root)
    key = f"{real}\0{os.stat(real).st_ino}"
    return cache_dir / f"interactions-{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.sqlite"


def remove_index(cache_dir: Path, root: str) -> None:
    """A process that still has it open goes on with the deleted file and notices by the token."""
    path = index_path(cache_dir, root)
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{suffix}")


class IndexDb:
    """Raises ``sqlite3.Error`` for anything wrong with the cache; the caller makes it anew or does without."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path
        self._db = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA busy_timeout=5000")
        self._db.execute("PRAGMA page_size=1024")  # a call touches many pages and changes little of each
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.execute("PRAGMA cache_size=-1024")
        if self._version() == _VERSION:  # a look in the background takes no turn from writers
            return
        with self.transaction():
            if self._version() != _VERSION:
                for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                    self._db.execute(f"DROP TABLE {name}")
                for statement in _statements(_SCHEMA):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version={_VERSION}")

    def _version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def token(self) -> Token | None:
        """``None`` when nothing was ever built."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'token'").fetchone()
        return Token.from_json(json.loads(row[0])) if row is not None else None

    def set_token(self, token: Token) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES ('token', ?)", (json.dumps(token.to_json()),))

    def put(self, kind: f.Kind, name: str, row: Row) -> None:
        facts, version, fault = row
        stamp = (version.inode, version.size, version.mtime, fault)
        values: tuple[object, ...]
        if kind == "sessions":
            s = facts if isinstance(facts, f.SessionFacts) else None
            values = (s.state, s.change_id, s.source_command, s.command, s.last_seen_at) if s else (None,) * 5
        elif kind == "decisions":
            d = facts if isinstance(facts, f.DecisionFacts) else None
            values = (d.state, d.run, d.change_id) if d else (None,) * 3
        else:
            c = facts if isinstance(facts, f.CapsuleFacts) else None
            values = (c.change_id, c.updated_at) if c else (None,) * 2
        columns = {
            "sessions": "state, change_id, source_command, command, last_seen",
            "decisions": "state, run, change_id",
            "capsules": "change_id, updated_at",
        }[kind]
        names = [*columns.split(", "), "inode", "size", "mtime", "fault"]
        marks = ", ".join("?" * (len(names) + 1))
        updates = ", ".join(f"{name} = excluded.{name}" for name in names)
        self._db.execute(
            f"INSERT INTO {kind} (name, {columns}, inode, size, mtime, fault) VALUES ({marks}) "
            f"ON CONFLICT (name) DO UPDATE SET {updates}",
            (name, *values, *stamp),
        )

    def drop(self, kind: f.Kind, name: str) -> None:
        self._db.execute(f"DELETE FROM {kind} WHERE name = ?", (name,))

    def versions(self, kind: f.Kind) -> Iterator[tuple[str, f.Version]]:
        """Ascending by name. Nothing may be changed before it is at its end."""
        for name, *version in self._db.execute(f"SELECT name, inode, size, mtime FROM {kind} ORDER BY name"):
            yield name, f.Version(*version)

    def version(self, kind: f.Kind, name: str) -> f.Version | None:
        row = self._db.execute(f"SELECT inode, size, mtime FROM {kind} WHERE name = ?", (name,)).fetchone()
        return f.Version(*row) if row is not None else None

    def count(self, *kinds: f.Kind) -> int:
        rows = dict(self._db.execute("SELECT kind, rows FROM counts").fetchall())
        return sum(int(rows[kind]) for kind in kinds)

    def unfinished_runs(self) -> list[str]:
        query = f"SELECT name FROM sessions WHERE state NOT IN ({_TERMINAL})"
        return [name for (name,) in self._db.execute(query)]

    def unsettled_runs(self) -> list[str]:
        faulty = self._db.execute("SELECT name FROM sessions WHERE fault IS NOT NULL")
        return [*self.unfinished_runs(), *(name for (name,) in faulty)]

    def waiting_decisions(self) -> list[str]:
        query = "SELECT name FROM decisions WHERE state IN ('waiting', 'created')"
        return [name for (name,) in self._db.execute(query)]

    def unfinished_versions(self, kind: f.Kind) -> list[tuple[str, int, int, int]]:
        """Name, inode, size and mtime of every unfinished document of ``sessions`` or ``decisions``."""
        where = f"state NOT IN ({_TERMINAL})" if kind == "sessions" else "state IN ('waiting', 'created')"
        return self._db.execute(f"SELECT name, inode, size, mtime FROM {kind} WHERE {where}").fetchall()

    def in_state(self, kind: f.Kind, state: str) -> list[str]:
        """An unfinished state of ``sessions`` or ``decisions``: the index of those is asked alone."""
        where = f"state NOT IN ({_TERMINAL})" if kind == "sessions" else "state IN ('waiting', 'created')"
        return [name for (name,) in self._db.execute(f"SELECT name FROM {kind} WHERE state = ? AND {where}", (state,))]

    def decisions_of(self, run: str) -> list[str]:
        return [name for (name,) in self._db.execute("SELECT name FROM decisions WHERE run = ?", (run,))]

    def faults(self, kind: f.Kind) -> list[str]:
        query = f"SELECT fault FROM {kind} WHERE fault IS NOT NULL ORDER BY name LIMIT 100"
        return [fault for (fault,) in self._db.execute(query)]

    def find_sessions(self, wanted: SessionFilter, limit: int, cursor: str | None) -> f.Found:
        clauses, values = ["state IS NOT NULL"], list[object]()
        for clause, value in (
            ("change_id = ?", wanted.change_id),
            ("state = ?", wanted.state),
            ("command = ?", command_token(wanted.command) if wanted.command else None),
            ("state = ?", "ready-to-resume" if wanted.ready_only else None),
        ):
            if value:
                clauses.append(clause)
                values.append(value)
        where = " AND ".join(clauses)
        if values:
            total = self._db.execute(f"SELECT count(*) FROM sessions WHERE {where}", values).fetchone()[0]
        else:
            total = self.count("sessions") - len(self.faults("sessions"))
        if cursor is not None:
            where += " AND (last_seen, name) < (?, ?)"
            values.extend(f.cursor_parts(cursor))
        rows = self._db.execute(
            f"SELECT name, last_seen FROM sessions WHERE {where} ORDER BY last_seen DESC, name DESC LIMIT ?",
            [*values, limit + 1],
        ).fetchall()
        page = rows[:limit]
        more = f.cursor_of(page[-1][1], page[-1][0]) if len(rows) > limit else None
        return f.Found(tuple(name for name, _ in page), total, more)

    def find_capsules(self, change_id: str | None, limit: int) -> list[str]:
        clause, values = ("AND change_id = ? ", [change_id]) if change_id else ("", [])
        rows = self._db.execute(
            f"SELECT name FROM capsules WHERE updated_at IS NOT NULL {clause}"
            f"ORDER BY updated_at DESC, name || '.json' DESC LIMIT ?",
            [*values, limit],
        )
        return [name for (name,) in rows]

    def contents(self) -> tuple[Sequence[f.SessionFacts], Sequence[f.DecisionFacts]]:
        sessions = self._db.execute(
            "SELECT name, state, change_id, source_command, command, last_seen FROM sessions WHERE state IS NOT NULL "
            "ORDER BY name || '.json'"
        )
        decisions = self._db.execute(
            "SELECT name, state, run, change_id FROM decisions WHERE state IS NOT NULL ORDER BY name"
        )
        return [f.SessionFacts(*row) for row in sessions], [f.DecisionFacts(*row) for row in decisions]


def _statements(script: str) -> list[str]:
    """Split at the ends of statements; a trigger ends with ``END;``."""
    out, current = [], ""
    for part in script.split(";"):
        current += part
        if sqlite3.complete_statement(current + ";"):
            if current.strip():
                out.append(current + ";")
            current = ""
        else:
            current += ";"
    return out
