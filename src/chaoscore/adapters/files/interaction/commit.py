"""Writing several documents so that the operation either happened or did not.

First everything is written to temporary files and synced where the law of durability asks for it: whatever a full or
broken disk refuses is refused here, with the old state whole. Then the files are moved into place in order. The first
one decides: before it, a failure undoes what was done; after it, the operation has happened, a failure is a warning
naming the file, and self-healing finishes the rest.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaoscore.adapters.files.interaction.fileops import FileOps, close_quietly, storage_error
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.domain.errors import Conflict

_SYNCED_TOGETHER = 64
"""How many files are open at once at most."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True, slots=True)
class Put:
    """``exclusive`` never replaces; ``durable`` syncs the content before it is moved into place."""

    relative: str
    data: bytes
    exclusive: bool = False
    durable: bool = True


@dataclass(frozen=True, slots=True)
class Move:
    """Set a file aside."""

    source: str
    target: str


Step = Put | Move


class Commit:
    """One use. ``prepare`` then ``apply``; ``abandon`` instead of ``apply`` leaves no trace."""

    def __init__(self, folder: Folder, steps: Sequence[Step], temporary: Callable[[str], str]) -> None:
        self._folder = folder
        self._ops: FileOps = folder.ops
        self._steps = steps
        self._temporary = temporary
        self._temps: dict[str, str] = {}
        self._made: list[str] = []
        self._undo: list[Callable[[], None]] = []
        self._at: Step
        self.warnings: list[str] = []
        self.failed: set[str] = set()
        """What was not put where it belongs although the operation happened."""

    def prepare(self) -> None:
        """Raises ``StorageError`` and ``Conflict`` with nothing changed."""
        try:
            for start in range(0, len(self._steps), _SYNCED_TOGETHER):
                self._prepare_together(self._steps[start : start + _SYNCED_TOGETHER])
        except OSError as error:
            self.abandon()
            raise _specific(error, self._at) from error
        except Exception:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Undo what can be undone; what cannot is swept later or healed."""
        for undo in reversed(self._undo):
            _quietly(undo)
        self._undo.clear()
        for temporary in self._temps.values():
            _quietly(self._ops.unlink, temporary)
        self._temps.clear()
        for directory in reversed(self._made):
            _quietly(self._ops.rmdir, self._folder.path(directory))
        self._made.clear()

    def apply(self) -> None:
        """Raises ``StorageError`` and ``Conflict`` only when nothing happened."""
        decided = False
        for step in self._steps:
            try:
                if decided:
                    self._place(step)
                else:
                    decided = self._decide(step)
            except OSError as error:
                if not decided:
                    self.abandon()
                    raise _specific(error, step) from error
                why = (error.strerror or "failed").lower()
                self.failed.add(_name(step))
                self.warnings.append(f"{_name(step)} could not be written ({why}); the operation happened all the same")
        for temporary in self._temps.values():
            _quietly(self._ops.unlink, temporary)

    def _prepare_together(self, steps: Sequence[Step]) -> None:
        """All are written before the first is synced: that sync writes the journal for the others, too."""
        written: list[tuple[Put, int]] = []
        try:
            for self._at in steps:
                if isinstance(self._at, Move):
                    self._directory(self._at.target.rpartition("/")[0])
                else:
                    written.append((self._at, self._written(self._at)))
            for self._at, fd in written:
                if self._at.durable:
                    self._ops.fsync(fd)
            while written:
                self._at, fd = written.pop()
                self._ops.close(fd)
        finally:
            for _, fd in written:
                close_quietly(self._ops, fd)

    def _written(self, step: Put) -> int:
        """The temporary file with the content, still open."""
        directory = step.relative.rpartition("/")[0]
        if directory:
            self._directory(directory, exclusive=step.exclusive and step.relative.endswith("/decision.json"))
        temporary = self._temporary(self._folder.path(step.relative))
        fd = self._ops.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._temps[step.relative] = temporary
        try:
            rest = step.data
            while rest:
                rest = rest[self._ops.write(fd, rest) :]
        except BaseException:
            close_quietly(self._ops, fd)
            raise
        return fd

    def _directory(self, relative: str, exclusive: bool = False) -> None:
        """Make it and what is above it. ``exclusive`` raises ``FileExistsError`` when it is there."""
        parent = relative.rpartition("/")[0]
        if parent:
            self._directory(parent)
        try:
            self._ops.mkdir(self._folder.path(relative))
        except FileExistsError:
            if exclusive and relative not in self._made:
                raise
            self._folder.require_inside(relative)
        else:
            self._made.append(relative)

    def _decide(self, step: Step) -> bool:
        """Place with a way back, and make it durable; whether this was the step that decides."""
        if isinstance(step, Move):
            self._ops.rename(self._folder.path(step.source), self._folder.path(step.target))
            self._undo.append(lambda: self._ops.rename(self._folder.path(step.target), self._folder.path(step.source)))
            return False
        path = self._folder.path(step.relative)
        backup = None if step.exclusive else self._backup(path)
        if backup is not None:
            self._temps[f"{step.relative} before"] = backup
        self._place(step)
        if backup is not None:
            self._undo.append(lambda: self._ops.rename(backup, path))
        else:
            self._undo.append(lambda: self._ops.unlink(path))
        if step.durable:
            self._make_durable(step)
        self._undo.clear()
        self._made.clear()
        return True

    def _make_durable(self, step: Put) -> None:
        """Sync, or take the file back. One that cannot even be taken back is there for all to see: it has happened."""
        try:
            self._sync(step.relative)
        except OSError as error:
            try:
                self._undo.pop()()
            except OSError:
                why = (error.strerror or "failed").lower()
                self.warnings.append(
                    f"{step.relative} is written but could not be synced ({why}): a power cut may still lose it"
                )
                return
            raise

    def _place(self, step: Step) -> None:
        if isinstance(step, Move):
            self._ops.rename(self._folder.path(step.source), self._folder.path(step.target))
            return
        temporary, path = self._temps[step.relative], self._folder.path(step.relative)
        if not step.exclusive:
            self._ops.rename(temporary, path)
            del self._temps[step.relative]
            return
        try:
            self._ops.link(temporary, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, "file exists") from error
            self._ops.rename(temporary, path)
            del self._temps[step.relative]

    def _backup(self, path: str) -> str | None:
        backup = self._temporary(path)
        try:
            self._ops.link(path, backup)
        except OSError:
            return None
        return backup

    def _sync(self, relative: str) -> None:
        """The directory of the file, and every directory that got a new entry on the way."""
        directories = [relative.rpartition("/")[0]]
        mine = [made for made in reversed(self._made) if relative.startswith(f"{made}/")]
        directories += [made.rpartition("/")[0] for made in mine]
        for directory in dict.fromkeys(directories):
            fd = self._ops.open(self._folder.path(directory) if directory else self._folder.root, os.O_RDONLY)
            try:
                self._ops.fsync(fd)
            finally:
                close_quietly(self._ops, fd)


def _name(step: Step) -> str:
    return step.relative if isinstance(step, Put) else step.source


def _specific(error: OSError, step: Step) -> Exception:
    if isinstance(error, FileExistsError):
        return Conflict(f"{_name(step)} is there already and is never written over; look at it first")
    return storage_error(error, _name(step))


def _quietly(action: Callable[..., None], *arguments: str) -> None:
    with contextlib.suppress(OSError):
        action(*arguments)
