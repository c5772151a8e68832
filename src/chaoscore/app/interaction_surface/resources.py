"""The six resources as a provider: what there is, one body by URI, and who is told when something changed.

Bodies and URIs are the service's; the folder's changes come through the ``ChangeFeed`` port, whoever made them. The
feed is asked only while somebody watches, and by one task however many watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from chaoscore.app.interaction_surface.order import InOrder
from chaoscore.app.interactions.resources import BASE, RESOURCES
from chaoscore.app.interactions.service import InteractionService
from chaoscore.app.resources import Resource, ResourceContent, ResourceTemplate, Watcher
from chaoscore.app.tools import CallContext
from chaoscore.app.watchers import Watchers
from chaoscore.domain.errors import ChaosError, InvalidInput
from chaoscore.domain.interaction.spelling import pretty_text

log = logging.getLogger(__name__)

MIME_TYPE = "application/json"
POLL_SECONDS = 0.5
_PAGED = ("locks", "sessions")
_SCHEME = "chaos://"
_UNSEEN = "changes of the interactions folder cannot be seen"


@dataclass(frozen=True, slots=True)
class Changed:
    """What may have to be read again: documents by their ids, and whether anything else changed (a list, a lock)."""

    runs: frozenset[str] = frozenset()
    decisions: frozenset[str] = frozenset()
    anything: bool = False

    def uris(self) -> list[str]:
        if not (self.anything or self.runs or self.decisions):
            return []
        lists = [BASE + name for name in ("active", "locks", "sessions")]
        runs = [f"{BASE}{kind}/{run}" for run in sorted(self.runs) for kind in ("sessions", "capsules")]
        return [*lists, *runs, *(f"{BASE}decisions/{name}" for name in sorted(self.decisions))]


class ChangeFeed(Protocol):
    """What anybody changed in the store, in whatever process."""

    def start(self) -> None:
        """Changes count from now on. At once: whoever subscribed hears of everything after the answer."""
        ...

    async def changes(self) -> Changed:
        """What changed since the last time. Cheap when nothing did."""
        ...


class InteractionResources:
    """A ``ResourceProvider``. ``order`` is shared with the server's tools."""

    def __init__(
        self, service: InteractionService, feed: ChangeFeed, order: InOrder, poll_seconds: float = POLL_SECONDS
    ) -> None:
        self._service = service
        self._feed = feed
        self._order = order
        self._poll_seconds = poll_seconds
        self._watchers = Watchers(self._poll)

    async def resources(self, context: CallContext) -> Sequence[Resource]:
        return [Resource(s.uri, s.name, s.description, MIME_TYPE) for s in RESOURCES if not s.is_template]

    async def templates(self, context: CallContext) -> Sequence[ResourceTemplate]:
        paged = [
            ResourceTemplate(
                f"{BASE}{name}{{?cursor,limit}}",
                f"chaos-{name}-page",
                f"A page of {BASE}{name}; cursor is 'next' of the page before",
                MIME_TYPE,
            )
            for name in _PAGED
        ]
        fixed = [ResourceTemplate(s.uri, s.name, s.description, MIME_TYPE) for s in RESOURCES if s.is_template]
        return [*fixed, *paged]

    async def read(self, uri: str, context: CallContext) -> ResourceContent:
        """A miss is a body too (``{status: NOT_FOUND, message}``). Raises ``InvalidInput`` for a URI of nobody's."""
        async with self._order.turn(context.connection):
            body = await self._service.read_resource(uri)
        if body is None:
            raise InvalidInput(
                f"uri: {uri[:200]!r} is none of this server's; resources/list and its templates show what there is",
                key="uri",
                uri=uri[:200],
            )
        return ResourceContent(MIME_TYPE, pretty_text(body), _SCHEME + uri[len(_SCHEME) :])

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        if not self._watchers.is_looking:
            try:
                self._feed.start()
            except (ChaosError, OSError) as error:
                log.warning("%s: %s", _UNSEEN, error)
        return self._watchers.add(watcher)

    @property
    def is_polling(self) -> bool:
        return self._watchers.is_looking

    async def close(self) -> None:
        await self._watchers.close()

    async def _poll(self) -> None:
        """Until nobody watches. A folder that cannot be looked at now may be later."""
        while True:
            try:
                self._watchers.tell((await self._feed.changes()).uris())
            except (ChaosError, OSError) as error:
                log.warning("%s: %s", _UNSEEN, error)
            except Exception:
                log.exception("looking for changes failed unexpectedly")
            await asyncio.sleep(self._poll_seconds)
