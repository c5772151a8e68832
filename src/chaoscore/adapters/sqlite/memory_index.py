"""The full-text index of memories: postings of terms, kept in the transaction of the row they belong to.

A SQLite without FTS5 leaves rows unmarked (``indexed`` 0); whoever searches with FTS5 later looks at those one by one,
and writes of theirs put them right. Row ids are never used twice, so postings that were left behind find nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from chaoscore.adapters.sqlite.database import Transaction
from chaoscore.adapters.sqlite.schema import has_fts5
from chaoscore.adapters.sqlite.search_text import terms_of

TIDY_PAGES = 64

_ADD = "INSERT INTO memory_index (rowid, tokens) VALUES (?, ?)"
_REMOVE = "INSERT INTO memory_index (memory_index, rowid, tokens) VALUES ('delete', ?, ?)"
_MERGE = "INSERT INTO memory_index (memory_index, rank) VALUES ('merge', ?)"
_LEFTOVERS = "memory_index_leftovers"


class MemoryIndex:
    """``is_there``: this process has FTS5 and the database has the table."""

    def __init__(self, *, is_there: bool) -> None:
        self.is_there = is_there

    @classmethod
    def of(cls, connection: sqlite3.Connection, wanted: bool | None) -> MemoryIndex:
        """``wanted`` false does without it."""
        table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'memory_index'").fetchone()
        return cls(is_there=wanted is not False and table is not None and has_fts5(connection))

    def terms(self, namespace: str, tags: Iterable[str], text: str) -> str | None:
        """Worked out before any lock is held; ``None`` where nothing can be indexed."""
        return terms_of(namespace, tags, text) if self.is_there else None

    def add(self, transaction: Transaction, row_id: object, terms: str) -> None:
        transaction.execute(_ADD, (row_id, terms))

    def remove(self, transaction: Transaction, row_id: object, namespace: str, tags: Iterable[str], text: str) -> None:
        if self.is_there:
            transaction.execute(_REMOVE, (row_id, terms_of(namespace, tags, text)))

    # -- forgetting for good ---------------------------------------------------------------------------------

    def mark_forgotten(self, transaction: Transaction) -> None:
        """A removed posting only vanishes when its part of the index is merged: remember to see to it."""
        if self.is_there:
            transaction.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, 'begin')", (_LEFTOVERS,))

    def has_leftovers(self, connection: sqlite3.Connection) -> bool:
        row = connection.execute("SELECT 1 FROM facts WHERE name = ?", (_LEFTOVERS,)).fetchone()
        return self.is_there and row is not None

    def tidy(self, transaction: Transaction) -> None:
        """Merge a bounded number of pages; when nothing is left to merge, nothing forgotten is left either."""
        row = transaction.execute("SELECT value FROM facts WHERE name = ?", (_LEFTOVERS,)).fetchone()
        if row is None or not self.is_there:
            return
        before = _changes(transaction)
        transaction.execute(_MERGE, (-TIDY_PAGES if row[0] == "begin" else TIDY_PAGES,))
        if _changes(transaction) - before < 2:
            transaction.execute("DELETE FROM facts WHERE name = ?", (_LEFTOVERS,))
        elif row[0] == "begin":
            transaction.execute("UPDATE facts SET value = 'merging' WHERE name = ?", (_LEFTOVERS,))


def _changes(transaction: Transaction) -> int:
    return int(transaction.execute("SELECT total_changes()").fetchone()[0])
