"""The approver's PIN in the data directory: a slow hash of it, and how often a wrong one was tried.

``app.approvals`` asks whether a person knows the PIN, ``chaoscore pin`` sets, changes and removes it. Every process of
the user checks against the same two files, under one lock:

- ``approver.pin`` holds scrypt's parameters, salt and hash, mode 0600;
- ``approver.tries`` holds how many tries in a row were wrong and when the last one was. It is absent when none was.

A try is counted on the disk before the PIN is looked at, and taken back when the PIN was right: a process that dies, or
a disk that is full, gives nobody a try that does not count. What is malformed is refused by path and stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import hmac
import json
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from chaoscore.adapters.files.interaction.fileops import storage_error
from chaoscore.app.ports import Clock
from chaoscore.domain.errors import Conflict, InvalidInput, NotFound, PinRefused, StorageError
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.pin import PIN_CHARS_MAX, WRONG_TRIES_MAX, normal_form, pause_seconds, pin_fault

PIN_NAME = "approver.pin"
TRIES_NAME = "approver.tries"
LOCK_NAME = "approver.lock"
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
"""32 MB and, on the machines of this decade, 50 to 150 ms."""
LOCK_SECONDS_MAX = 10.0
_N_MIN, _N_MAX, _R_MAX, _P_MAX = 2**14, 2**18, 16, 4
_SALT_BYTES = 16
_HASH_BYTES = 32
_FORMAT = 1
_FILE_BYTES_MAX = 4_096
_FILE_MODE = 0o600
_LOCK_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class PinStatus:
    """``wrong_tries`` in a row; nothing is checked for another ``seconds_left`` seconds."""

    is_set: bool
    wrong_tries: int
    seconds_left: int


class FilePin:
    """``ApproverPin`` over the data directory. All but ``require`` block: hashing takes about 0.1 s.

    Besides what each method names, they raise ``StorageError``: ``STORE_CORRUPT`` for a malformed file, ``PERMISSION``
    for one that others may use, ``STORE_BUSY`` when another process held the lock for 10 s, and what the disk says.
    """

    def __init__(self, data_dir: Path, clock: Clock) -> None:
        self._directory = data_dir
        self._clock = clock
        self.path = data_dir / PIN_NAME
        self._tries_path = data_dir / TRIES_NAME
        self._lock_path = data_dir / LOCK_NAME

    def is_set(self) -> bool:
        """Whether there is a file, good or not: one that cannot be used never counts as no PIN."""
        try:
            os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    async def require(self, given: str | None) -> None:
        """Returns when ``given`` is the PIN. Raises ``PinRefused``, with ``retry_after_seconds`` during a pause."""
        await asyncio.to_thread(self.check, given)

    def check(self, given: str | None) -> None:
        """``require``, for whoever may block."""
        if not self.is_set():
            raise PinRefused("no PIN is set, so none is right; set one with 'chaoscore pin set'")
        if not given:
            raise PinRefused("the approver's PIN is needed and none was given")
        with self._alone():
            self._check(self._kept(), given)

    def create(self, pin: str) -> None:
        """Set the first PIN. Raises ``Conflict`` when there is one, ``InvalidInput`` for one that may not be a PIN."""
        pin = _new(pin)
        with self._told(self._directory):
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone():
            if self.is_set():
                self._kept()
                raise Conflict("a PIN is set already; change it with 'chaoscore pin change'")
            self._forget_tries()
            self._write(self.path, _hashed(pin), replace=False)

    def change(self, old: str, new: str) -> None:
        """Raises ``NotFound`` without one, ``PinRefused`` for a wrong old one, ``InvalidInput`` for the new one."""
        new = _new(new)
        self._require_set()
        with self._alone():
            self._check(self._kept(), old)
            if hmac.compare_digest(normal_form(old).encode(), new.encode()):
                raise InvalidInput("the new PIN is the old one; choose another", key="pin")
            self._write(self.path, _hashed(new), replace=True)

    def remove(self, old: str) -> None:
        """Raises ``NotFound`` when none is set, ``PinRefused`` for a wrong one."""
        self._require_set()
        with self._alone():
            self._check(self._kept(), old)
            with self._told(self.path):
                os.unlink(self.path)
                self._sync_directory()

    def status(self) -> PinStatus:
        """How it stands now. Changes nothing."""
        if not self.is_set():
            return PinStatus(False, 0, 0)
        self._kept()
        tries = self._tries()
        return PinStatus(True, tries.wrong, math.ceil(tries.seconds_left(self._clock.now())))

    # -- checking --------------------------------------------------------------------------------------------

    def _require_set(self) -> None:
        if not self.is_set():
            raise NotFound("no PIN is set; set one with 'chaoscore pin set'", key="pin")

    def _check(self, kept: _Kept, given: str) -> None:
        """Under the lock."""
        tries, now = self._tries(), self._clock.now()
        left = tries.seconds_left(now)
        if left > 0:
            if tries.at > now:
                # The clock went back. The pause begins again now, or it would last until the clock has caught up.
                self._write(self._tries_path, _Tries(tries.wrong, now).to_json(), replace=True)
            raise _paused("too many wrong PINs were tried", left)
        wrong = tries.wrong + 1
        self._write(self._tries_path, _Tries(wrong, now).to_json(), replace=True)
        if not kept.fits(given):
            pause = pause_seconds(wrong)
            if pause > 0:
                raise _paused("the PIN is wrong", pause)
            rest = WRONG_TRIES_MAX - wrong
            raise PinRefused(
                f"the PIN is wrong; after {rest} more wrong {'try' if rest == 1 else 'tries'} comes a pause"
            )
        self._forget_tries()

    def _kept(self) -> _Kept:
        raw = self._read(self.path)
        if raw is None:
            raise PinRefused("no PIN is set, so none is right; set one with 'chaoscore pin set'")
        kept = _Kept.from_json(raw)
        if kept is None:
            raise self._malformed(self.path)
        return kept

    def _tries(self) -> _Tries:
        raw = self._read(self._tries_path)
        if raw is None:
            return _Tries(0, 0.0)
        tries = _Tries.from_json(raw)
        if tries is None:
            raise self._malformed(self._tries_path)
        return tries

    def _forget_tries(self) -> None:
        """A malformed count is not forgotten but refused."""
        if self._tries().wrong == 0:
            return
        with self._told(self._tries_path):
            os.unlink(self._tries_path)
            self._sync_directory()

    # -- files -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """The lock between all processes and threads of the user; the kernel drops it with whoever dies."""
        with self._told(self._lock_path):
            file = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
        try:
            for _ in range(int(LOCK_SECONDS_MAX / _LOCK_PAUSE_SECONDS)):
                if self._locked(file):
                    break
                time.sleep(_LOCK_PAUSE_SECONDS)
            else:
                raise StorageError(
                    f"another process keeps {str(self._lock_path)!r} locked; let it end, then try again",
                    code="STORE_BUSY",
                    path=str(self._lock_path),
                )
            yield
        finally:
            os.close(file)

    def _locked(self, file: int) -> bool:
        with self._told(self._lock_path):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def _read(self, path: Path) -> JsonObject | None:
        """What the file holds, ``None`` without one."""
        with self._told(path):
            try:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError:
                if path.is_symlink():
                    raise self._malformed(path) from None
                raise
            try:
                known = os.fstat(file)
                if not stat.S_ISREG(known.st_mode):
                    raise self._malformed(path)
                data = os.read(file, _FILE_BYTES_MAX + 1)
            finally:
                os.close(file)
        if known.st_mode & 0o077:
            raise StorageError(
                f"others may use {str(path)!r} (mode {known.st_mode & 0o777:04o}); if nobody did, run chmod 600 on it",
                code="PERMISSION",
                path=str(path),
            )
        try:
            raw = json.loads(data) if len(data) <= _FILE_BYTES_MAX else None
        except (ValueError, RecursionError):
            raw = None
        if not is_object(raw):
            raise self._malformed(path)
        return raw

    def _write(self, path: Path, raw: JsonObject, *, replace: bool) -> None:
        """Whole and durable, or not at all. Without ``replace`` it never takes the place of a file."""
        draft = path.with_name(f".{path.name}.draft")
        with self._told(path):
            draft.unlink(missing_ok=True)  # left by one that died; the caller holds the lock
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
            try:
                try:
                    os.fchmod(file, _FILE_MODE)
                    left = memoryview(json.dumps(raw).encode() + b"\n")
                    while left:
                        left = left[os.write(file, left) :]
                    os.fsync(file)
                finally:
                    os.close(file)
                if replace:
                    os.replace(draft, path)
                else:
                    os.link(draft, path)
            finally:
                draft.unlink(missing_ok=True)
            self._sync_directory()

    def _sync_directory(self) -> None:
        file = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    @contextlib.contextmanager
    def _told(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise storage_error(error, repr(str(path))) from None

    def _malformed(self, path: Path) -> StorageError:
        return StorageError(
            f"{str(path)!r} is malformed and was left as it is; put a backup in its place, or delete it yourself",
            code="STORE_CORRUPT",
            path=str(path),
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """One hash with what is needed to compute it again."""

    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    @classmethod
    def from_json(cls, raw: JsonObject) -> _Kept | None:
        if set(raw) != {"format", "kdf", "n", "r", "p", "salt", "hash"}:
            return None
        n, r, p, salt, digest = (raw[key] for key in ("n", "r", "p", "salt", "hash"))
        if not _is(raw["format"], _FORMAT, _FORMAT) or raw["kdf"] != "scrypt":
            return None
        # Bounds, so that a file that somebody edited costs neither seconds nor gigabytes.
        if not (_is(n, _N_MIN, _N_MAX) and _is(r, 1, _R_MAX) and _is(p, 1, _P_MAX)) or n & (n - 1):
            return None
        if not isinstance(salt, str) or not isinstance(digest, str):
            return None
        try:
            kept = cls(n, r, p, bytes.fromhex(salt), bytes.fromhex(digest))
        except ValueError:
            return None
        return kept if len(kept.salt) == _SALT_BYTES and len(kept.digest) == _HASH_BYTES else None

    def fits(self, given: str) -> bool:
        if len(given) > PIN_CHARS_MAX:
            return False
        return hmac.compare_digest(self.digest, _scrypt(given, self.salt, self.n, self.r, self.p))


@dataclass(frozen=True, slots=True)
class _Tries:
    """``wrong`` ones in a row, the last one ``at`` seconds since the epoch."""

    wrong: int
    at: float

    @classmethod
    def from_json(cls, raw: JsonObject) -> _Tries | None:
        if set(raw) != {"format", "wrong", "at"} or not _is(raw["format"], _FORMAT, _FORMAT):
            return None
        wrong, at = raw["wrong"], raw["at"]
        if not _is(wrong, 1, 10**9) or isinstance(at, bool) or not isinstance(at, (int, float)):
            return None
        return cls(wrong, float(at)) if abs(at) < 1e12 else None

    def to_json(self) -> JsonObject:
        return {"format": _FORMAT, "wrong": self.wrong, "at": self.at}

    def seconds_left(self, now: float) -> float:
        """Never more than the whole pause, wherever the clock went."""
        pause = pause_seconds(self.wrong)
        return min(pause, max(0.0, self.at + pause - now))


def _is(value: Json, low: int, high: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _new(pin: str) -> str:
    pin = normal_form(pin)
    why = pin_fault(pin)
    if why is not None:
        raise InvalidInput(why, key="pin")
    return pin


def _hashed(pin: str) -> JsonObject:
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = _scrypt(pin, salt, SCRYPT_N, SCRYPT_R, SCRYPT_P)
    return {
        "format": _FORMAT,
        "kdf": "scrypt",
        "n": SCRYPT_N,
        "r": SCRYPT_R,
        "p": SCRYPT_P,
        "salt": salt.hex(),
        "hash": digest.hex(),
    }


def _scrypt(pin: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    secret = normal_form(pin).encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=_HASH_BYTES)


def _paused(why: str, seconds: float) -> PinRefused:
    left = math.ceil(seconds)
    return PinRefused(f"{why}; none is checked for another {left} s, try again then", retry_after_seconds=left)
