"""The operator's ``policy.json``: strict at start, read again when it changes, never looser while it is broken.

Implements ``app.ports.PolicySource``; the meaning of the file is the domain's. A verdict costs one ``stat``. A file
that cannot be understood, read or found while the server runs keeps the last good DENYs and turns everything else
into REQUIRE_APPROVAL until it is mended (spec §3); at start it is refused (law 3).
"""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from chaoscore.app.ports import Clock
from chaoscore.domain.errors import ChaosError, PolicyInvalid, StorageError
from chaoscore.domain.policy.evaluate import Evaluator
from chaoscore.domain.policy.model import DEFAULT_POLICY, Policy, Question, Verdict
from chaoscore.domain.policy.parse import POLICY_BYTES_MAX, parse_policy_bytes

log = logging.getLogger(__name__)

SETTLE_SECONDS = 2.0
"""File systems count time in ticks: a second change within one tick leaves no trace in ``stat``. A file that changed
this recently is therefore read again, not only looked at."""

_Signature = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The file as last seen. ``settled``: as long as ``stat`` answers the same signature, nothing has changed."""

    evaluator: Evaluator
    signature: _Signature | None
    settled: bool
    data: bytes | None
    warnings: tuple[str, ...]
    mode: int = 0o600


class PolicyFile:
    """A policy file in force. Threads may share it.

    ``known`` are the names of all capabilities that a rule may name exactly. ``create`` writes the default policy if
    there is no file yet; pass it only when the data directory is being made for the first time: a policy that vanished
    later must not come back looser. Raises ``PolicyInvalid`` naming file, key and fix, and ``StorageError`` when the
    default cannot be written.
    """

    def __init__(self, path: str | Path, known: Collection[str], clock: Clock, *, create: bool = False) -> None:
        self._path = os.path.abspath(path)
        self._known = frozenset(known)
        self._clock = clock
        self._lock = threading.Lock()
        if create:
            write_default_policy(self._path)
        data, signature, mode, whole = _read(self._path)
        parsed = parse_policy_bytes(data, self._known, self._path)
        self._good = Evaluator(parsed.policy)
        self._seen = self._remember(self._good, signature, whole, data, parsed.warnings, mode)

    @property
    def path(self) -> str:
        return self._path

    def verdict(self, question: Question) -> Verdict:
        return self._now().evaluator.verdict(question)

    def policy(self) -> Policy:
        return self._now().evaluator.policy

    def problem(self) -> str | None:
        return self._now().evaluator.problem

    def warnings(self) -> tuple[str, ...]:
        seen = self._now()
        if seen.mode & 0o022:
            writable = f"others can write {self._path} (mode {seen.mode & 0o777:04o}); run chmod 600 on it"
            return (*seen.warnings, writable)
        return seen.warnings

    def evaluator(self) -> Evaluator:
        """The evaluator in force, for ``explain``."""
        return self._now().evaluator

    def _now(self) -> _Seen:
        seen = self._seen
        if seen.settled:
            try:
                if _signature(os.stat(self._path, follow_symlinks=False)) == seen.signature:
                    return seen
            except OSError:
                pass
        with self._lock:
            return self._look_again()

    def _look_again(self) -> _Seen:
        before = self._seen
        try:
            data, signature, mode, whole = _read(self._path)
        except Exception as error:
            return self._change(_Seen(self._good.degraded(self._why(error)), None, False, None, before.warnings))
        if data == before.data:
            return self._change(self._remember(before.evaluator, signature, whole, data, before.warnings, mode))
        try:
            parsed = parse_policy_bytes(data, self._known, self._path)
        except Exception as error:
            evaluator, warnings = self._good.degraded(self._why(error)), before.warnings
        else:
            evaluator, warnings = Evaluator(parsed.policy), parsed.warnings
            self._good = evaluator
        return self._change(self._remember(evaluator, signature, whole, data, warnings, mode))

    def _why(self, error: Exception) -> str:
        """Law 2: whatever goes wrong while reading a policy may only tighten, so nothing passes through here."""
        if isinstance(error, ChaosError):
            return error.message
        log.error("reading the policy failed unexpectedly", exc_info=error)
        return f"the policy {self._path} cannot be read ({type(error).__name__})"

    def _remember(
        self,
        evaluator: Evaluator,
        signature: _Signature,
        whole: bool,
        data: bytes,
        warnings: tuple[str, ...],
        mode: int,
    ) -> _Seen:
        changed_at = signature[-1] / 1e9
        settled = whole and self._clock.now() - changed_at > SETTLE_SECONDS
        return _Seen(evaluator, signature, settled, data, warnings, mode)

    def _change(self, seen: _Seen) -> _Seen:
        was, now = self._seen.evaluator.problem, seen.evaluator.problem
        if now is not None and now != was:
            log.warning("the policy cannot be used, so only its denials stand and everything else asks: %s", now)
        elif now is None and was is not None:
            log.warning("the policy can be used again: %s", self._path)
        self._seen = seen
        return seen


def write_default_policy(path: str | Path) -> bool:
    """Write the default policy for its owner alone (0600), whole or not at all; whether this call did it.

    A file that is already there is left as it is. Raises ``StorageError``.
    """
    target = os.path.abspath(path)
    folder, name = os.path.split(target)
    draft = os.path.join(folder, f".{name}.{os.getpid()}.new")
    text = json.dumps(DEFAULT_POLICY, indent=2) + "\n"
    try:
        _write_new(draft, text.encode("utf-8"))
        try:
            os.link(draft, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise
            # No hard links here: renaming is as whole, only the check is not one step with it.
            if os.path.lexists(target):
                return False
            os.rename(draft, target)
        finally:
            _remove(draft)
        _sync_folder(folder)
    except OSError as error:
        raise StorageError(
            f"cannot write the default policy {target!r}: {_say(error)}", code=_code(error), path=target
        ) from error
    return True


def _write_new(path: str, data: bytes) -> None:
    _remove(path)  # left behind by a process of the same number that died here
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        _remove(path)
        raise


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | _CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def _signature(found: os.stat_result) -> _Signature:
    return (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _read(path: str) -> tuple[bytes, _Signature, int, bool]:
    """Bytes, signature and mode of a regular file of bounded size, and whether it stood still meanwhile.

    Raises ``PolicyInvalid`` for anything else.
    """
    try:
        found = os.stat(path, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise _unusable(path, f"is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no regular file')}, not a regular file")
        fd = os.open(path, os.O_RDONLY | _NO_FOLLOW | _CLOEXEC | _NO_WAIT)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise _unusable(path, "is not a regular file")
            data = _read_bounded(fd)
            after = os.fstat(fd)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise _unusable(path, "is missing; put it back, or write one as docs/policies.md shows") from None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {_say(error)}") from error
    if len(data) > POLICY_BYTES_MAX:
        raise _unusable(path, f"has more than {POLICY_BYTES_MAX} bytes")
    whole = _signature(before) == _signature(after) and len(data) == after.st_size
    return data, _signature(before), before.st_mode, whole


def _read_bounded(fd: int) -> bytes:
    parts: list[bytes] = []
    left = POLICY_BYTES_MAX + 1
    while left > 0 and (part := os.read(fd, min(left, 262_144))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _unusable(path: str, why: str) -> PolicyInvalid:
    return PolicyInvalid(f"the policy {path} {why}", file=path, key="")


def _say(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _code(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "NO_SPACE"
    if error.errno == errno.EROFS:
        return "READ_ONLY"
    return "PERMISSION" if error.errno in (errno.EACCES, errno.EPERM) else "IO_ERROR"
