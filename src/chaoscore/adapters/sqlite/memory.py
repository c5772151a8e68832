"""``MemoryStore``: values under keys, with their history, found by key, tags and text.

An expired memory is as good as gone: not returned, replaced as if it had never been, and deleted in small batches by
``sweep`` and along with writes. ``recall`` finds; ``search_text`` says what the index holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from chaoscore.adapters.sqlite.chain import Chain
from chaoscore.adapters.sqlite.codec import encode
from chaoscore.adapters.sqlite.database import Database, Transaction
from chaoscore.adapters.sqlite.memory_index import MemoryIndex
from chaoscore.adapters.sqlite.memory_rows import COLUMNS, memory_of, readable, text_of
from chaoscore.adapters.sqlite.recall import Search, by_age, cursor_to, place_from
from chaoscore.adapters.sqlite.rows import Row
from chaoscore.adapters.sqlite.search_text import asked, needles, searched_text, words
from chaoscore.app.ports import Clock
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import Conflict, InvalidInput
from chaoscore.domain.memory import LIMIT_MAX, Memory, NewMemory, RecallQuery, Recollection

SWEPT_PER_WRITE_MAX = 2
SWEPT_AT_ONCE_MAX = 500

_BY_KEY = f"SELECT {COLUMNS}, id, indexed FROM memories WHERE namespace = ? AND key = ?"  # noqa: S608
_HISTORY = (
    f"SELECT {COLUMNS} FROM memory_history"  # noqa: S608
    " WHERE namespace = ? AND key = ? ORDER BY version DESC LIMIT ?"
)
_INSERT = (
    f"INSERT INTO memories (namespace, indexed, {COLUMNS})"  # noqa: S608
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_KEEP = (
    f"INSERT INTO memory_history (namespace, {COLUMNS})"  # noqa: S608
    f" SELECT namespace, {COLUMNS} FROM memories WHERE id = ?"
)
_DELETE = "DELETE FROM memories WHERE id = ?"
_FORGET_HISTORY = "DELETE FROM memory_history WHERE namespace = ? AND key = ?"
_EXPIRED = (
    f"SELECT {COLUMNS}, id, indexed, namespace FROM memories"  # noqa: S608
    " WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"
)
_NOTHING = Recollection(())
_ANY_EXPIRED = "SELECT 1 FROM memories WHERE expires_at <= ? LIMIT 1"


class SqliteMemoryStore:
    def __init__(self, database: Database, chain: Chain, clock: Clock, index: MemoryIndex) -> None:
        self._database = database
        self._chain = chain
        self._clock = clock
        self._index = index

    # -- writing ---------------------------------------------------------------------------------------------

    async def put(self, namespace: str, memory: NewMemory, now: float, events: Sequence[AuditEvent]) -> Memory:
        memory = memory.validated()
        value = encode(memory.value)
        terms = self._index.terms(namespace, memory.tags, searched_text(memory.key, memory.tags, value))
        expires = now + memory.ttl_seconds if memory.ttl_seconds is not None else None
        new = self._chain.entries(events)

        def work(transaction: Transaction) -> Memory:
            row = transaction.execute(_BY_KEY, (namespace, memory.key)).fetchone()
            if row is not None and _is_over(row, now):
                self._remove(transaction, namespace, row, with_history=True)
                row = None
            current = memory_of(row[:-2]) if row is not None else None
            self._check_version(memory, current)
            if row is not None:
                transaction.execute(_KEEP, (row[-2],))
                self._remove(transaction, namespace, row, with_history=False)
            written = Memory(
                key=memory.key,
                value=memory.value,
                tags=memory.tags,
                version=current.version + 1 if current is not None else 1,
                created_at=current.created_at if current is not None else now,
                updated_at=now,
                expires_at=expires,
                kind=memory.kind,
                source=memory.source,
                trust=memory.trust,
            )
            self._insert(transaction, namespace, written, value, terms)
            self._sweep(transaction, now, SWEPT_PER_WRITE_MAX)
            self._chain.append(transaction, new)
            return written

        written = await self._database.write(work)
        self._database.wrote((namespace, memory.key))
        return written

    async def forget(self, namespace: str, key: str, now: float, events: Sequence[AuditEvent]) -> bool:
        _check_text(key, "key")
        new = self._chain.entries(events)

        def work(transaction: Transaction) -> bool:
            row = transaction.execute(_BY_KEY, (namespace, key)).fetchone()
            if row is None:
                return False
            there = not _is_over(row, now)
            self._remove(transaction, namespace, row, with_history=True)
            self._index.mark_forgotten(transaction)
            if there:
                self._chain.append(transaction, new)
            return there

        return await self._database.write(work)

    async def sweep(self, now: float, limit: int) -> int:
        """Also lets go of what the index still remembers of forgotten memories, a bounded number of pages at a time."""
        limit = max(0, min(limit, SWEPT_AT_ONCE_MAX))

        def look(connection: sqlite3.Connection) -> bool:
            expired = connection.execute(_ANY_EXPIRED, (now,)).fetchone() is not None
            return expired or self._index.has_leftovers(connection)

        def work(transaction: Transaction) -> int:
            count = self._sweep(transaction, now, limit)
            self._index.tidy(transaction)
            return count

        return await self._database.write(work) if await self._database.read(look) else 0

    def _check_version(self, memory: NewMemory, current: Memory | None) -> None:
        version = current.version if current is not None else 0
        if memory.expect_version is None or memory.expect_version == version:
            return
        raise Conflict(
            f"memory {memory.key!r} is at version {version}, not {memory.expect_version}; "
            "read it again and decide on what it says now",
            version=version,
            current=current.to_json() if current is not None else None,
        )

    def _insert(self, transaction: Transaction, namespace: str, memory: Memory, value: str, terms: str | None) -> None:
        cursor = transaction.execute(
            _INSERT,
            (
                namespace,
                int(terms is not None),
                memory.key,
                value,
                encode(memory.tags),
                memory.version,
                memory.created_at,
                memory.updated_at,
                memory.expires_at,
                memory.kind,
                memory.source,
                memory.trust,
                memory.episode,
                memory.valid_from,
                memory.valid_to,
            ),
        )
        if terms is not None:
            self._index.add(transaction, cursor.lastrowid, terms)

    def _remove(self, transaction: Transaction, namespace: str, row: Row, *, with_history: bool) -> None:
        """``row`` is {``COLUMNS``, id, indexed, …}."""
        key, row_id, indexed = row[0], row[len(row) - 2], row[len(row) - 1]
        if indexed:
            tags, text = text_of(row)
            self._index.remove(transaction, row_id, namespace, tags, text)
        transaction.execute(_DELETE, (row_id,))
        if with_history:
            transaction.execute(_FORGET_HISTORY, (namespace, key))

    def _sweep(self, transaction: Transaction, now: float, limit: int) -> int:
        rows = transaction.execute(_EXPIRED, (now, limit)).fetchall()
        for row in rows:
            self._remove(transaction, row[-1], row[:-1], with_history=True)
        return len(rows)

    # -- reading ---------------------------------------------------------------------------------------------

    async def recall(self, namespace: str, query: RecallQuery, now: float) -> Recollection:
        limit = max(1, min(query.limit, LIMIT_MAX))
        if query.key is not None:
            return await self._by_key(namespace, query.key, query, now)
        text = query.text if query.text is not None and query.text.strip() else None
        question = ["memories", namespace, text, list(query.tags)]
        place = place_from(question, query.cursor)

        def work(connection: sqlite3.Connection) -> Recollection:
            connection.execute("BEGIN")  # index and rows as of one moment
            full_text = self._index.is_there
            if text is None:
                rows, on = by_age(connection, namespace, query.tags, now, limit, place, full_text=full_text)
            else:
                search = Search(connection, namespace, text, query.tags, now, full_text=full_text)
                matches, on = search.page(limit, place)
                rows = [match.row for match in matches]
            connection.execute("COMMIT")
            return Recollection(tuple(readable([row[2:] for row in rows])), cursor_to(question, on))

        return await self._database.read(work)

    async def _by_key(self, namespace: str, key: str, query: RecallQuery, now: float) -> Recollection:
        _check_text(key, "key")

        def fetch(connection: sqlite3.Connection) -> Row | None:
            row: Row | None = connection.execute(_BY_KEY, (namespace, key)).fetchone()
            return row

        def judge(row: Row | None) -> Recollection:
            if row is None or _is_over(row, now):
                return _NOTHING
            memory = memory_of(row[:-2])
            fits = not query.tags or set(query.tags) <= set(memory.tags)
            return Recollection((memory,)) if fits and _holds(row, query.text) else _NOTHING

        if query.text is not None:  # taking a long text apart is no work for the loop
            return await self._database.read(lambda connection: judge(fetch(connection)))
        return await self._database.read_row((namespace, key), fetch, judge)

    async def history(self, namespace: str, key: str, limit: int) -> tuple[Memory, ...]:
        _check_text(key, "key")
        limit, now = max(1, min(limit, LIMIT_MAX)), self._clock.now()

        def work(connection: sqlite3.Connection) -> tuple[Memory, ...]:
            current = connection.execute(_BY_KEY, (namespace, key)).fetchone()
            if current is None or _is_over(current, now):
                return ()
            return tuple(readable(connection.execute(_HISTORY, (namespace, key, limit)).fetchall()))

        return await self._database.read(work)


def _holds(row: Row, text: str | None) -> bool:
    wanted = asked(text) if text is not None else ""
    if not wanted:
        return True
    there = text_of(row)[1]
    return any(needle in there for needle in needles(wanted)) or set(words(there)).issuperset(words(wanted) or [""])


def _is_over(row: Row, now: float) -> bool:
    expires = row[6]
    return isinstance(expires, float) and expires <= now


def _check_text(text: str, name: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} is not Unicode text: it holds a lone surrogate", key=name) from None
