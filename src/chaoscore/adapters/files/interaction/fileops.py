"""Every system call the folder makes, behind one object: a test can fail the Nth of them, or die in it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from dataclasses import dataclass

from chaoscore.domain.errors import StorageError

_CODES = {
    errno.ENOSPC: "NO_SPACE",
    errno.EDQUOT: "NO_SPACE",
    errno.EFBIG: "NO_SPACE",
    errno.EROFS: "READ_ONLY",
    errno.EACCES: "PERMISSION",
    errno.EPERM: "PERMISSION",
}
_ADVICE = {
    "NO_SPACE": "free some space",
    "READ_ONLY": "make the folder writable",
    "PERMISSION": "correct its permissions",
    "IO_ERROR": "check the disk",
}


def storage_error(error: OSError, what: str) -> StorageError:
    """The specific error of a failed system call; ``what`` names the file relative to the root."""
    code = _CODES.get(error.errno or 0, "IO_ERROR")
    return StorageError(f"{what}: {(error.strerror or 'failed').lower()}; {_ADVICE[code]}, then call again", code=code)


@dataclass(frozen=True, slots=True)
class Stat:
    """What identifies a version of a file. Times are nanoseconds."""

    inode: int
    size: int
    mtime: int
    ctime: int
    mode: int


class FileOps:
    """Straight to the operating system."""

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def fstat(self, fd: int) -> Stat:
        return _stat(os.fstat(fd))

    def lstat(self, path: str) -> Stat:
        return _stat(os.lstat(path))

    def scan(self, path: str) -> list[tuple[str, bool]]:
        """Names with whether each is a real directory."""
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]

    def subdirectories(self, path: str) -> int | None:
        """How many, where the file system counts them as links; ``None`` where it does not."""
        links = os.lstat(path).st_nlink
        return links - 2 if links >= 2 else None

    def realpath(self, path: str) -> str:
        return os.path.realpath(path)

    # What changes the disk: the points at which a fault or a crash can come.

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def flock(self, fd: int) -> bool:
        """Take the exclusive advisory lock without waiting; whether it was free."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def close_quietly(ops: FileOps, fd: int) -> None:
    """For what was only read or synced: the descriptor is gone either way, and nothing depends on how it went."""
    with contextlib.suppress(OSError):
        ops.close(fd)


def _stat(found: os.stat_result) -> Stat:
    return Stat(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
