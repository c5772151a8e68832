"""``AuditStore``: the chained table, read and verified. Appending goes through ``Chain``, also from the other stores,
which put their events into the transaction of the state change.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from json.encoder import encode_basestring

from chaoscore.adapters.sqlite.audit_finder import newest_events
from chaoscore.adapters.sqlite.chain import Chain, Entry
from chaoscore.adapters.sqlite.codec import MalformedText, decode_object, encode
from chaoscore.adapters.sqlite.database import Database, Transaction
from chaoscore.adapters.sqlite.failures import translate
from chaoscore.adapters.sqlite.opening import Opening
from chaoscore.domain.audit import GENESIS, AuditEvent, ChainedEvent, ChainReport, Checkpoint, verify_chain
from chaoscore.domain.errors import StorageError
from chaoscore.domain.json import Json, JsonObject, canonical_text, is_array, is_object
from chaoscore.domain.principal import Principal
from chaoscore.domain.redaction import Redactor

PREVIEW_CHARS_MAX = 160
TAIL_MAX = 1_000
VERIFY_EVENTS_AT_ONCE = 500

_TEXT_CHARS_MAX = 60
_TEXT_LOOKED_AT_MAX = 2_048
_MEMBERS_MAX = 8
_DEPTH_MAX = 3
_CREDENTIAL = re.compile(r"\b(plan|run)_[A-Za-z0-9_-]{16,}")
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|secret|token|api_?-?key|authorization|credential|cookie", re.IGNORECASE
)


class SqliteAuditStore:
    def __init__(self, database: Database, opening: Opening, chain: Chain, redactor: Redactor) -> None:
        self._database = database
        self._opening = opening
        self._chain = chain
        self._redactor = redactor

    async def append(self, events: Sequence[AuditEvent]) -> None:
        new = self._chain.entries(events)

        def work(transaction: Transaction) -> None:
            self._chain.append(transaction, new)

        if new:
            await self._database.write(work)

    async def tail(
        self, principal: Principal | None, run: str | None, limit: int, before: int | None
    ) -> tuple[tuple[int, JsonObject], ...]:
        """Newest first. All anonymous callers are one principal here, so one of them sees only the events of a run,
        whose id it showed to the caller of this."""
        if principal is not None and principal.is_anonymous and run is None:
            return ()
        limit = max(1, min(limit, TAIL_MAX))
        below = before if before is not None else 2**62
        name = principal.key if principal is not None else None

        def work(connection: sqlite3.Connection) -> tuple[tuple[int, JsonObject], ...]:
            connection.execute("BEGIN")
            rows = newest_events(connection, name, run, limit, below)
            connection.execute("COMMIT")
            return tuple((seq, _shown(body)) for seq, body in rows)

        return await self._database.read(work)

    async def verify(self, progress: Callable[[int], None] | None = None) -> ChainReport:
        """Over a connection of its own, so that a long chain holds up nobody. Raises ``StorageError``."""
        return await asyncio.to_thread(self._verify, progress)

    def redact(self, value: Json) -> JsonObject:
        keyed = self._chain.keyed.copy()
        keyed.update(canonical_text(value).encode("ascii"))
        return {"digest": keyed.hexdigest(), "preview": preview(value, self._redactor)}

    def _verify(self, progress: Callable[[int], None] | None) -> ChainReport:
        try:
            # The head first: the chain may grow meanwhile, and must then still contain it.
            head = self._chain.read_head()
            connection = self._opening.reader()
            connection.text_factory = any_text
            try:
                return self._walk(connection, head, progress)
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise translate(error, self._opening.path) from None

    def _walk(
        self, connection: sqlite3.Connection, head: Checkpoint | None, progress: Callable[[int], None] | None
    ) -> ChainReport:
        try:
            key = self._chain.key_of(connection.execute)
        except StorageError as problem:
            count = int(connection.execute("SELECT count(*) FROM audit").fetchone()[0])
            return ChainReport(count, Checkpoint(0, GENESIS), problem.message, 1)
        events = chained_events(connection)
        report = verify_chain(key, events if progress is None else _told(events, progress), head)
        if report.fault is None and head is None:
            fault = (
                f"the checkpoint {str(self._chain.head_path)!r} is missing or is none: nobody can tell what was cut off"
            )
            return replace(report, fault=fault, at=report.events + 1)
        return report


def preview(value: Json, redactor: Redactor) -> str:
    """A value as one short line without secrets: shape and beginning, never the whole of something long."""
    text = _clean(_brief(value, redactor, _DEPTH_MAX), redactor)
    return text if len(text) <= PREVIEW_CHARS_MAX else text[: PREVIEW_CHARS_MAX - 1] + "…"


def _brief(value: Json, redactor: Redactor, depth: int) -> str:
    """What is cut here is redacted first, so that no part of a secret is left; the rest is, once, by ``preview``."""
    if isinstance(value, str):
        if len(value) > _TEXT_CHARS_MAX:
            value = _clean(value[:_TEXT_LOOKED_AT_MAX], redactor)
        return encode_basestring(value if len(value) <= _TEXT_CHARS_MAX else value[: _TEXT_CHARS_MAX - 1] + "…")
    if isinstance(value, dict) or is_object(value):
        if depth == 0:
            return f"{{{len(value)} keys}}"
        shown = []
        for key in islice(value, _MEMBERS_MAX):
            member = value[key]
            secret = isinstance(member, str) and _SECRET_NAME.search(key) is not None
            inner = '"[redacted]"' if secret else _brief(member, redactor, depth - 1)
            shown.append(f"{_brief(key, redactor, 0)}: {inner}")
        return "{" + ", ".join(shown + ["…"] * (len(value) > _MEMBERS_MAX)) + "}"
    if is_array(value):
        if depth == 0:
            return f"[{len(value)} elements]"
        parts = [_brief(element, redactor, depth - 1) for element in value[:_MEMBERS_MAX]]
        return "[" + ", ".join(parts + ["…"] * (len(value) > _MEMBERS_MAX)) + "]"
    return json.dumps(value) if not isinstance(value, int) or value.bit_length() < 1024 else "a very long integer"


def _clean(text: str, redactor: Redactor) -> str:
    text = redactor.text(text)
    return _CREDENTIAL.sub(r"\1_[redacted]", text) if "plan_" in text or "run_" in text else text


_SHAPE: dict[str, Json] = {
    "kind": None,
    "at": None,
    "principal": None,
    "connection": None,
    "plan": None,
    "run": None,
    "step": None,
    "item": None,
    "data": {},
}


def _shown(body: object) -> JsonObject:
    try:
        return {**_SHAPE, **decode_object(body)}
    except MalformedText:
        return {
            **_SHAPE,
            "kind": "malformed",
            "data": {"problem": "this event's row cannot be read; audit verify tells"},
        }


def chained_events(connection: sqlite3.Connection) -> Iterator[ChainedEvent]:
    """All events in order, a bounded number in memory. Read in pieces: a chain only ever grows at its end."""
    last = -(2**62)
    while True:
        rows = connection.execute(
            "SELECT seq, principal, run, body, mac FROM audit WHERE seq > ? ORDER BY seq LIMIT ?",
            (last, VERIFY_EVENTS_AT_ONCE),
        ).fetchall()
        if not rows:
            return
        for seq, principal, run, body, mac in rows:
            yield _linked(seq, Entry(principal, run, body), mac if isinstance(mac, str) else "")
        last = rows[-1][0]


def _told(events: Iterator[ChainedEvent], progress: Callable[[int], None]) -> Iterator[ChainedEvent]:
    for number, event in enumerate(events):
        if number % VERIFY_EVENTS_AT_ONCE == 0:
            progress(number)
        yield event


def any_text(raw: bytes) -> str:
    """Text that is not UTF-8 was written by somebody else, and must read as something that no link fits."""
    return raw.decode("utf-8", "backslashreplace")


def _linked(seq: int, entry: Entry, mac: str) -> ChainedEvent:
    """An event with the body that its link must fit. Columns only help to find events: where they say something else
    than the body, somebody wrote them, and no link fits."""
    try:
        event = decode_object(entry.body)
    except MalformedText:
        return ChainedEvent(seq, f"not an event: {encode(str(entry.body))}", mac)
    if event.get("principal") != entry.principal or event.get("run") != entry.run:
        return ChainedEvent(seq, f"columns differ: {entry.body}", mac)
    return ChainedEvent(seq, entry.body, mac, event)
