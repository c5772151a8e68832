"""Progress on its way to a client, which may be slow, stuck or gone: it must never hold up the work it reports on.

Reports are sent in order by a task of their own. While the client keeps up none is dropped; when more than
``QUEUE_MAX`` wait, the oldest goes (progress is a level: the newest says it all).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from chaoscore.domain.json import JsonObject

log = logging.getLogger(__name__)

QUEUE_MAX = 64
FLUSH_SECONDS = 2.0
"""How long an answer waits for the progress before it."""

SendProgress = Callable[[float, float | None, str | None], Awaitable[None]]


class ProgressPump:
    """The ``progress`` of one call."""

    def __init__(self, send: SendProgress) -> None:
        self._send = send
        self._queue: deque[JsonObject] = deque(maxlen=QUEUE_MAX)
        self._task: asyncio.Task[None] | None = None

    async def report(self, update: JsonObject) -> None:
        """Takes ``{"progress": n, "total": n | None, "message": text}``; returns at once."""
        self._queue.append(update)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())

    async def finish(self) -> None:
        """Wait, within bounds, until everything reported is sent: what comes after the answer is not delivered."""
        if self._task is None or self._task.done():
            return
        done, _ = await asyncio.wait({self._task}, timeout=FLUSH_SECONDS)
        if not done:
            self.abandon()

    def abandon(self) -> None:
        """Send nothing more."""
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()

    async def _drain(self) -> None:
        while self._queue:
            update = self._queue.popleft()
            progress, total, message = update.get("progress"), update.get("total"), update.get("message")
            if not isinstance(progress, int | float):
                log.error("a tool reported progress %r, which is no number", progress)
                continue
            try:
                await self._send(
                    progress,
                    total if isinstance(total, int | float) else None,
                    message if isinstance(message, str) else None,
                )
            except Exception:
                log.debug("progress could not be sent", exc_info=True)
                self._queue.clear()
