"""What SQLite and the operating system say, as the errors of our own tree: a stable code and what to do about it."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from chaoscore.domain.errors import ChaosError, StorageError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_PERMITTED = (errno.EACCES, errno.EPERM)

_ADVICE = {
    "NO_SPACE": "free some space on the disk of {path!r}, or raise the quota; nothing of this operation was kept",
    "READ_ONLY": "{path!r} can only be read; make the file, its directory and its file system writable",
    "PERMISSION": "this user may not use {path!r}; give it the file and its directory, or another data directory",
    "STORE_BUSY": "another process kept {path!r} locked for too long; let it end, or continue it if it is stopped",
    "STORE_CORRUPT": "{path!r} is damaged; keep a copy of it, and put a backup in its place",
    "IO_ERROR": "the disk failed under {path!r}; look at the system's log",
}
_PRIMARY = {
    sqlite3.SQLITE_FULL: "NO_SPACE",
    sqlite3.SQLITE_READONLY: "READ_ONLY",
    sqlite3.SQLITE_PERM: "PERMISSION",
    sqlite3.SQLITE_AUTH: "PERMISSION",
    sqlite3.SQLITE_BUSY: "STORE_BUSY",
    sqlite3.SQLITE_LOCKED: "STORE_BUSY",
    sqlite3.SQLITE_PROTOCOL: "STORE_BUSY",
    sqlite3.SQLITE_ERROR: "STORE_CORRUPT",  # a table or a column is missing: our statements are not wrong by themselves
    sqlite3.SQLITE_CONSTRAINT: "STORE_CORRUPT",
    sqlite3.SQLITE_CORRUPT: "STORE_CORRUPT",
    sqlite3.SQLITE_NOTADB: "STORE_CORRUPT",
}
_UNSAID = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY)
"""What SQLite says about several failures alike."""


def is_busy(error: BaseException) -> bool:
    """Whether somebody else holds a lock, and nothing is broken."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


class StoreGone(OSError):
    """The database file is not the one that was opened: moved, deleted or replaced meanwhile."""


def storage_error(code: str, path: Path, cause: str = "") -> StorageError:
    """``cause`` names the failure in SQLite's or the system's own short words."""
    advice = _ADVICE[code].format(path=str(path))
    return StorageError(f"{cause}: {advice}" if cause else advice, code=code, path=str(path))


def translate(error: BaseException, path: Path) -> BaseException:
    """The error a caller may see. Errors of our own tree, and what is no storage failure at all, stay as they are."""
    if isinstance(error, ChaosError):
        return error
    if isinstance(error, StoreGone):
        return StorageError(
            f"{str(path)!r} was moved, deleted or replaced while in use; put it back, or restart to use what is there",
            code="IO_ERROR",
            path=str(path),
        )
    if isinstance(error, sqlite3.Error):
        return _from_sqlite(error, path)
    if isinstance(error, OSError):
        return storage_error(_os_code(error), path, errno.errorcode.get(error.errno or 0, "error"))
    return error


def _os_code(error: OSError) -> str:
    if error.errno in _NO_SPACE:
        return "NO_SPACE"
    if error.errno == errno.EROFS:
        return "READ_ONLY"
    return "PERMISSION" if error.errno in _NOT_PERMITTED else "IO_ERROR"


def _from_sqlite(error: sqlite3.Error, path: Path) -> StorageError:
    extended = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    if not isinstance(extended, int):
        # the module's own: text that is not UTF-8, a value that no column of ours can hold
        return storage_error("STORE_CORRUPT", path, str(error)[:80])
    primary = extended & 0xFF
    code = _PRIMARY.get(primary)
    if code is None or code == "READ_ONLY":
        probed = hindrance(path) if primary in _UNSAID else None
        code = probed if probed not in (None, "IO_ERROR") else code or "IO_ERROR"
    return storage_error(code, path, name)


def hindrance(path: Path) -> str | None:
    """The code of what would keep a write to ``path`` from succeeding, as far as the system tells; ``None`` when it
    names nothing. Looks, and opens nothing: a file that is closed takes along every POSIX lock that SQLite holds on it
    in this process."""
    try:
        disk = os.statvfs(path.parent)
        if disk.f_flag & os.ST_RDONLY:
            return "READ_ONLY"
        if disk.f_bavail == 0 and disk.f_blocks > 0:  # some file systems do not count
            return "NO_SPACE"
        if not os.access(path.parent, os.R_OK | os.W_OK | os.X_OK):
            return "PERMISSION"
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            return "PERMISSION"
    except OSError as error:
        return _os_code(error)
    return None
