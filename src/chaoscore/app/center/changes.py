"""Telling open pages that something changed: one look at the stores for all of them, and bounded listeners.

Nothing is looked at while nobody listens. What this process did itself is told at once; what others wrote is noticed
by the stamp of the database and the tokens of the interactions folders.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

from chaoscore.app.center.folders import Folder
from chaoscore.domain.errors import ChaosError

log = logging.getLogger(__name__)

LISTENERS_MAX = 32
POLL_SECONDS = 0.25
FOLDER_SECONDS = 1.0


class Changes:
    """``version`` grows with every change that was noticed. ``stamp`` answers cheaply something that differs after any
    write to the database by any process."""

    def __init__(self, stamp: Callable[[], object], folders: Sequence[Folder]) -> None:
        self._stamp = stamp
        self._folders = folders
        self._seen: object = stamp()
        self._tokens: dict[str, str] = {}
        self._listeners: set[asyncio.Event] = set()
        self._poller: asyncio.Task[None] | None = None
        self._closed = False
        self.version = 1

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_full(self) -> bool:
        return self._closed or len(self._listeners) >= LISTENERS_MAX

    def look(self) -> int:
        """The version, once the database was asked whether somebody wrote to it."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            self.tell()
        return self.version

    def tell(self) -> None:
        """Something changed."""
        self.version += 1
        for event in self._listeners:
            event.set()

    def close(self) -> None:
        """End every listener, so that a server can stop."""
        self._closed = True
        for event in self._listeners:
            event.set()

    @contextlib.contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """The event is set whenever something changed, until whoever listens clears it; also by ``close``."""
        event = asyncio.Event()
        self._listeners.add(event)
        self._start()
        try:
            yield event
        finally:
            self._listeners.discard(event)
            if not self._listeners and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    def _start(self) -> None:
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        folders_at = 0.0
        while True:
            self.look()
            if loop.time() >= folders_at:
                folders_at = loop.time() + FOLDER_SECONDS
                await self._look_at_folders()
            await asyncio.sleep(POLL_SECONDS)

    async def _look_at_folders(self) -> None:
        for folder in self._folders:
            try:
                token = await folder.service.change_token()
            except ChaosError as error:
                log.warning("the interactions folder %s cannot be watched: %s", folder.root, error.message)
                continue
            except OSError as error:
                log.warning("the interactions folder %s cannot be watched: %s", folder.root, error.strerror)
                continue
            before = self._tokens.get(folder.key)
            self._tokens[folder.key] = token
            if before is not None and before != token:
                self.tell()
