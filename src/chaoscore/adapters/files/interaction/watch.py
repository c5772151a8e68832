"""What anybody changed in the folder since the last look: the feed behind resource subscriptions.

``app.interaction_surface.resources`` asks while somebody watches. A look at a quiet folder is about ten ``lstat`` and
no read. The audit log names what most changes touch; a directory that changed is gone through for entries that are
newer than the last look, because re-entering a session and answers written by hand leave no audit line.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaoscore.adapters.files.interaction.fileops import FileOps, Stat
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.signals import Token, look
from chaoscore.app.interaction_surface.resources import Changed
from chaoscore.app.ports import Clock
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.names import ACTIVE_PATH, LOCKS_PATH, is_id
from chaoscore.domain.json import is_array, is_object

_YOUNG_NS = 20_000_000
_SLACK_NS = 50_000_000
_PENDING_MAX = 200
_REST_FACTOR = 20
_LISTED = (ACTIVE_PATH, LOCKS_PATH)


@dataclass(slots=True)
class _Seen:
    """The folder as it was. ``newest_ns`` is the wall time up to which directories were gone through."""

    token: Token
    files: dict[str, Stat | None]
    pending: dict[str, Stat | None]
    newest_ns: int
    unread: set[str] = field(default_factory=set)


class FolderFeed:
    """``ChangeFeed`` over the folder at ``root``, whether or not it exists yet."""

    def __init__(self, root: Path, clock: Clock, document_bytes_max: int, ops: FileOps | None = None) -> None:
        self._folder = Folder(root, ops or FileOps(), document_bytes_max)
        self._clock = clock
        self._seen: _Seen | None = None
        self._rest_until = 0.0

    def start(self) -> None:
        """A dozen system calls and one small read."""
        self._seen = None
        self._seen = self._first()

    async def changes(self) -> Changed:
        if self._seen is None:
            self.start()
            return Changed(anything=True)
        return await asyncio.to_thread(self._next, self._seen)

    def _now_ns(self) -> int:
        return int(self._clock.now() * 1e9)

    def _first(self) -> _Seen:
        now = self._now_ns()
        token = look(self._folder, Token(), now - _YOUNG_NS).token
        return _Seen(token, {path: self._folder.stat(path) for path in _LISTED}, self._pending({}), now)

    def _next(self, seen: _Seen) -> Changed:
        now = self._now_ns()
        news = look(self._folder, seen.token, now - _YOUNG_NS)
        seen.token = news.token
        runs = set(news.names.runs) if news.names is not None else set()
        decisions = set(news.names.decisions) if news.names is not None else set()
        files = {path: self._folder.stat(path) for path in _LISTED}
        anything = files != seen.files or bool(news.changed) or news.names is None
        seen.unread |= news.changed if news.names is not None else {"sessions", "decisions", "capsules"}
        if seen.unread and self._clock.monotonic() >= self._rest_until:
            began = self._clock.monotonic()
            since = seen.newest_ns - _SLACK_NS
            for directory in seen.unread:
                (decisions if directory == "decisions" else runs).update(self._newer(directory, since))
            seen.unread, seen.newest_ns = set(), now
            # A large folder is gone through less often, so that watching never takes more than a twentieth of a core.
            self._rest_until = self._clock.monotonic() + _REST_FACTOR * (self._clock.monotonic() - began)
        if files[ACTIVE_PATH] != seen.files[ACTIVE_PATH]:
            seen.pending = {name: seen.pending.get(name, found) for name, found in self._pending(seen.pending).items()}
        for name, before in seen.pending.items():
            found = self._folder.stat(f"decisions/{name}")
            if found != before:
                decisions.add(name)
                seen.pending[name] = found
        seen.files = files
        return Changed(frozenset(filter(is_id, runs)), frozenset(filter(is_id, decisions)), anything)

    def _newer(self, directory: str, since_ns: int) -> set[str]:
        """Ids of the entries written or renamed since; a rename counts although it keeps the time of writing."""

        def name_of(entry: str, is_directory: bool) -> str | None:
            if directory == "decisions":
                return entry if is_directory else None
            return entry[:-5] if entry.endswith(".json") and not is_directory else None

        return _entries(self._folder.path(directory), since_ns, name_of)

    def _pending(self, known: dict[str, Stat | None]) -> dict[str, Stat | None]:
        """The decisions that ``active.json`` says wait, with their directories as they are."""
        try:
            active = self._folder.load(ACTIVE_PATH)
        except ChaosError:
            return known
        names = active.get("pendingDecisionIds") if is_object(active) else None
        wanted = [name for name in names if isinstance(name, str) and is_id(name)] if is_array(names) else []
        return {name: self._folder.stat(f"decisions/{name}") for name in wanted[:_PENDING_MAX]}


def _entries(path: str, since_ns: int, name_of: Callable[[str, bool], str | None]) -> set[str]:
    found: set[str] = set()
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if max(status.st_mtime_ns, status.st_ctime_ns) >= since_ns:
                    name = name_of(entry.name, stat.S_ISDIR(status.st_mode))
                    if name is not None:
                        found.add(name)
    except OSError:
        pass  # gone meanwhile: the next look sees what became of it
    return found
