"""What can be read and watched by URI: the port behind MCP resources, on every transport and in both protocol eras.

A server without resources has no provider. Providers know nothing of subscriptions, sessions or streams: they say
what there is, read one thing, and tell watchers that something changed; who is told, and how, is the transport's
business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from chaoscore.app.tools import CallContext


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing that can be read at a fixed URI."""

    uri: str
    name: str
    description: str
    mime_type: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceTemplate:
    """A family of things; ``uri_template`` is RFC 6570, e.g. ``chaos://sessions/{id}``."""

    uri_template: str
    name: str
    description: str
    mime_type: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceContent:
    """What a read gave. Text travels as text, bytes as base64. ``uri`` where it is written otherwise than asked for."""

    mime_type: str
    content: str | bytes
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """Something may need to be read again: the resource at ``uri``, or, when that is ``None``, the list itself."""

    uri: str | None = None


Watcher = Callable[[ResourceChange], None]
"""Told of a change, on the event loop. Must not block or raise; it may be told twice of one change."""


class ResourceProvider(Protocol):
    async def resources(self, context: CallContext) -> Sequence[Resource]: ...

    async def templates(self, context: CallContext) -> Sequence[ResourceTemplate]: ...

    async def read(self, uri: str, context: CallContext) -> ResourceContent:
        """Raises ``NotFound`` for a URI that leads nowhere, or to what is somebody else's."""
        ...

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tell ``watcher`` of every change from now on, until the returned function is called.

        Called once per interested connection: a provider that needs a timer or a file watcher starts it with the
        first and stops it with the last.
        """
        ...
