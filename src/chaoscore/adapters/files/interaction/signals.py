"""Signs that somebody changed the folder: the audit log grows with every change of state, directories with every new
or replaced file. A token remembers how far we have seen; what it says is compared with what stands on disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chaoscore.adapters.files.interaction.encoding import NotJson, loads
from chaoscore.adapters.files.interaction.fileops import Stat, close_quietly
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.names import AUDIT_PATH, is_id
from chaoscore.domain.json import Json, is_object

_TAIL_BYTES = 128
_CHUNK_BYTES_MAX = 8 << 20
DIRECTORIES = ("sessions", "decisions", "capsules")


@dataclass(frozen=True, slots=True)
class Token:
    """How far the audit log was read (``tail`` is what stood before ``offset``), and the directories as they were."""

    audit_inode: int = 0
    offset: int = 0
    tail: str = ""
    directories: tuple[tuple[int, int, int], ...] = ((0, 0, 0),) * 3

    def to_json(self) -> Json:
        return [self.audit_inode, self.offset, self.tail, [list(stats) for stats in self.directories]]

    @classmethod
    def from_json(cls, value: Json) -> Token | None:
        try:
            inode, offset, tail, stats = value  # type: ignore[misc, str-unpack]
            return cls(int(inode), int(offset), str(tail), tuple((int(a), int(b), int(c)) for a, b, c in stats))  # type: ignore[union-attr, arg-type, misc]
        except (TypeError, ValueError):
            return None


@dataclass(slots=True)
class Names:
    """Documents that events name."""

    runs: set[str]
    decisions: set[str]

    def __bool__(self) -> bool:
        return bool(self.runs or self.decisions)


@dataclass(frozen=True, slots=True)
class News:
    """``names`` is ``None`` when the log cannot tell: it was replaced, cut, or is not readable as JSON lines."""

    token: Token
    names: Names | None
    changed: frozenset[str]
    directories: tuple[tuple[int, int, int], ...] = ((0, 0, 0),) * 3

    def directory(self, name: str) -> tuple[int, int, int]:
        """As it is now, however young."""
        return self.directories[DIRECTORIES.index(name)]

    @property
    def nothing(self) -> bool:
        return self.names is not None and not self.names and not self.changed


def look(folder: Folder, seen: Token, young_after_ns: int | None = None) -> News:
    """What is new since ``seen``. One that changed after ``young_after_ns`` is looked at again."""
    audit = folder.stat(AUDIT_PATH)
    stats = tuple(_directory(folder.stat(name)) for name in DIRECTORIES)
    changed = frozenset(
        name for name, before, after in zip(DIRECTORIES, seen.directories, stats, strict=True) if before != after
    )
    kept = tuple(
        (0, 0, 0) if name in changed and young_after_ns is not None and at[1] >= young_after_ns else at
        for name, at in zip(DIRECTORIES, stats, strict=True)
    )
    return replace(_told(folder, seen, audit, kept, changed), directories=stats)


def _told(
    folder: Folder, seen: Token, audit: Stat | None, kept: tuple[tuple[int, int, int], ...], changed: frozenset[str]
) -> News:
    if audit is None:
        names = Names(set(), set()) if seen.offset == 0 else None
        return News(Token(0, 0, "", kept), names, changed)
    if audit.inode == seen.audit_inode and audit.size == seen.offset:
        return News(Token(seen.audit_inode, seen.offset, seen.tail, kept), Names(set(), set()), changed)
    return _read(folder, seen, audit, kept, changed)


def _read(
    folder: Folder, seen: Token, audit: Stat, kept: tuple[tuple[int, int, int], ...], changed: frozenset[str]
) -> News:
    same = audit.inode == seen.audit_inode and audit.size > seen.offset
    start = seen.offset if same else 0
    begin = max(0, start - _TAIL_BYTES)
    if same and audit.size - start > _CHUNK_BYTES_MAX:
        same, begin = False, max(0, audit.size - _TAIL_BYTES)
    if not same:
        begin = max(0, audit.size - _TAIL_BYTES)
        start = audit.size
    data = _content(folder, begin, audit.size - begin)
    if data is None:
        return News(Token(0, 0, "", kept), None, changed)
    before, fresh = data[: start - begin], data[start - begin :]
    whole = fresh[: fresh.rfind(b"\n") + 1]
    offset = start + len(whole)
    tail = (before + whole)[-_TAIL_BYTES:].hex()
    token = Token(audit.inode, offset, tail, kept)
    if not same or before[-_TAIL_BYTES:].hex() != seen.tail:
        return News(token, None, changed)
    return News(token, _named(whole.splitlines()), changed)


def _content(folder: Folder, begin: int, size: int) -> bytes | None:
    try:
        fd = folder.ops.open(folder.path(AUDIT_PATH), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return folder.ops.pread(fd, size, begin)
    except OSError:
        return None
    finally:
        close_quietly(folder.ops, fd)


def _named(lines: Iterable[bytes]) -> Names | None:
    names = Names(set(), set())
    for line in lines:
        if not line.strip():
            continue
        try:
            event = loads(line)
        except (NotJson, ChaosError):
            return None
        if not is_object(event):
            return None
        run, decision = event.get("commandRunId"), event.get("decisionId")
        if isinstance(run, str) and is_id(run):
            names.runs.add(run)
        if isinstance(decision, str) and is_id(decision):
            names.decisions.add(decision)
    return names


def _directory(stat: Stat | None) -> tuple[int, int, int]:
    return (stat.inode, stat.mtime, stat.ctime) if stat is not None else (0, 0, 0)
