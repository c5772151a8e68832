"""Server-sent events: one line per change, so that open pages load what they show again.

Nothing about what changed is sent, so this stream needs no rules of its own about who may see what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from chaoscore.app.center import Changes

BEAT_SECONDS = 15.0
RETRY_MS = 3_000


class EventStream:
    """An ASGI response that lasts until the client goes, the session ends or the server stops."""

    def __init__(self, changes: Changes, may_listen: Callable[[], bool]) -> None:
        self._changes = changes
        self._may_listen = may_listen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        gone = asyncio.create_task(_gone(receive))
        try:
            with self._changes.listening() as event:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                told = self._changes.look()
                await _say(send, f"retry: {RETRY_MS}\n{_change(told)}")
                while await self._wait(event, gone):
                    event.clear()
                    version = self._changes.version
                    await _say(send, _change(version) if version != told else ": still here\n\n")
                    told = version
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()

    async def _wait(self, event: asyncio.Event, gone: asyncio.Task[None]) -> bool:
        """Until there is something to say; false when it is over."""
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait({waiting, gone}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        return not gone.done() and not self._changes.is_closed and self._may_listen()


def _change(version: int) -> str:
    return f"event: change\ndata: {version}\n\n"


async def _say(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
