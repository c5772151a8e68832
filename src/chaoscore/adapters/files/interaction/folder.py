"""Reading the folder: bounded, whole, and never through a symbolic link that leads out of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from pathlib import Path

from chaoscore.adapters.files.interaction.encoding import NotJson, loads
from chaoscore.adapters.files.interaction.fileops import FileOps, Stat, close_quietly, storage_error
from chaoscore.domain.interaction.errors import MalformedState
from chaoscore.domain.json import Json

TABLE_BYTES_MAX = 1 << 28
"""Of ``locks.json`` and ``index.json``, which grow with every session that a peer ever had."""
_CHUNK = 1 << 18


class Folder:
    """``root`` may itself be a symbolic link; nothing below it may lead out."""

    def __init__(self, root: Path, ops: FileOps, bytes_max: int) -> None:
        self.root = str(root)
        self.ops = ops
        self._bytes_max = bytes_max

    def path(self, relative: str) -> str:
        return f"{self.root}/{relative}"

    def exists(self) -> bool:
        return os.path.isdir(self.root)

    def stat(self, relative: str) -> Stat | None:
        """Of the entry itself; ``None`` when nothing is there."""
        try:
            return self.ops.lstat(self.path(relative))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, relative) from error

    def names(self, directory: str) -> list[tuple[str, bool]]:
        """Entries with whether each is a real directory, byte-wise ascending; nothing for a missing directory."""
        return sorted(self.listed(directory), key=lambda entry: os.fsencode(entry[0]))

    def listed(self, directory: str) -> list[tuple[str, bool]]:
        """As ``names``, in any order."""
        try:
            self.require_inside(directory)
            return self.ops.scan(self.path(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise storage_error(error, directory) from error

    def load(self, relative: str, bytes_max: int | None = None) -> Json | None:
        """The JSON document, ``None`` when there is none. Raises ``MalformedState``, ``StorageError``."""
        data = self.content(relative, bytes_max)
        return None if data is None else self.parse(relative, data)

    def parse(self, relative: str, data: bytes) -> Json:
        """Raises ``MalformedState``: in a question or an answer also for a key that stands twice, because its readers
        would differ in what was asked or answered."""
        try:
            return loads(data, unique=relative.startswith("decisions/"))
        except NotJson as error:
            raise malformed(relative, str(error)) from None

    def content(self, relative: str, bytes_max: int | None = None) -> bytes | None:
        """The whole file, ``None`` when there is none or only a link to nothing. ``bytes_max`` is a document's unless
        given."""
        fd = self._opened(relative)
        return None if fd is None else b"".join(self._blocks(fd, relative, bytes_max or self._bytes_max))

    def blocks(self, relative: str, bytes_max: int) -> Generator[bytes, None, None]:
        """The file bit by bit, nothing when there is none. Raises as ``load``; to be closed."""
        fd = self._opened(relative)
        if fd is not None:
            yield from self._blocks(fd, relative, bytes_max)

    def _opened(self, relative: str) -> int | None:
        try:
            directory = relative.rpartition("/")[0]
            if directory:
                self.require_inside(directory)
            return self._open(relative)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            raise malformed(relative, "it may not be read") from None
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EINVAL):
                return None
            raise storage_error(error, relative) from error

    def _open(self, relative: str) -> int:
        path = self.path(relative)
        flags = os.O_RDONLY | os.O_NONBLOCK
        try:
            return self.ops.open(path, flags | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        self.require_inside(relative)
        return self.ops.open(path, flags)

    def _blocks(self, fd: int, relative: str, bytes_max: int) -> Generator[bytes, None, None]:
        try:
            found = self.ops.fstat(fd)
            if not stat.S_ISREG(found.mode):
                raise malformed(relative, "it is not a regular file")
            if found.size > bytes_max:
                raise malformed(relative, f"it has more than {bytes_max} bytes")
            at_once = min(found.size + 1, _CHUNK)
            while part := self.ops.read(fd, at_once):
                yield part
        except OSError as error:
            raise storage_error(error, relative) from error
        finally:
            close_quietly(self.ops, fd)

    def require_inside(self, relative: str) -> None:
        """A link on the way must stay below the root. Raises ``MalformedState``, ``OSError``."""
        at = ""
        for part in relative.split("/"):
            at = f"{at}/{part}" if at else part
            found = self.ops.lstat(self.path(at))
            if stat.S_ISLNK(found.mode):
                real, base = self.ops.realpath(self.path(at)), self.ops.realpath(self.root)
                if real != base and not real.startswith(base.rstrip("/") + "/"):
                    raise malformed(at, "it is a symbolic link that leads out of the interactions folder")


def malformed(relative: str, why: str) -> MalformedState:
    return MalformedState(f"{relative} cannot be understood: {why}; repair or remove it", path=relative)
