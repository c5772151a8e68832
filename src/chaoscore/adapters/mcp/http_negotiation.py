"""The answer in a form that the client said it takes.

The SDK wants clients to accept both JSON and event streams and answers 406 to all others; many common clients accept
one of them, or say nothing. Here each of these is served: the SDK is told that both are fine, and its answer is turned
into the one that was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from starlette.types import Message, Scope, Send

from chaoscore.adapters.mcp.http_guard import header_values

_JSON, _EVENTS = b"application/json", b"text/event-stream"
Wrap = Callable[[Send], Send]


def negotiate(scope: Scope) -> Wrap:
    """Widen the request's ``Accept`` in place; returns what to put around ``send``.

    A request that takes neither form is left alone, for the SDK to refuse.
    """
    takes_json, takes_events = _accepted(header_values(scope, b"accept"))
    if takes_json == takes_events:
        if not header_values(scope, b"accept"):
            scope["headers"] = [*scope["headers"], (b"accept", b"*/*")]
        return lambda send: send
    others = [(name, value) for name, value in scope["headers"] if name != b"accept"]
    scope["headers"] = [*others, (b"accept", _JSON + b", " + _EVENTS)]
    return (lambda send: EventsToJson(send)) if takes_json else (lambda send: JsonToEvents(send))


def _accepted(values: list[str]) -> tuple[bool, bool]:
    kinds = {part.partition(";")[0].strip().lower() for value in values for part in value.split(",")} - {""}
    if not kinds or "*/*" in kinds:
        return True, True
    return bool(kinds & {"application/json", "application/*"}), bool(kinds & {"text/event-stream", "text/*"})


class EventsToJson:
    """Keeps the answer out of an event stream; what came before it has no place in a JSON body."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._rest = b""
        self._answer: bytes | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is(message, _EVENTS):
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._take(message.get("body", b""))
            if not message.get("more_body", False):
                body = self._answer or b""
                await self._send(_with(self._start, _JSON, len(body)))
                await self._send({"type": "http.response.body", "body": body})
        else:
            await self._send(message)

    def _take(self, chunk: bytes) -> None:
        *events, self._rest = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n\n")
        for event in events:
            data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
            if not data:
                continue
            value: Any = json.loads(data)
            if "method" not in value:
                self._answer = data


class JsonToEvents:
    """One event with the answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200 and _is(message, _JSON):
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send(_with(self._start, _EVENTS, None))
                body = b"event: message\r\ndata: " + self._body + b"\r\n\r\n"
                await self._send({"type": "http.response.body", "body": body})
        else:
            await self._send(message)


def _is(message: Message, kind: bytes) -> bool:
    return any(name == b"content-type" and value.startswith(kind) for name, value in message["headers"])


def _with(start: Message, kind: bytes, length: int | None) -> Message:
    headers = [(n, v) for n, v in start["headers"] if n not in (b"content-type", b"content-length", b"connection")]
    headers.append((b"content-type", kind))
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    return {**start, "headers": headers}
