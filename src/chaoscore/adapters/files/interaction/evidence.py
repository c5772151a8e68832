"""The folder and its repository as the doctor looks at them: everything read once, nothing written, nothing raised."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from chaoscore.adapters.files.interaction import schemas
from chaoscore.adapters.files.interaction.encoding import NotJson, loads
from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.files.interaction.folder import TABLE_BYTES_MAX, Folder
from chaoscore.adapters.files.interaction.settings import FolderSettings
from chaoscore.adapters.files.interaction.write_lock import NAME as LOCK_NAME
from chaoscore.adapters.files.interaction.write_lock import process_started_ms
from chaoscore.app.interaction_doctor.evidence import Document, EntryKind, Kind, Line, WriteLockFacts
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.errors import MalformedState, SchemaViolation, Violation
from chaoscore.domain.interaction.names import INDEX_PATH, LOCKS_PATH
from chaoscore.domain.json import Json

_FILES: dict[Kind, tuple[str, str]] = {
    "session": ("sessions", ".json"),
    "capsule": ("capsules", ".json"),
    "runner": ("runners", ".json"),
}
_LINE_BYTES_MAX = 8_388_608
_TEXT_BYTES_MAX = 1_048_576
_NO_FLOCK = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK})


class FolderEvidence:
    """``now`` gives seconds since the epoch."""

    def __init__(self, settings: FolderSettings, now: Callable[[], float]) -> None:
        self._settings = settings
        self._now = now
        ops = FileOps()
        self._folder = Folder(settings.root, ops, settings.limits.document_bytes_max)
        self._around = Folder(settings.repository, ops, _TEXT_BYTES_MAX)
        self._schemas = schemas.Schemas(settings.schema_dir, settings.validate)

    @property
    def root(self) -> str:
        return str(self._settings.root)

    @property
    def repository(self) -> str:
        return str(self._settings.repository)

    @property
    def schema_dir(self) -> str:
        return str(self._settings.schema_dir)

    def shown(self, path: str) -> str:
        full = self._settings.root / path
        try:
            return full.relative_to(self._settings.repository).as_posix()
        except ValueError:
            return str(full)

    def entry(self, path: str) -> EntryKind:
        return _entry(self._settings.root, path)

    def document(self, path: str) -> Document | None:
        name = path.rpartition("/")[2]
        try:
            data = self._folder.content(path, TABLE_BYTES_MAX if path in (INDEX_PATH, LOCKS_PATH) else None)
            return None if data is None else Document(path, name, self._folder.parse(path, data))
        except ChaosError as error:
            return Document(path, name, problem=error.message)

    def documents(self, kind: Kind) -> Iterator[Document]:
        if kind in ("decision", "response"):
            names = [name for name, is_folder in self._names("decisions") if is_folder]
            paths = ((name, f"decisions/{name}/{kind}.json") for name in names)
        else:
            directory, ending = _FILES[kind]
            files = [name for name, _ in self._names(directory) if name.endswith(ending)]
            paths = ((name.removesuffix(ending), f"{directory}/{name}") for name in files)
        for name, path in paths:
            found = self.document(path)
            if found is not None:
                yield Document(found.path, name, found.value, found.problem)

    def _names(self, directory: str) -> Sequence[tuple[str, bool]]:
        try:
            return self._folder.names(directory)
        except ChaosError:
            return ()  # the root's probe says what stands there instead

    def lines(self, path: str) -> Iterator[Line]:
        return _lines(f"{self.root}/{path}")

    def schema_kinds(self) -> Sequence[str]:
        return schemas.KINDS

    def schema_problem(self, kind: str) -> str | None:
        path = self._settings.schema_dir / schemas.file_name(kind)
        if not os.path.lexists(path):
            return "missing"
        return schemas.Schemas(self._settings.schema_dir, True).problem(kind)

    def violations(self, kind: str, value: Json) -> Sequence[Violation]:
        if not isinstance(value, dict):
            return (Violation("", "must be an object"),)
        try:
            self._schemas.require(kind, kind, value)
        except SchemaViolation as error:
            return error.violations
        except MalformedState:
            return ()  # the schema's own probe says so
        return ()

    def write_lock(self) -> WriteLockFacts:
        path = f"{self.root}/{LOCK_NAME}"
        try:
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode):
                return WriteLockFacts("directory")
            if not stat.S_ISREG(found.st_mode):
                return WriteLockFacts("unreadable")
            with open(path, "rb") as file:
                record = json.loads(file.read(4_096))
            pid, at = int(record["pid"]), float(record["at"])
        except FileNotFoundError:
            return WriteLockFacts("free")
        except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
            return WriteLockFacts("unreadable")
        seconds = max(0.0, self._now() - at / 1000)
        began = process_started_ms(pid) if pid > 0 else None
        alive = began is not None and began <= at + 1_000
        return WriteLockFacts("held" if alive else "dead", f"process {pid}", seconds)

    def leftovers(self) -> Sequence[str]:
        limit = self._now() - self._settings.temp_age_seconds
        out = []
        for directory, _, names in os.walk(self.root, followlinks=False):
            for name in names:
                if name.startswith(".") and name.endswith(".tmp"):
                    path = f"{directory}/{name}"
                    try:
                        old = os.lstat(path).st_mtime <= limit
                    except OSError:
                        continue
                    if old:
                        out.append(os.path.relpath(path, self.root).replace(os.sep, "/"))
        return sorted(out)

    def restrictions(self) -> Sequence[str]:
        out = []
        try:
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return ()
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # somebody writes: there are locks
            except OSError as error:
                if error.errno in _NO_FLOCK:
                    out.append("this file system has no flock: processes exclude each other by the lock file alone")
        finally:
            os.close(fd)
        if not os.access(self.root, os.W_OK | os.X_OK):
            out.append("this user may not write in the interactions folder: decisions can be read and not answered")
        return out

    def repository_entry(self, path: str) -> EntryKind:
        return _entry(self._settings.repository, path)

    def repository_text(self, path: str) -> str | None:
        try:
            data = self._around.content(path)
        except ChaosError:
            return None
        return None if data is None else data.decode("utf-8", "replace")

    def repository_lines(self, path: str) -> Iterator[Line]:
        return _lines(f"{self.repository}/{path}")


def _entry(base: Path, path: str) -> EntryKind:
    """What stands at a path below ``base``; nothing outside it is ever looked into."""
    try:
        full = os.path.normpath(base / path)
        root = os.path.realpath(base)
        real = os.path.realpath(full)
        if path and real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
            return "leads-out"
        mode = os.stat(full).st_mode
    except (OSError, ValueError):
        return "absent"
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def _lines(path: str) -> Iterator[Line]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
        file = os.fdopen(fd, "rb")
    except OSError:
        return
    with file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        number = 0
        while data := file.readline(_LINE_BYTES_MAX):
            number += 1
            whole = data.endswith(b"\n")
            if not data.strip():
                continue
            try:
                yield Line(number, loads(data), None, whole)
            except NotJson as error:
                yield Line(number, None, str(error), whole)
