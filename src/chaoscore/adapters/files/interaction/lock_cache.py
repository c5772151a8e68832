"""The lock table, parsed once per version of its file: it is read by every call and changes with few."""

from __future__ import annotations

import time

from chaoscore.adapters.files.interaction.fileops import Stat
from chaoscore.adapters.files.interaction.folder import Folder, malformed
from chaoscore.domain.interaction.fields import WrongShape
from chaoscore.domain.interaction.lock import LockTable
from chaoscore.domain.interaction.names import LOCKS_PATH

_YOUNG_NS = 20_000_000


class LockCache:
    """A file changed a moment ago is not remembered: time stamps are too coarse to tell two writes apart."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._stat: Stat | None = None
        self._table = LockTable()

    def table(self) -> LockTable:
        """Raises ``MalformedState``, ``StorageError``."""
        stat = self._folder.stat(LOCKS_PATH)
        if stat is not None and stat == self._stat:
            return self._table
        self._stat = None
        value = self._folder.load(LOCKS_PATH)
        try:
            table = LockTable() if value is None else LockTable.from_json(value)
        except WrongShape as error:
            raise malformed(LOCKS_PATH, str(error)) from None
        if stat is not None and time.time_ns() - stat.mtime > _YOUNG_NS:
            self._stat, self._table = stat, table
        return table
