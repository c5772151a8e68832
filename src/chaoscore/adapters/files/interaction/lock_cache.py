"""The lock table: every call reads it, few change it, and a peer that never prunes lets it grow with finished work.

So it is read piece by piece, one lock at a time, and never stands in memory as text; locks that were read or written
before are known by their text and are neither parsed nor spelled again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import TypeVar

from chaoscore.adapters.files.interaction.encoding import NotJson, loads, pretty
from chaoscore.adapters.files.interaction.fileops import Stat
from chaoscore.adapters.files.interaction.folder import TABLE_BYTES_MAX, Folder, malformed
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.fields import WrongShape
from chaoscore.domain.interaction.lock import Lock, LockTable
from chaoscore.domain.interaction.names import LOCKS_PATH
from chaoscore.domain.json import Json, is_object

T = TypeVar("T")
_YOUNG_NS = 20_000_000
_PIECE_BYTES_MAX = 1 << 20
_LONG_BYTES = 1 << 20
_REMEMBERED_MAX = 500
_HEAD = b'{\n  "schemaVersion": 1,\n  "locks": [\n    '
_PIECE_END = b"\n    }"
_BETWEEN = b",\n    {"
_TAIL = b"\n  ]"


class _OtherForm(Exception):
    """The file is not written as peers write it; the general parser reads it, whatever it is."""


class LockCache:
    """A file changed a moment ago is not remembered: time stamps are too coarse to tell two writes apart."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._stat: Stat | None = None
        self._table = LockTable()
        self._by_text: dict[bytes, Lock] = {}
        self._spelled: dict[int, tuple[Lock, bytes]] = {}
        self.file_bytes = 0
        """How large the file was when it was read last."""

    def prepare(self) -> None:
        """Read a table that takes long to read; called without the write lock. Never raises: ``table`` will."""
        with contextlib.suppress(ChaosError):
            stat = self._folder.stat(LOCKS_PATH)
            if stat is not None and stat.size > _LONG_BYTES:
                self.table()

    def table(self) -> LockTable:
        """Raises ``MalformedState``, ``StorageError``."""
        stat = self._folder.stat(LOCKS_PATH)
        if stat is not None and stat == self._stat:
            return self._table
        self._stat, self._table = None, LockTable()
        try:
            table = self._read() if stat is not None else LockTable()
        except WrongShape as error:
            raise malformed(LOCKS_PATH, str(error)) from None
        self.file_bytes = stat.size if stat is not None else 0
        if stat is not None and time.time_ns() - stat.mtime > _YOUNG_NS:
            self._stat, self._table = stat, table
        return table

    def spelled(self, table: LockTable) -> bytes:
        """The file that holds ``table``: what ``pretty`` makes of it. Raises as that does."""
        if not table.locks:
            return pretty(table.to_json())
        known, pieces = self._spelled, []
        spelled: dict[int, tuple[Lock, bytes]] = {}
        for lock in table.locks:
            entry = known.get(id(lock)) or (lock, _spell(lock))
            spelled[id(lock)] = entry  # holding the lock keeps its id its own
            pieces.append(entry[1])
        if len(pieces) <= _REMEMBERED_MAX:
            self._spelled = spelled
            self._by_text = {piece: lock for lock, piece in spelled.values()}
        frame = pretty({"schemaVersion": 1, "locks": [], "updatedAt": table.updated_at, **table.extra})
        before, empty, after = frame.partition(b'"locks": []')
        return b"".join((before, empty[:-1], b"\n    ", b",\n    ".join(pieces), _TAIL, after))

    def _read(self) -> LockTable:
        """Raises ``WrongShape``, ``MalformedState``, ``StorageError``."""
        reader, locks = _Locks(self._by_text), list[Lock]()
        blocks = self._folder.blocks(LOCKS_PATH, TABLE_BYTES_MAX)
        try:
            pieces = split(blocks)
            while True:
                try:
                    piece = next(pieces)
                except StopIteration as end:
                    frame: Json = end.value
                    break
                locks.append(reader.lock(piece))
        except (_OtherForm, NotJson):
            value = self._folder.load(LOCKS_PATH, TABLE_BYTES_MAX)
            return LockTable() if value is None else LockTable.from_json(value)
        finally:
            blocks.close()
        self._by_text = reader.met if len(locks) <= _REMEMBERED_MAX else {}
        return replace(LockTable.from_json(frame), locks=tuple(locks))


class _Locks:
    """Locks from their texts. Values that most of them share are kept once."""

    def __init__(self, known: dict[bytes, Lock]) -> None:
        self._known = known
        self._shared: dict[object, object] = {}
        self.met: dict[bytes, Lock] = {}

    def lock(self, piece: bytes) -> Lock:
        """Raises ``NotJson``, ``WrongShape``."""
        lock = self._known.get(piece)
        if lock is None:
            lock = Lock.from_json(loads(piece))
            lock = replace(
                lock,
                command=self._once(lock.command),
                reason=self._once(lock.reason),
                state=self._once(lock.state),
                compatible_commands=self._once(lock.compatible_commands),
                metadata=lock.metadata or _EMPTY,
                extra=lock.extra or _EMPTY,
            )
        if len(self.met) <= _REMEMBERED_MAX:
            self.met[piece] = lock
        return lock

    def _once(self, value: T) -> T:
        return self._shared.setdefault(value, value)  # type: ignore[return-value]


_EMPTY: dict[str, Json] = {}


def split(blocks: Iterable[bytes]) -> Generator[bytes, None, Json]:
    """The texts of the locks, one after the other; returns the table without its locks.

    JSON has no newline within a string, so that a newline and four spaces before a brace end a lock if the file is
    written as peers write it. Whoever parses each piece has parsed the file: pieces that are whole objects, in a frame
    that is a whole table, are the elements of its list. Raises ``_OtherForm`` for any other file, also after pieces.
    """
    rest, begun, source = b"", False, iter(blocks)
    for block in source:
        rest += block
        at = 0
        if not begun:
            if len(rest) < len(_HEAD) and _HEAD.startswith(rest):
                continue
            if not rest.startswith(_HEAD):
                raise _OtherForm
            begun, at = True, len(_HEAD)
        while (end := rest.find(_PIECE_END, at)) >= 0:
            stop = end + len(_PIECE_END)
            if stop + len(_BETWEEN) > len(rest):
                break
            if not rest.startswith(_BETWEEN, stop):
                yield rest[at:stop]
                return _frame(rest[stop:] + b"".join(source))
            yield rest[at:stop]
            at = stop + len(_BETWEEN) - 1
        rest = rest[at:]
        if len(rest) > _PIECE_BYTES_MAX:
            raise _OtherForm
    raise _OtherForm


def _frame(tail: bytes) -> Json:
    """``tail`` is what follows the last lock."""
    if not tail.startswith(_TAIL) or len(tail) > _PIECE_BYTES_MAX or b'"locks"' in tail or b"\\" in tail:
        raise _OtherForm
    try:
        frame = loads(_HEAD + tail)
    except NotJson:
        raise _OtherForm from None
    if not is_object(frame):
        raise _OtherForm
    return frame


def _spell(lock: Lock) -> bytes:
    """At its place in the file: two levels deep."""
    return pretty([[lock.to_json()]])[len(b"[\n  [\n    ") : -len(b"\n  ]\n]\n")]
