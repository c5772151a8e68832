"""The HTTP client that every SDK is given: bounded answers, no redirects, no idle connections, no debug logs.

Imported only when a provider is used, together with its SDK: it is the one file that imports ``httpx2``.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx2

_LOUD = ("openai", "anthropic", "httpx2", "httpcore2", "httpx", "httpcore")


class Unread(Exception):
    """The body was not read, or not to its end; the message says why and holds nothing of it."""


def _too_large(bytes_max: int) -> Unread:
    return Unread(f"is larger than {bytes_max / 1_048_576:g} MiB; it was not read to its end")


class _Bounded(httpx2.AsyncByteStream):
    """A body that breaks off once it is larger than the bound, so that no answer can fill the memory."""

    def __init__(self, inner: httpx2.AsyncByteStream, bytes_max: int) -> None:
        self._inner = inner
        self._bytes_max = bytes_max

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._inner:
            seen += len(chunk)
            if seen > self._bytes_max:
                raise _too_large(self._bytes_max)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def tls_context(base_url: str, ca_file: str | None = None) -> ssl.SSLContext:
    """The certificates to trust, those of ``ca_file`` besides the system's; none at all for plain HTTP.

    Slow (reads files): made once, in a thread. Raises ``OSError`` for a file that cannot be used.
    """
    if urlsplit(base_url).scheme == "https":
        context = httpx2.create_ssl_context()
        if ca_file is not None:
            context.load_verify_locations(ca_file)
        return context
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def bounded_client(base_url: str, tls: ssl.SSLContext, try_seconds: float, answer_bytes_max: int) -> httpx2.AsyncClient:
    """A client for one call. The environment's proxies are asked for HTTPS alone: a plain HTTP server is near.

    An answer above ``answer_bytes_max`` raises ``Unread`` while it is read. Compression is not asked for, so that the
    bytes on the wire are the bytes in memory; an answer that comes compressed raises ``Unread`` too.
    """

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise Unread("came compressed although that was not asked for; it was not read")
        announced = response.headers.get("content-length", "")
        if announced.isdigit() and (len(announced) > 18 or int(announced) > answer_bytes_max):
            raise _too_large(answer_bytes_max)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, answer_bytes_max)

    return httpx2.AsyncClient(
        verify=tls,
        trust_env=urlsplit(base_url).scheme == "https",
        headers={"accept-encoding": "identity"},
        timeout=httpx2.Timeout(try_seconds),
        limits=httpx2.Limits(max_keepalive_connections=0),
        follow_redirects=False,
        event_hooks={"response": [bound]},
    )


def silence() -> None:
    """Keep the SDKs and their HTTP library from logging requests, whatever their own switches say."""
    for name in _LOUD:
        if logging.getLogger(name).level < logging.WARNING:
            logging.getLogger(name).setLevel(logging.WARNING)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        loud = isinstance(logger, logging.Logger) and name.split(".", 1)[0] in _LOUD
        if loud and isinstance(logger, logging.Logger) and 0 < logger.level < logging.WARNING:
            logger.setLevel(logging.WARNING)
