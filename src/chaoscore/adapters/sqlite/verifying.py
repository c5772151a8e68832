"""Verifying the audit of a directory as it lies there: a live one, or a copy that may only be read.

``chaoscore audit`` stands above it, ``Chain`` and ``Opening`` below. Nothing is made: no database, lock, key or head,
and in a directory that cannot be written no log beside the database either.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from chaoscore.adapters.sqlite.audit import any_text, chained_events
from chaoscore.adapters.sqlite.chain import Chain
from chaoscore.adapters.sqlite.database import WAIT_SECONDS
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.adapters.sqlite.failures import translate
from chaoscore.adapters.sqlite.opening import FILE_NAME, Opening
from chaoscore.adapters.sqlite.turnstile import Turnstile
from chaoscore.app.ports import Ids
from chaoscore.domain.audit import GENESIS, ChainReport, Checkpoint, verify_chain
from chaoscore.domain.errors import NotFound, StorageError

HeadState = Literal["fits", "missing", "malformed", "ahead", "differs"]
"""How the checkpoint outside stands to the chain: ``ahead`` knows events that are gone, ``differs`` another chain."""


@dataclass(frozen=True, slots=True)
class Verification:
    """``report`` is the whole answer. ``unchecked`` says what nobody could check here, and why; an audit with such gaps
    is not known to be whole.

    ``chain`` is the walk along the links alone, ``kept`` and ``head_state`` what the checkpoint outside says.
    """

    report: ChainReport
    unchecked: tuple[str, ...]
    chain: ChainReport
    kept: Checkpoint | None
    head_state: HeadState

    @property
    def is_whole(self) -> bool:
        return self.report.fault is None and not self.unchecked

    @property
    def is_proven(self) -> bool:
        """Whole, and its events account for every effect."""
        return self.is_whole and self.report.problem is None


def verify_directory(directory: Path, ids: Ids) -> Verification:
    """Walk the chain of a data directory from its first event.

    Raises ``NotFound`` without a database, ``StorageError``, or ``ConfigurationInvalid`` for a database of a newer
    version or another program.
    """
    path = directory / FILE_NAME
    try:
        with ExitStack() as stack:
            disk: Disk = Disk() if os.access(directory, os.W_OK | os.X_OK) else _CopyDisk(stack)
            if disk.size(path) is None:
                raise NotFound(f"there is no audit in {str(directory)!r}: {path.name} is missing", path=str(path))
            chain = Chain(disk, directory, ids)
            opening = Opening(
                disk, directory, Turnstile(disk, directory), chain.prelude, chain.first_rows, WAIT_SECONDS
            )
            before = _standing(path)
            # The head first: the chain may grow meanwhile, and must then still contain it.
            kept = chain.read_head()
            is_there = os.path.lexists(chain.head_path)
            connection = stack.enter_context(closing(opening.reader()))
            connection.text_factory = any_text
            found = _verify(connection, chain, kept, is_there)
            if isinstance(disk, _CopyDisk) and _standing(path) != before:
                raise StorageError(
                    f"{str(path)!r} was written while it was verified, and a directory that can only be read cannot be "
                    "locked; verify it again, or verify it where it is written",
                    code="STORE_BUSY",
                    path=str(path),
                )
            return found
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from None


def _verify(connection: sqlite3.Connection, chain: Chain, kept: Checkpoint | None, is_there: bool) -> Verification:
    unchecked: list[str] = []
    if kept is None:
        what = "is no checkpoint" if is_there else "is missing"
        unchecked.append(f"whether events were cut off at the end: {str(chain.head_path)!r} {what}")
    try:
        key = chain.key_of(connection.execute)
    except (StorageError, PermissionError) as problem:
        why = problem.message if isinstance(problem, StorageError) else f"{str(chain.key_path)!r} cannot be read"
        unchecked.insert(0, f"whether any event was altered, and whether the checkpoint fits: {why.partition(';')[0]}")
        events = int(connection.execute("SELECT count(*) FROM audit").fetchone()[0])
        walked = ChainReport(events, Checkpoint(0, GENESIS))
        return Verification(walked, tuple(unchecked), walked, kept, _without_chain(kept, is_there))
    walked = verify_chain(key, chained_events(connection), None)
    state = _without_chain(kept, is_there)
    if walked.fault is not None or kept is None:
        return Verification(walked, tuple(unchecked), walked, kept, state)
    report = walked
    if kept.seq > walked.head.seq:
        state = "ahead"
        fault = f"the chain was cut off: it ends at {walked.head.seq}, the checkpoint knows {kept.seq}"
        report = replace(walked, fault=fault, at=walked.head.seq + 1)
    elif kept.mac != _mac_at(connection, kept.seq):
        state = "differs"
        fault = f"event {kept.seq} differs from the checkpoint kept outside the database"
        report = replace(walked, fault=fault, at=kept.seq)
    return Verification(report, (), walked, kept, state)


def _without_chain(kept: Checkpoint | None, is_there: bool) -> HeadState:
    if kept is not None:
        return "fits"
    return "malformed" if is_there else "missing"


def _mac_at(connection: sqlite3.Connection, seq: int) -> object:
    if seq == 0:
        return GENESIS
    row = connection.execute("SELECT mac FROM audit WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else row[0]


class _CopyDisk(Disk):
    """Opens a database in a directory that cannot be written, without a file beside it."""

    __slots__ = ("_stack",)

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def connect(self, path: Path, *, busy_seconds: float) -> sqlite3.Connection:
        log = path.with_name(f"{path.name}-wal")
        if not self.size(log):
            return self._connect(path, "mode=ro&immutable=1", busy_seconds)
        connection = self._connect(path, "mode=ro", busy_seconds)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
        else:
            return connection
        # A log that comes without its shared memory can only be read where one can be made.
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="chaoscore-verify-")))
        for source in (path, log):
            shutil.copyfile(source, folder / source.name)
        return super().connect(folder / path.name, busy_seconds=busy_seconds)

    def _connect(self, path: Path, how: str, busy_seconds: float) -> sqlite3.Connection:
        address = f"{path.absolute().as_uri()}?{how}"
        return sqlite3.connect(address, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)


def _standing(path: Path) -> tuple[object, ...]:
    """Tells whether somebody wrote to the database or its log meanwhile."""
    out: list[object] = []
    for name in (path.name, f"{path.name}-wal"):
        try:
            found = os.stat(path.with_name(name))
        except FileNotFoundError:
            out.append(None)
        else:
            out.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(out)
