"""Those who watch a provider's resources, and the one task that looks for changes while anybody does.

Resource providers hold one; however many watch, the looking costs the same, and nothing when nobody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import count

from chaoscore.app.resources import ResourceChange, Watcher


class Watchers:
    """``look`` makes the task that looks until it is cancelled; it tells what it found with ``tell``."""

    def __init__(self, look: Callable[[], Coroutine[None, None, None]]) -> None:
        self._look = look
        self._watchers: dict[int, Watcher] = {}
        self._keys = count()
        self._looking: asyncio.Task[None] | None = None

    @property
    def is_looking(self) -> bool:
        return self._looking is not None

    def add(self, watcher: Watcher) -> Callable[[], None]:
        """Tell ``watcher`` of every change until the returned function is called."""
        key = next(self._keys)
        self._watchers[key] = watcher
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return lambda: self._forget(key)

    def tell(self, uris: Iterable[str]) -> None:
        for uri in uris:
            for watcher in list(self._watchers.values()):
                watcher(ResourceChange(uri))

    async def close(self) -> None:
        self._watchers.clear()
        looking = self._stop()
        if looking is not None:
            with suppress(asyncio.CancelledError):
                await looking

    def _forget(self, key: int) -> None:
        self._watchers.pop(key, None)
        if not self._watchers:
            self._stop()

    def _stop(self) -> asyncio.Task[None] | None:
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
        return looking
