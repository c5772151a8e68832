"""Calls of one connection take effect in order of arrival, whatever each of them takes.

The tools and the resources of one server share one ``InOrder``. The transport hands calls over in the order in which
they arrived; here each waits for the ones before it. Protocol messages (pings, listings) never come here, so a slow
call holds up nothing but later calls of its own connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from chaoscore.app.tools import Connection


@dataclass(slots=True)
class _Queue:
    """``calls`` counts those in it, the running one included. The lock is handed on first come, first served."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    calls: int = 0


class InOrder:
    """One per server. A connection without state (a single request) has no order to keep."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def turn(self, connection: Connection) -> AsyncIterator[None]:
        """Wait for the calls that came before. A caller that gives up leaves the queue."""
        if not connection.stateful:
            yield
            return
        queue = self._queues.setdefault(connection.id, _Queue())
        queue.calls += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.calls -= 1
            if not queue.calls:
                del self._queues[connection.id]
