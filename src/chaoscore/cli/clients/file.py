"""Somebody else's configuration file: read whole, written atomically, with the old one kept beside it."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaoscore.cli.clients.members import Unreadable
from chaoscore.domain.errors import Conflict, InvalidInput, StorageError

FILE_BYTES_MAX = 67_108_864


@dataclass(frozen=True, slots=True)
class Edit:
    """What became of a file: ``backup`` is where the old content is, ``None`` where there was none or no change."""

    path: Path
    changed: bool
    backup: Path | None = None


def edit(path: Path, change: Callable[[str], str]) -> Edit:
    """Apply ``change`` to the text of ``path`` (empty where there is no file).

    A link is followed, permissions are kept. Raises ``InvalidInput`` for a file that its owner could not read either,
    ``Conflict`` when somebody wrote it meanwhile, ``StorageError``; the file is untouched then.
    """
    real = Path(os.path.realpath(path))
    try:
        before = _read(real)
        try:
            text = "" if before is None else before.decode("utf-8")
            after = change(text)
        except UnicodeDecodeError:
            raise InvalidInput(f"{str(path)!r} is not UTF-8 text; nothing was changed", key=str(path)) from None
        except Unreadable as error:
            raise InvalidInput(f"{str(path)!r} was left alone: {error}", key=str(path)) from None
        if after == text:
            return Edit(path, changed=False)
        real.parent.mkdir(parents=True, exist_ok=True)
        backup = _keep(real, before) if before is not None else None
        if _read(real) != before:
            raise Conflict(f"{str(path)!r} was changed by somebody else just now; run it again", key=str(path))
        _write(real, after.encode("utf-8"))
    except OSError as error:
        why = (error.strerror or "unknown error").lower()
        raise StorageError(
            f"{str(path)!r}: {why}", code="PERMISSION" if error.errno in (1, 13) else "IO_ERROR"
        ) from None
    return Edit(path, changed=True, backup=backup)


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidInput(f"{str(path)!r} is not a file", key=str(path))
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInput(f"{str(path)!r} has more than {FILE_BYTES_MAX} bytes", key=str(path))
    return data


def _keep(path: Path, data: bytes) -> Path:
    """A copy of the file as it was, readable by whoever could read the file."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1_000):
        backup = path.with_name(f"{path.name}.{stamp}{f'-{number}' if number else ''}.bak")
        try:
            handle = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            continue
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return backup
    raise StorageError(f"too many backups of {str(path)!r} within one second", code="IO_ERROR")


def _write(path: Path, data: bytes) -> None:
    mode = stat.S_IMODE(os.stat(path).st_mode) if path.exists() else 0o600
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            os.fchmod(file.fileno(), mode) if hasattr(os, "fchmod") else None
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
