"""The keys of the ``requestState`` seal: one private file in the data directory, shared by every process that uses it.

One key a line, 64 hexadecimal digits each, the newest first: the first seals, each opens. The file is made on first
use, whole from the moment it is there. It is read anew each time it is needed, because people are asked rarely and
another process may have rotated it meanwhile.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from chaoscore.domain.errors import StorageError

FILE_NAME = "request-state.keys"
FILE_MODE = 0o600
KEY_BYTES = 32
KEYS_MAX = 8
"""Rotating beyond this drops the oldest."""

_KEY = re.compile(r"[0-9a-f]{64}")


class StateKeys:
    """Blocking: call it outside the event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[bytes, ...]:
        """All keys, the newest first; makes the file when there is none.

        Raises ``StorageError`` when it cannot be made or read, and when it does not hold keys: a file that is not
        understood is never written over.
        """
        try:
            text = self._read()
            if text is None:
                self._put([secrets.token_hex(KEY_BYTES)], replace=False)
                text = self._read() or ""
        except OSError as error:
            raise self._failed(error) from None
        lines = text.split()
        if not 0 < len(lines) <= KEYS_MAX or not all(_KEY.fullmatch(line) for line in lines):
            raise StorageError(
                f"{str(self.path)!r} does not hold keys; put it back from a backup, or delete it: questions that are "
                "open in clients are then asked again",
                code="STORE_CORRUPT",
                path=str(self.path),
            )
        return tuple(bytes.fromhex(line) for line in lines)

    def rotate(self) -> None:
        """Seal with a new key from now on; what older keys sealed still opens.

        Raises ``StorageError``. Of two rotations at the same moment one may be lost.
        """
        older = [key.hex() for key in self.load()]
        try:
            self._put([secrets.token_hex(KEY_BYTES), *older][:KEYS_MAX], replace=True)
        except OSError as error:
            raise self._failed(error) from None

    def _read(self) -> str | None:
        try:
            return self.path.read_text("ascii", "replace")
        except FileNotFoundError:
            return None

    def _put(self, keys: list[str], *, replace: bool) -> None:
        """The file with these keys, durable and whole; another process's is replaced only when asked to."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        try:
            with os.fdopen(file, "w", encoding="ascii") as out:
                out.write("".join(f"{key}\n" for key in keys))
                out.flush()
                os.fsync(out.fileno())
            if replace:
                os.replace(draft, self.path)
            else:
                _link(draft, self.path)
        finally:
            draft.unlink(missing_ok=True)

    def _failed(self, error: OSError) -> StorageError:
        why = (error.strerror or "unknown error").lower()
        return StorageError(
            f"the keys {str(self.path)!r} cannot be used: {why}",
            code="PERMISSION" if isinstance(error, PermissionError) else "IO_ERROR",
            path=str(self.path),
        )


def _link(draft: Path, path: Path) -> None:
    """Give the file its name unless another process was first. Unlike a rename, a link never takes a place."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return
