"""Opening the one database file: made once by whoever comes first, then only read on opening.

The switch to WAL and the schema are not covered by SQLite's busy timeout, so the first ones to come make them under
the writers' lock file, and look again once they have it. A file of a newer version, or of another program, is refused
and left as it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.adapters.sqlite.schema import APPLICATION_ID, MIGRATIONS, Migration
from chaoscore.adapters.sqlite.turnstile import Turnstile
from chaoscore.domain.errors import ConfigurationInvalid, StorageError

FILE_NAME = "chaoscore.db"
WRITER_CACHE_KIB = 4_096
READER_CACHE_KIB = 8_192

# One statement, and so one view of the file: read one after the other, the first value can be from before another
# process made the database and the second from after, which together look like a database of another program.
WHOSE = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
    " FROM pragma_application_id, pragma_user_version"
)


class Opening:
    """What it takes to open the database of a data directory, for writing or for reading.

    ``prelude`` runs once in a directory without a database, before the schema is durable, ``first_rows`` in the
    schema's own transaction: what must stand beside a database is there before there is one.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        turnstile: Turnstile,
        prelude: Callable[[], None],
        first_rows: Callable[[sqlite3.Connection], None],
        busy_seconds: float,
        migrations: Sequence[Migration] = MIGRATIONS,
    ) -> None:
        self.path = directory / FILE_NAME
        self._disk = disk
        self._directory = directory
        self._turnstile = turnstile
        self._prelude = prelude
        self._first_rows = first_rows
        self._busy_seconds = busy_seconds
        self._migrations = migrations

    @property
    def version(self) -> int:
        return len(self._migrations)

    def prepare(self) -> sqlite3.Connection:
        """Make directory, file and schema where they are missing, and open for reading.

        Writes nothing when all is there.
        """
        if self._disk.size(self.path):
            connection = self._ready()
            if connection is not None:
                return connection
        self._disk.make_directory(self._directory)
        self._turnstile.enter()
        try:
            self._make()
        finally:
            self._turnstile.leave()
        return self.reader()

    def writer(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
            self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def reader(self) -> sqlite3.Connection:
        """A connection that SQLite itself keeps from writing."""
        connection = self._connect()
        try:
            self._check_version(connection)
            return _read_only(connection)
        except BaseException:
            connection.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        return self._disk.connect(self.path, busy_seconds=self._busy_seconds)

    def _ready(self) -> sqlite3.Connection | None:
        """A reader, unless somebody is still making the database, or has to."""
        connection = self._connect()
        try:
            if self._version_of(connection) == self.version and _journal_mode(connection) == "wal":
                return _read_only(connection)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                connection.close()
                raise
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def _check_version(self, connection: sqlite3.Connection) -> None:
        version = self._version_of(connection)
        if version != self.version:
            raise StorageError(
                f"{str(self.path)!r} has schema {version} where {self.version} was opened; restart to use it",
                code="IO_ERROR",
                path=str(self.path),
            )

    def _version_of(self, connection: sqlite3.Connection) -> int:
        """The schema's version, 0 for an empty file. Raises ``ConfigurationInvalid`` for a file that is not ours."""
        application, version, objects = connection.execute(WHOSE).fetchone()
        path = str(self.path)
        if application != APPLICATION_ID:
            if application or version or objects:
                raise ConfigurationInvalid(
                    f"{path!r} is a database of another program; choose another data directory", path=path
                )
            return 0
        if version > self.version:
            raise ConfigurationInvalid(
                f"{path!r} has schema {version}, this version of chaos-core knows up to {self.version}; "
                "update chaos-core, or choose another data directory",
                path=path,
                schema=version,
            )
        return int(version)

    def _make(self) -> None:
        """Under the lock: what is missing now, whoever made the rest."""
        if self._disk.create(self.path):
            self._disk.sync_directory(self._directory)
        connection = self._connect()
        try:
            version = self._version_of(connection)
            if version == 0:
                self._prelude()
            if _journal_mode(connection) != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
                if _journal_mode(connection) != "wal":
                    raise StorageError(
                        f"{str(self.path)!r} lies on a file system without shared memory (a network share?); "
                        "choose a data directory on a local disk",
                        code="IO_ERROR",
                        path=str(self.path),
                    )
            if version < self.version:
                self._migrate(connection, version)
        finally:
            connection.close()

    def _migrate(self, connection: sqlite3.Connection, version: int) -> None:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for migration in self._migrations[version:]:
                migration(connection)
            if version == 0:
                self._first_rows(connection)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {self.version}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _read_only(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
    return connection


def _journal_mode(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
