"""Finding the events of a run or a principal without an index that every commit would have to keep.

Two narrow tables list which events are whose. They are filled ``EVENTS_AT_ONCE`` at a time by the write that crosses
the mark; what came after the last mark is few, and is looked at one by one. (Measured: two pages less per commit, about
seven microseconds of a hundred.) The tables only help to find: nothing is true because they say so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

EVENTS_AT_ONCE = 256

_MARK = "audit_listed"
_GET_MARK = "SELECT CAST(value AS INTEGER) FROM facts WHERE name = ?"
_SET_MARK = "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)"
_LIST_RUNS = (
    "INSERT OR IGNORE INTO audit_by_run (run, seq)"
    " SELECT run, seq FROM audit WHERE seq > ? AND seq <= ? AND run IS NOT NULL ORDER BY run, seq"
)
_LIST_PRINCIPALS = (
    "INSERT OR IGNORE INTO audit_by_principal (principal, seq)"
    " SELECT principal, seq FROM audit WHERE seq > ? AND seq <= ? ORDER BY principal, seq"
)
_ALL = "SELECT seq, body FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?"
_RECENT = (
    "SELECT seq, body FROM audit WHERE seq < ?1 AND seq > ?2"
    " AND (?3 IS NULL OR principal = ?3) AND (?4 IS NULL OR run = ?4) ORDER BY seq DESC LIMIT ?5"
)
_OF_RUN = (
    "SELECT audit.seq, audit.body FROM audit_by_run AS listed JOIN audit ON audit.seq = listed.seq"
    " WHERE listed.run = ?1 AND listed.seq < ?2 AND (?3 IS NULL OR audit.principal = ?3)"
    " ORDER BY listed.seq DESC LIMIT ?4"
)
_OF_PRINCIPAL = (
    "SELECT audit.seq, audit.body FROM audit_by_principal AS listed JOIN audit ON audit.seq = listed.seq"
    " WHERE listed.principal = ? AND listed.seq < ? ORDER BY listed.seq DESC LIMIT ?"
)


def note_written(execute: Callable[..., sqlite3.Cursor], before: int, after: int) -> None:
    """Events ``before + 1`` to ``after`` were written in this transaction."""
    if before // EVENTS_AT_ONCE == after // EVENTS_AT_ONCE:
        return
    listed = _mark(execute)
    execute(_LIST_RUNS, (listed, after))
    execute(_LIST_PRINCIPALS, (listed, after))
    execute(_SET_MARK, (_MARK, str(after)))


def newest_events(
    connection: sqlite3.Connection, principal: str | None, run: str | None, limit: int, below: int
) -> list[tuple[int, object]]:
    """{seq, body} of those that are of the principal and of the run, where one is named; newest first."""
    execute = connection.execute
    if principal is None and run is None:
        return execute(_ALL, (below, limit)).fetchall()
    listed = _mark(execute)
    found: list[tuple[int, object]] = execute(_RECENT, (below, listed, principal, run, limit)).fetchall()
    below, room = min(below, listed + 1), limit - len(found)
    if room > 0 and run is not None:
        found += execute(_OF_RUN, (run, below, principal, room)).fetchall()
    elif room > 0:
        found += execute(_OF_PRINCIPAL, (principal, below, room)).fetchall()
    return found


def _mark(execute: Callable[..., sqlite3.Cursor]) -> int:
    row = execute(_GET_MARK, (_MARK,)).fetchone()
    return int(row[0]) if row is not None else 0
