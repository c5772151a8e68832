"""Who is told when a resource changes: subscriptions of 2025-era connections, listen streams of 2026-07-28.

Both hang on the provider's one ``watch``. A change is a level ("read it again if you care"): what waits to be sent is
a set, so a slow client costs a bounded amount and hears of every resource at least once after its last change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mcp.server.session import ServerSession
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from chaoscore.adapters.mcp.definition import Peer
from chaoscore.app.resources import ResourceChange, ResourceProvider
from chaoscore.domain.errors import LimitExceeded

log = logging.getLogger(__name__)

SUBSCRIPTIONS_MAX = 256
"""Resources that one connection may subscribe to."""


class ProviderBus:
    """The SDK's ``SubscriptionBus`` over a provider: every listen stream watches the provider itself."""

    def __init__(self, provider: ResourceProvider) -> None:
        self._provider = provider

    async def publish(self, event: ServerEvent) -> None:
        raise NotImplementedError("changes come from the resource provider alone")

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        def told(change: ResourceChange) -> None:
            listener(ResourcesListChanged() if change.uri is None else ResourceUpdated(uri=change.uri))

        return self._provider.watch(told)


class LegacyWatch:
    """Sends a 2025-era connection the changes that it asked for, and changes of the list."""

    def __init__(self, provider: ResourceProvider, peer: Peer, session: ServerSession) -> None:
        self._peer = peer
        self._session = session
        self._waiting: dict[str | None, None] = {}
        self._sender: asyncio.Task[None] | None = None
        self._stop = provider.watch(self._told)

    def close(self) -> None:
        self._stop()
        self._waiting.clear()
        if self._sender is not None:
            self._sender.cancel()

    def _told(self, change: ResourceChange) -> None:
        if change.uri is not None and change.uri not in self._peer.subscriptions:
            return
        self._waiting[change.uri] = None
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._waiting:
            uri = next(iter(self._waiting))
            del self._waiting[uri]
            try:
                if uri is None:
                    await self._session.send_resource_list_changed()
                else:
                    await self._session.send_resource_updated(uri)
            except Exception:
                log.debug("a change of %r could not be sent", uri, exc_info=True)


def subscribe(peer: Peer, uri: str) -> None:
    """Raises ``LimitExceeded``."""
    if uri not in peer.subscriptions and len(peer.subscriptions) >= SUBSCRIPTIONS_MAX:
        raise LimitExceeded(
            f"this connection already watches {SUBSCRIPTIONS_MAX} resources; unsubscribe from one first",
            subscriptions_max=SUBSCRIPTIONS_MAX,
        )
    peer.subscriptions.add(uri)
