"""Reads of one row on the event loop's own thread, where that keeps nobody waiting.

``database`` stands above it. The way to the reading thread and back costs several times what the row costs, so a row is
looked up here first, and whatever is declined here goes to the thread. A glance is declined unless all of this holds:

- The row was read by the thread, or written by this process, within the last minute: then its pages are in memory, and
  the loop does not wait for a disk.
- The file at the path is still the one that was opened, and SQLite answers without waiting for a lock (a reader of a
  WAL seldom has to).
- The row is short, because turning it into a value is the loop's time too.
- No glance of late took long. One that did means that memory is not what it seems, and glances pause.
- It is not the turn of the thread: one read in ``GLANCES_MAX`` goes there, so that a caller who only reads lets others
  run, too.

The connection is opened and closed by the reading thread only.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Hashable
from pathlib import Path

from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.adapters.sqlite.failures import is_busy
from chaoscore.adapters.sqlite.opening import Opening
from chaoscore.adapters.sqlite.rows import Row
from chaoscore.app.ports import Clock

WARM_SECONDS = 60.0
WARM_ROWS_MAX = 4_096
ROW_CHARS_MAX = 16_384
GLANCES_MAX = 32
SLOW_SECONDS = 0.02
PAUSE_SECONDS = 30.0

DECLINED = object()

Fetch = Callable[[sqlite3.Connection], Row | None]


class Glance:
    def __init__(self, disk: Disk, opening: Opening, clock: Clock) -> None:
        self._clock = clock
        self._disk = disk
        self._opening = opening
        self._path: Path = opening.path
        self._connection: sqlite3.Connection | None = None
        self._of: tuple[int, int] | None = None
        self._unclosed: list[sqlite3.Connection] = []
        self._warm: dict[Hashable, float] = {}
        self._in_a_row = 0
        self._paused_until = 0.0
        self._ended = False

    # -- in the event loop's thread --------------------------------------------------------------------------

    def take(self, name: Hashable, fetch: Fetch) -> object:
        """The row called ``name``, ``None`` when there is none, or ``DECLINED``. Raises nothing of the store's."""
        warm_until = self._warm.get(name)
        if warm_until is None:
            return DECLINED
        began = self._clock.monotonic()
        self._in_a_row += 1
        if self._in_a_row >= GLANCES_MAX or began >= warm_until or began < self._paused_until:
            self._in_a_row = 0
            return DECLINED
        # Out of its place while in use: whoever comes meanwhile, from another loop or the thread, finds none.
        connection, self._connection = self._connection, None
        if connection is None:
            return DECLINED
        try:
            row = fetch(connection) if self._disk.identity(self._path) == self._of else DECLINED
        except (sqlite3.Error, OSError) as error:
            if is_busy(error):
                self._connection = connection
            else:
                self._unclosed.append(connection)
            return DECLINED
        if row is DECLINED or self._ended:
            self._unclosed.append(connection)
            return DECLINED
        self._connection = connection
        ended = self._clock.monotonic()
        if ended - began > SLOW_SECONDS:
            self._paused_until = ended + PAUSE_SECONDS
        if _is_long(row):
            del self._warm[name]
            return DECLINED
        return row

    def warm(self, name: Hashable) -> None:
        """The row was just read or written, so its pages are in memory."""
        warm = self._warm
        warm.pop(name, None)
        if len(warm) >= WARM_ROWS_MAX:
            del warm[next(iter(warm))]
        warm[name] = self._clock.monotonic() + WARM_SECONDS

    # -- in the reading thread -------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Open the connection where there is none. What fails here only means that there will be no glance."""
        self._close_what_failed()
        if self._connection is not None or self._ended:
            return
        with contextlib.suppress(sqlite3.Error, OSError):
            identity = self._disk.identity(self._path)
            connection = self._opening.reader()
            try:
                connection.execute("PRAGMA busy_timeout = 0")
                same = self._disk.identity(self._path) == identity
            except BaseException:
                connection.close()
                raise
            if not same:
                connection.close()
                return
            self._of = identity
            self._connection = connection

    def end(self) -> None:
        self._ended = True
        connection, self._connection = self._connection, None
        if connection is not None:
            self._unclosed.append(connection)
        self._close_what_failed()

    def _close_what_failed(self) -> None:
        while self._unclosed:
            with contextlib.suppress(sqlite3.Error):
                self._unclosed.pop().close()


def _is_long(row: object) -> bool:
    return isinstance(row, tuple) and sum(len(part) for part in row if isinstance(part, str)) > ROW_CHARS_MAX
