"""What makes the audit's chain more than a table: the key and the newest head, both kept outside the database.

``audit.key`` (32 bytes, made once) keys every link, so that whoever can only write the database cannot
recompute it. ``audit.head`` holds the newest link, so that cut-off events are missed. The head is written after every
commit, still under the writers' lock, and goes forward only along the chain it already knows: a database that was
deleted, cut or replaced never becomes the truth by being written to.

The head costs one small write and no fsync, so two gaps stay open, and only these: after a crash between a commit and
its head, and after a power cut, the head may be a few events behind, and exactly those could be cut off unseen until
the next commit. Whoever can write the directory can put an older copy of database *and* head back; a copy of
``audit.head`` kept elsewhere finds that.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from chaoscore.adapters.sqlite.audit_finder import note_written
from chaoscore.adapters.sqlite.codec import encode_fact
from chaoscore.adapters.sqlite.database import Transaction
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.app.ports import Ids
from chaoscore.domain.audit import GENESIS, AuditEvent, Checkpoint, redacted
from chaoscore.domain.errors import StorageError
from chaoscore.domain.json import Json
from chaoscore.domain.redaction import Redactor

KEY_NAME = "audit.key"
HEAD_NAME = "audit.head"
KEY_BYTES = 32
_HEAD = re.compile(rb"([0-9]{20}) ([0-9a-f]{64})\n")
_HEAD_BYTES = 20 + 1 + 64 + 1
_KEY_FACT = "audit_key"
_INSERT = "INSERT INTO audit (seq, principal, run, body, mac) VALUES (?, ?, ?, ?, ?)"
_NEWEST = "SELECT seq, mac FROM audit ORDER BY seq DESC LIMIT 1"


Execute = Callable[..., sqlite3.Cursor]


class Entry(NamedTuple):
    """An event ready for its place in the chain."""

    principal: str
    run: str | None
    body: str


def _slim(event: AuditEvent) -> dict[str, Json]:
    """What an event says, without the places it leaves empty."""
    raw: dict[str, Json] = {"kind": event.kind, "at": event.at, "principal": event.principal}
    if event.connection is not None:
        raw["connection"] = event.connection
    if event.plan is not None:
        raw["plan"] = event.plan
    if event.run is not None:
        raw["run"] = event.run
    if event.step is not None:
        raw["step"] = event.step
    if event.item is not None:
        raw["item"] = event.item
    if event.data:
        raw["data"] = event.data
    return raw


class Chain:
    """Key, head and the one way to append. ``problem`` tells why nothing can be appended, ``None`` when it can."""

    def __init__(self, disk: Disk, directory: Path, ids: Ids, redactor: Redactor | None = None) -> None:
        self.key_path = directory / KEY_NAME
        self.head_path = directory / HEAD_NAME
        self._disk = disk
        self._ids = ids
        self._redactor = redactor or Redactor()
        self.problem: StorageError | None = None
        self._keyed: hmac.HMAC | None = None
        self._head_file: int | None = None
        self._last: Checkpoint | None = None

    # -- making and loading ----------------------------------------------------------------------------------

    def prelude(self) -> None:
        """Beside a database that is yet to be made: key and head, where they are missing. A head that is there stays:
        it knows of a database that was here before."""
        key = hashlib.sha256(self._ids.credential("audit").encode("utf-8")).digest()
        self._disk.create_with(self.key_path, key)
        self._disk.create_with(self.head_path, _head_line(Checkpoint(0, GENESIS)))

    def first_rows(self, connection: sqlite3.Connection) -> None:
        fingerprint = _fingerprint(self.read_key())
        connection.execute("INSERT INTO facts (name, value) VALUES (?, ?)", (_KEY_FACT, fingerprint))

    def read_key(self) -> bytes:
        """Raises ``StorageError`` when the file is missing or is no key."""
        try:
            file = self._disk.open(self.key_path, write=False)
        except FileNotFoundError:
            raise self._lost(f"{str(self.key_path)!r} is missing") from None
        try:
            key = self._disk.read(file, KEY_BYTES + 1)
        finally:
            self._disk.close(file)
        if len(key) != KEY_BYTES:
            raise self._lost(f"{str(self.key_path)!r} is not a key of {KEY_BYTES} bytes")
        return key

    def key_of(self, execute: Execute) -> bytes:
        """The key that this database's chain was begun with. Raises ``StorageError`` when it is not there now."""
        key = self.read_key()
        known = execute("SELECT value FROM facts WHERE name = ?", (_KEY_FACT,)).fetchone()
        if known is None or not hmac.compare_digest(str(known[0]), _fingerprint(key)):
            raise self._lost(f"{str(self.key_path)!r} is not the key that the audit was begun with")
        return key

    def load(self, execute: Execute) -> None:
        """Once, when the store is opened. What is wrong with the key is remembered and told to whoever needs it."""
        try:
            self._keyed = hmac.new(self.key_of(execute), digestmod="sha256")
        except StorageError as problem:
            self.problem = problem

    @property
    def keyed(self) -> hmac.HMAC:
        """HMAC-SHA256 under the key, to be copied and not to be fed. Raises ``StorageError`` when no key fits."""
        if self._keyed is None:
            raise self.problem or self._lost(f"{str(self.key_path)!r} was not read")
        return self._keyed

    def _lost(self, what: str) -> StorageError:
        return StorageError(
            f"{what}; put it back from a backup and restart: without it no event can be recorded, and nothing is done "
            "unrecorded",
            code="STORE_CORRUPT",
            path=str(self.key_path),
        )

    # -- appending -------------------------------------------------------------------------------------------

    def entries(self, events: Sequence[AuditEvent]) -> list[Entry]:
        """Written out before any lock is held, without secrets: every event of every kind passes here (law 10).

        Raises ``ValueError`` for what is not JSON.
        """
        return [Entry(event.principal, event.run, self._body(event)) for event in events]

    def _body(self, event: AuditEvent) -> str:
        body = encode_fact(_slim(event))
        if body.isascii() and self._redactor.finds_nothing_in(body):
            return body
        return encode_fact(_slim(redacted(event, self._redactor)))

    def append(self, transaction: Transaction, new: Sequence[Entry]) -> None:
        """Put events at the end of the chain, as part of the transaction."""
        if not new:
            return
        keyed, head = self.keyed, transaction.head
        if head is None:
            # The last one written here, unless another process has gone on since: then its place is taken already.
            head = transaction.base = self._last or _newest(transaction)
            try:
                self._extend(transaction, keyed, head, new)
                return
            except sqlite3.IntegrityError:
                head = transaction.base = _newest(transaction)
        self._extend(transaction, keyed, head, new)

    def _extend(self, transaction: Transaction, key: hmac.HMAC, head: Checkpoint, new: Sequence[Entry]) -> None:
        seq, mac = head.seq, head.mac
        rows = []
        for principal, run, body in new:
            seq, previous = seq + 1, mac
            keyed = key.copy()
            keyed.update(f"{previous}\n{seq}\n{body}".encode())
            mac = keyed.hexdigest()
            rows.append((seq, principal, run, body, mac))
        transaction.executemany(_INSERT, rows)
        transaction.head = Checkpoint(seq, mac)
        note_written(transaction.execute, head.seq, seq)

    # -- the head --------------------------------------------------------------------------------------------

    def committed(self, transaction: Transaction) -> None:
        """Move the head along, if it stood on this chain. Raises ``OSError`` or ``sqlite3.Error``."""
        head, base = transaction.head, transaction.base
        if head is None or base is None:
            return
        if self._head_file is None:
            try:
                self._head_file = self._disk.open(self.head_path)
            except FileNotFoundError:
                return  # never made anew: its absence is what tells that somebody took it away
        if base != self._last and not self._leads_to(transaction, base):
            return
        self._disk.write(self._head_file, _head_line(head))
        self._last = head

    def _leads_to(self, transaction: Transaction, base: Checkpoint) -> bool:
        """Whether the head outside stands on the chain that ``base`` ends."""
        assert self._head_file is not None
        known = _head_from(self._disk.read(self._head_file, _HEAD_BYTES + 1))
        if known is None or known.seq > base.seq:
            return False
        if known.seq == base.seq:
            return known.mac == base.mac
        if known.seq == 0:
            return known.mac == GENESIS
        row = transaction.execute("SELECT mac FROM audit WHERE seq = ?", (known.seq,)).fetchone()
        return row is not None and row[0] == known.mac

    def read_head(self) -> Checkpoint | None:
        """The head outside; ``None`` when the file is missing or is no head."""
        try:
            file = self._disk.open(self.head_path, write=False)
        except FileNotFoundError:
            return None
        try:
            return _head_from(self._disk.read(file, _HEAD_BYTES + 1))
        finally:
            self._disk.close(file)

    def accept(self, head: Checkpoint) -> None:
        """Make the head outside anew, on a person's word; the caller holds the writers' lock. Raises ``OSError``."""
        line = _head_line(head)
        if self._disk.create_with(self.head_path, line):
            return
        # In place: other processes hold this file open and go on along it.
        file = self._disk.open(self.head_path)
        try:
            self._disk.write(file, line)
            self._disk.truncate(file, len(line))
        finally:
            self._disk.close(file)

    def close(self) -> None:
        file, self._head_file = self._head_file, None
        if file is not None:
            with contextlib.suppress(OSError):
                self._disk.close(file)


def _newest(transaction: Transaction) -> Checkpoint:
    row = transaction.execute(_NEWEST).fetchone()
    return Checkpoint(row[0], row[1]) if row is not None else Checkpoint(0, GENESIS)


def _fingerprint(key: bytes) -> str:
    return hmac.new(key, b"chaoscore audit key", "sha256").hexdigest()


def _head_line(head: Checkpoint) -> bytes:
    return b"%020d %s\n" % (head.seq, head.mac.encode("ascii"))


def _head_from(line: bytes) -> Checkpoint | None:
    found = _HEAD.fullmatch(line)
    return Checkpoint(int(found[1]), found[2].decode("ascii")) if found else None
