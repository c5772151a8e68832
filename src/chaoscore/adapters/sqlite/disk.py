"""Every call this adapter makes to SQLite and to the file system goes through one ``Disk``.

It adds nothing of its own. It exists so that a test can fail the Nth call, whatever it is, and so that two things are
decided in one place: directories are 0700 and files 0600; and the database file is never opened but by SQLite, because
closing it would drop the POSIX locks that SQLite holds on it in this process.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # no POSIX locks: SQLite's own lock with its busy timeout is all there is
    fcntl = None  # type: ignore[assignment]

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
STATEMENTS_MAX = 256


class Disk:
    """The real thing. All methods raise ``OSError`` or ``sqlite3.Error`` as they come."""

    __slots__ = ()

    def make_directory(self, path: Path) -> None:
        path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)

    def create(self, path: Path) -> bool:
        """Make an empty private file; whether it was made now."""
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE))
        except FileExistsError:
            return False
        return True

    def create_with(self, path: Path, content: bytes) -> bool:
        """Make a private file that is durable and whole from the moment it is there; whether it was made now."""
        draft = path.with_name(f".{path.name}.draft")
        draft.unlink(missing_ok=True)  # left by one that died; the caller holds the writers' lock
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        try:
            try:
                os.write(file, content)
                os.fsync(file)
            finally:
                os.close(file)
            os.link(draft, path)  # unlike a rename, this never takes the place of another process's file
        except FileExistsError:
            return False
        finally:
            os.unlink(draft)
        self.sync_directory(path.parent)
        return True

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> int:
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return os.open(path, flags, FILE_MODE)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, file: int, size_max: int) -> bytes:
        return os.pread(file, size_max, 0)

    def write(self, file: int, content: bytes) -> int:
        return os.pwrite(file, content, 0)

    def truncate(self, file: int, size: int) -> None:
        """Cut what stands behind ``size`` bytes, durably."""
        os.ftruncate(file, size)
        os.fsync(file)

    def sync_directory(self, path: Path) -> None:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def identity(self, path: Path) -> tuple[int, int]:
        """Which file stands at a path now."""
        stat = os.stat(path)
        return stat.st_dev, stat.st_ino

    def changed(self, path: Path) -> tuple[int, int] | None:
        """When it was written last, in nanoseconds, and its size; ``None`` when there is no such file."""
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            return None
        return stat.st_mtime_ns, stat.st_size

    def age_seconds(self, written_ns: int) -> float:
        """How long ago a file was written, by the clock that the file system writes its times with."""
        return (time.time_ns() - written_ns) / 1e9

    def size(self, path: Path) -> int | None:
        """``None`` when there is no such file."""
        try:
            return os.stat(path).st_size
        except FileNotFoundError:
            return None

    def lock(self, file: int, *, wait: bool = True) -> bool:
        """Whether the exclusive lock was got; always true when waiting."""
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def unlock(self, file: int) -> None:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_UN)

    def connect(self, path: Path, *, busy_seconds: float) -> sqlite3.Connection:
        """Open an existing database file; never makes one."""
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=STATEMENTS_MAX,
        )
