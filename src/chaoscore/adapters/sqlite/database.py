"""One SQLite file, shared by many processes, behind two threads: writes in one, reads in the other.

Above it stand the stores, which hand in work as functions; below it SQLite and the lock between processes. Every
write is one ``BEGIN IMMEDIATE`` transaction that is durable (``synchronous=FULL``) before its future is told. Writes
that are waiting at the same time share one transaction, each behind a savepoint of its own, and so one fsync.

A failure leaves nothing half done: the transaction is rolled back, the connection is thrown away when it may be
broken, and the next call begins with a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.adapters.sqlite.failures import StoreGone, hindrance, is_busy, storage_error, translate
from chaoscore.adapters.sqlite.glance import DECLINED, Fetch, Glance
from chaoscore.adapters.sqlite.lane import Job, Lane
from chaoscore.adapters.sqlite.opening import Opening
from chaoscore.adapters.sqlite.rows import Row
from chaoscore.adapters.sqlite.turnstile import Turnstile
from chaoscore.app.ports import Clock
from chaoscore.domain.audit import Checkpoint
from chaoscore.domain.errors import ChaosError, StorageError

log = logging.getLogger(__name__)
T = TypeVar("T")

WAIT_SECONDS = 10.0


class Transaction:
    """What a write may use. ``head`` is the newest audit event it wrote, ``base`` the one it found."""

    __slots__ = ("base", "execute", "executemany", "head")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.base: Checkpoint | None = None
        self.head: Checkpoint | None = None


Write = Callable[[Transaction], object]
Read = Callable[[sqlite3.Connection], object]


class Database:
    """``after_commit`` is told of every transaction that became durable, still under the writers' lock."""

    def __init__(
        self,
        disk: Disk,
        opening: Opening,
        turnstile: Turnstile,
        after_commit: Callable[[Transaction], None],
        clock: Clock,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.path = opening.path
        self._disk = disk
        self._opening = opening
        self._turnstile = turnstile
        self._after_commit = after_commit
        self._writing: sqlite3.Connection | None = None
        self._reading: sqlite3.Connection | None = None
        self._unclosed: list[sqlite3.Connection] = []  # each may still hold SQLite's lock
        self._written: tuple[int, int] | None = None
        self._read_from: tuple[int, int] | None = None
        self._prepared = False
        self._writer: Lane[Write] = Lane("chaoscore-write", self._write, self._end_writing, self._busy, wait_seconds)
        self._reader: Lane[Read] = Lane("chaoscore-read", self._read, self._finish_reading, self._busy, wait_seconds)
        self._glance = Glance(disk, opening, clock)
        self._write_problem: str | None = None

    # -- in the event loop's thread --------------------------------------------------------------------------

    async def open(self) -> None:
        """Raises ``StorageError``, or ``ConfigurationInvalid`` for a file that is newer or somebody else's."""
        await self.read(lambda _: None)

    def write(self, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        """One durable transaction; told once it is on disk. Raises what ``work`` raises, or ``StorageError``.

        Handed over at once and done in order: two writes of one caller need not wait for each other.
        """
        return cast("asyncio.Future[T]", self._writer.submit(work))

    def read(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Sees every write whose future was told before."""
        return cast("asyncio.Future[T]", self._reader.submit(work))

    async def read_row(self, name: Hashable, fetch: Fetch, judge: Callable[[Row | None], T]) -> T:
        """As ``read``, for one row that ``fetch`` finds by its key; ``name`` is who it is to ``wrote``.

        Done at once where that keeps the loop waiting for nobody.
        """
        row = self._glance.take(name, fetch)
        if row is not DECLINED:
            return judge(cast("Row | None", row))

        def work(connection: sqlite3.Connection) -> T:
            answer = judge(fetch(connection))
            self._glance.prepare()
            return answer

        answer = await self.read(work)
        self._glance.warm(name)
        return answer

    def wrote(self, name: Hashable) -> None:
        """A row was written that may soon be read."""
        self._glance.warm(name)

    def write_problem(self) -> str | None:
        """Code and words of why nothing can be written: a write failed and none succeeded since, or the system says so.
        Writes nothing and opens nothing; that others keep the file locked is no problem of this kind."""
        if self._write_problem is not None:
            return self._write_problem
        code = hindrance(self.path)
        return None if code is None else _words(storage_error(code, self.path))

    async def close(self) -> None:
        """Finish what was handed over and close the file."""
        await self._reader.close()
        await self._writer.close()

    def _busy(self) -> ChaosError:
        return storage_error("STORE_BUSY", self.path)

    # -- in the writing thread -------------------------------------------------------------------------------

    def _write(self, first: Job[Write]) -> None:
        try:
            self._turnstile.enter()
        except BaseException as error:
            self._fail(self._writer.begin(first), error)
            return
        try:
            jobs = self._writer.begin(first)
            if len(jobs) == 1:
                self._alone(jobs[0])
            elif jobs:
                self._together(jobs)
        finally:
            self._turnstile.leave()

    def _alone(self, job: Job[Write]) -> None:
        try:
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            changes = connection.total_changes
            transaction = Transaction(connection)
            result = job.work(transaction)
            connection.execute("COMMIT")
        except BaseException as error:
            self._roll_back(error)
            job.error = self._failure(error)
            return
        job.result = result
        self._committed(transaction, connection.total_changes > changes)

    def _together(self, jobs: list[Job[Write]]) -> None:
        """One transaction for all. A job that refuses takes back its own part; a disk that fails, everybody's: then
        each tries alone, so that nobody fails because of somebody else."""
        try:
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            changes = connection.total_changes
            transaction = Transaction(connection)
            answers = [self._part(connection, transaction, job) for job in jobs]
            connection.execute("COMMIT")
        except Exception as error:
            self._roll_back(error)
            if is_busy(error):
                self._fail(jobs, error)
            else:
                for job in jobs:
                    self._alone(job)
            return
        except BaseException as error:
            self._roll_back(error)
            self._fail(jobs, error)
            return
        for job, (result, refusal) in zip(jobs, answers, strict=True):
            job.result, job.error = result, refusal
        self._committed(transaction, connection.total_changes > changes)

    def _part(
        self, connection: sqlite3.Connection, transaction: Transaction, job: Job[Write]
    ) -> tuple[object, ChaosError | None]:
        base, head = transaction.base, transaction.head
        connection.execute("SAVEPOINT part")
        try:
            answer: tuple[object, ChaosError | None] = (job.work(transaction), None)
        except ChaosError as refusal:
            connection.execute("ROLLBACK TO part")
            transaction.base, transaction.head = base, head
            answer = (None, refusal)
        connection.execute("RELEASE part")
        return answer

    def _failure(self, error: BaseException) -> BaseException:
        """The error to tell, remembered until a write succeeds when it was the disk's."""
        told = translate(error, self.path)
        if isinstance(error, sqlite3.Error | OSError) and isinstance(told, StorageError) and told.code != "STORE_BUSY":
            self._write_problem = _words(told)
        return told

    def _committed(self, transaction: Transaction, wrote: bool) -> None:
        """What follows a durable transaction cannot undo it: a failure here is the log's, not the caller's."""
        if wrote:  # one that changed nothing succeeds on a full disk, too
            self._write_problem = None
        try:
            self._after_commit(transaction)
        except (OSError, sqlite3.Error) as error:
            log.warning("after a commit to %s: %s", self.path, error)

    def _connection(self) -> sqlite3.Connection:
        """The writing connection, to the file that stands at the path now."""
        identity = self._standing()
        while self._unclosed:
            self._unclosed[-1].close()
            self._unclosed.pop()
        if self._writing is None:
            self._writing, self._written = self._opening.writer(), identity
        elif identity != self._written:
            # What was written to a file that nobody finds again would be lost: this call fails, the next one uses
            # what is there now.
            self._drop_writing()
            raise StoreGone
        return self._writing

    def _standing(self) -> tuple[int, int]:
        try:
            return self._disk.identity(self.path)
        except FileNotFoundError:
            raise StoreGone from None

    def _roll_back(self, error: BaseException) -> None:
        connection = self._writing
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, ChaosError) or is_busy(error):
                return
        except sqlite3.Error:
            log.warning("could not roll back on %s; opening it anew", self.path)
        self._drop_writing()

    def _drop_writing(self) -> None:
        connection, self._writing = self._writing, None
        if connection is not None and not _closed(connection):
            self._unclosed.append(connection)

    def _end_writing(self) -> None:
        self._drop_writing()
        with contextlib.suppress(OSError):
            self._turnstile.close()

    def _fail(self, jobs: list[Job[Write]], error: BaseException) -> None:
        for job in jobs:
            job.error = self._failure(error)

    # -- in the reading thread -------------------------------------------------------------------------------

    def _read(self, first: Job[Read]) -> None:
        for job in self._reader.begin(first):
            try:
                job.result = job.work(self._view())
            except BaseException as error:
                self._leave_view(error)
                job.error = translate(error, self.path)

    def _view(self) -> sqlite3.Connection:
        """The reading connection. The database is made here, when there is none, and only once."""
        if self._reading is not None and self._standing() != self._read_from:
            self._end_reading()
        if self._reading is None:
            self._reading = self._opening.reader() if self._prepared else self._opening.prepare()
            self._prepared = True
            self._read_from = self._standing()
        return self._reading

    def _leave_view(self, error: BaseException) -> None:
        connection = self._reading
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, ChaosError) or is_busy(error):
                return
        except sqlite3.Error:
            log.warning("could not end a read on %s; opening it anew", self.path)
        self._end_reading()

    def _finish_reading(self) -> None:
        self._glance.end()
        self._end_reading()

    def _end_reading(self) -> None:
        connection, self._reading = self._reading, None
        if connection is not None:
            _closed(connection)


def _words(error: StorageError) -> str:
    return f"{error.code}: {error.message}"


def _closed(connection: sqlite3.Connection) -> bool:
    """Whether it could be closed; what fails in closing has no effect on what was committed."""
    try:
        connection.close()
    except sqlite3.Error:
        return False
    return True
