"""The write lock, between our processes and towards the original (``interaction-better`` A2 has the measurements).

Ours exclude each other by ``flock`` on the root directory, which needs no file and works across pid namespaces. Towards
the original, ``.runtime.lock`` is published already filled (``link``), because it deletes one that it sees empty. The
original may still take a lock away from under a holder, so the holder keeps the descriptor and checks that the path is
still its inode before its first write and after its last.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from chaoscore.adapters.files.interaction.fileops import FileOps, close_quietly, storage_error
from chaoscore.domain.errors import StorageError
from chaoscore.domain.interaction.errors import RuntimeBusy

NAME = ".runtime.lock"
_MARK = "chaosCore"
_AT_DIGITS = 13
_GONE_SECONDS = 1.0
_NO_SUPPORT = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class Waiting:
    """The lock is held; ``holder`` says by whom, in words."""

    holder: str


@dataclass(slots=True)
class _Seen:
    """A foreign lock file as we keep meeting it."""

    inode: int
    since: float


class WriteLock:
    """One attempt at a time: the caller serialises attempts within its process and waits between them.

    ``monotonic`` and ``wall_ms`` are clocks; ``started_ms`` tells when a process began, ``None`` when there is no
    such process, 0 when it cannot be told.
    """

    def __init__(
        self,
        root: str,
        ops: FileOps,
        monotonic: Callable[[], float],
        wall_ms: Callable[[], int],
        started_ms: Callable[[int], int | None],
        pid: int,
        unique: Callable[[], str],
    ) -> None:
        self._root = root
        self._ops = ops
        self._monotonic = monotonic
        self._wall_ms = wall_ms
        self._started_ms = started_ms
        self._pid = pid
        self._unique = unique
        self._root_fd: int | None = None
        self._lock_fd: int | None = None
        self._inode = 0
        self._seen: _Seen | None = None
        self.published_at = 0.0
        self.found_dead = False
        self.has_flock = True
        self.has_links = True

    @property
    def path(self) -> str:
        return f"{self._root}/{NAME}"

    def try_acquire(self) -> Waiting | None:
        """``None`` when the lock is ours now. Raises ``RuntimeBusy`` for what waiting cannot mend, ``StorageError``."""
        try:
            if not self._flock():
                return Waiting(self._describe())
        except OSError as error:
            self.release()
            raise storage_error(error, ".") from error
        try:
            waiting = self._publish()
        except OSError as error:
            self.release()
            raise storage_error(error, NAME) from error
        except BaseException:
            self.release()
            raise
        if waiting is not None:
            self.release()
        return waiting

    def is_ours(self) -> bool:
        """Whether the path is still the lock that we published."""
        try:
            return self._ops.lstat(self.path).inode == self._inode and self._inode != 0
        except OSError:
            return False

    def republish(self) -> Waiting | None:
        """Take the path again after a peer took it away; the flock was kept all the time."""
        self._forget()
        try:
            return self._publish()
        except OSError as error:
            raise storage_error(error, NAME) from error

    def refresh(self) -> None:
        """Write a new ``at`` into our own inode: a rename could overwrite a thief's lock."""
        if self._lock_fd is not None:
            digits = f"{self._wall_ms():0{_AT_DIGITS}d}"[-_AT_DIGITS:]
            self._ops.pwrite(self._lock_fd, digits.encode("ascii"), len(self._prefix()))

    def release(self) -> None:
        """Give the path and the flock back; never raises."""
        if self._lock_fd is not None and self.is_ours():
            with contextlib.suppress(OSError):
                self._ops.unlink(self.path)
        self._forget()
        if self._root_fd is not None:
            close_quietly(self._ops, self._root_fd)
            self._root_fd = None

    def _forget(self) -> None:
        if self._lock_fd is not None:
            close_quietly(self._ops, self._lock_fd)
            self._lock_fd = None
        self._inode = 0

    def _flock(self) -> bool:
        if self._root_fd is None:
            self._root_fd = self._ops.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            held = self._ops.flock(self._root_fd)
        except OSError as error:
            if error.errno not in (*_NO_SUPPORT, errno.ENOLCK):
                raise
            self.has_flock = False
            return True
        if not held:
            close_quietly(self._ops, self._root_fd)
            self._root_fd = None
        return held

    def _prefix(self) -> str:
        return f'{{"pid":{self._pid},"at":'

    def _record(self) -> bytes:
        return f'{self._prefix()}{self._wall_ms():0{_AT_DIGITS}d},"by":"{_MARK}"}}'.encode("ascii")

    def _publish(self) -> Waiting | None:
        """Make ``.runtime.lock`` ours, removing a dead one."""
        for _ in range(3):
            if self._create():
                self.published_at = self._monotonic()
                self._seen = None
                return None
            waiting = self._inspect()
            if waiting is not None:
                return waiting
        return Waiting("a process that takes the lock again and again")

    def _create(self) -> bool:
        temporary = f"{self._root}/.{NAME.strip('.')}.{self._pid}.{self._wall_ms()}.{self._unique()}.tmp"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        if not self.has_links:
            return self._create_plain(flags)
        fd = self._ops.open(temporary, flags)
        kept = False
        try:
            self._write_all(fd)
            inode = self._ops.fstat(fd).inode
            self._ops.link(temporary, self.path)
            self._lock_fd, self._inode, kept = fd, inode, True
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_SUPPORT:
                raise
            self.has_links = False
        finally:
            if not kept:
                close_quietly(self._ops, fd)
            _quietly(lambda: self._ops.unlink(temporary))
        return kept or self._create_plain(flags)

    def _create_plain(self, flags: int) -> bool:
        """No hard links here: exclusive create and one immediate write; the flock still guards ours."""
        try:
            fd = self._ops.open(self.path, flags)
        except FileExistsError:
            return False
        self._lock_fd = fd
        try:
            self._inode = self._ops.fstat(fd).inode
        except OSError:
            _quietly(lambda: self._ops.unlink(self.path))
            raise
        self._write_all(fd)
        return True

    def _write_all(self, fd: int) -> None:
        data = self._record()
        if self._ops.write(fd, data) != len(data):
            raise OSError(errno.ENOSPC, "no space left on device")

    def _inspect(self) -> Waiting | None:
        """Somebody's lock stands there: ``None`` when it was dead and is gone now."""
        try:
            found = self._ops.lstat(self.path)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(found.mode):
            raise RuntimeBusy(f"{NAME} is a directory, so that nobody can take the lock; remove it, then call again")
        now = self._monotonic()
        if self._seen is None or self._seen.inode != found.inode:
            self._seen = _Seen(found.inode, now)
        record = self._read_record()
        watched = max(now - self._seen.since, (self._wall_ms() - found.mtime // 1_000_000) / 1000)
        holder, dead = self._judge(record, watched)
        if not dead:
            return Waiting(holder)
        self.found_dead = True
        self._remove_dead(found.inode)
        return None

    def _judge(self, record: tuple[int, int, bool] | None, watched_seconds: float) -> tuple[str, bool]:
        if record is None:
            return "an unreadable lock file", watched_seconds >= _GONE_SECONDS
        pid, at, ours = record
        if ours and self.has_flock:
            return f"process {pid}", True
        started = self._started_ms(pid)
        if started is not None and started <= at + 1_000:
            return f"process {pid}", False
        # A live holder in another pid namespace looks gone: it gets the time that a holder needs.
        return f"process {pid}", watched_seconds >= _GONE_SECONDS

    def _read_record(self) -> tuple[int, int, bool] | None:
        try:
            fd = self._ops.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            value = json.loads(self._ops.read(fd, 4096))
        except (OSError, ValueError, RecursionError):
            return None
        finally:
            close_quietly(self._ops, fd)
        if not isinstance(value, dict):
            return None
        pid, at = value.get("pid"), value.get("at")
        if isinstance(pid, bool) or not isinstance(pid, int) or not isinstance(at, int | float) or pid <= 0:
            return None
        return pid, int(at), value.get("by") == _MARK

    def _remove_dead(self, inode: int) -> None:
        """Move it aside first: what was moved can be looked at, and put back if it was a newer one."""
        aside = f"{self._root}/.{NAME.strip('.')}.{self._pid}.{self._wall_ms()}.{self._unique()}.tmp"
        try:
            self._ops.rename(self.path, aside)
        except FileNotFoundError:
            return
        except OSError as error:
            raise RuntimeBusy(
                f"{NAME} was left by a dead process and cannot be removed ({(error.strerror or 'failed').lower()}); "
                f"remove it, then call again"
            ) from error
        if self._ops.lstat(aside).inode != inode:
            _quietly(lambda: self._ops.link(aside, self.path))
        _quietly(lambda: self._ops.unlink(aside))

    def _describe(self) -> str:
        record = self._read_record()
        return f"process {record[0]}" if record is not None else "another process"


def _quietly(action: Callable[[], None]) -> None:
    with contextlib.suppress(OSError, StorageError):
        action()


def process_started_ms(pid: int) -> int | None:
    """When a process began, in epoch milliseconds; ``None`` when there is none, 0 when that cannot be told."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/stat", "rb") as file:
            boot = next(int(row.split()[1]) for row in file if row.startswith(b"btime"))
    except (OSError, ValueError, IndexError, StopIteration):
        return 0
    return boot * 1000 + ticks * 1000 // os.sysconf("SC_CLK_TCK")
