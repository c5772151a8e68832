"""One HTTP exchange with a target whose addresses have been checked: connect, send, hand the answer over.

``request`` stands above it, one call per hop; ``httpcore2`` below, which does TLS and HTTP/1.1. Its network backend is
replaced by one that connects to the checked addresses and never resolves a name: what was checked is what is connected
to, whatever the name means a moment later. The name stays in TLS (SNI, certificate) and in ``Host``.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

import httpcore2

from chaoscore.adapters.capabilities.http.options import HttpOptions
from chaoscore.adapters.capabilities.http.resolve import UNREACHABLE
from chaoscore.adapters.capabilities.http.target import Target
from chaoscore.domain.errors import CapabilityError, NotPerformed

PROTOCOL = "HTTP_PROTOCOL"
_CONNECTS_MAX = 4
_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    OSError,
)


@dataclass(frozen=True, slots=True)
class Exchange:
    """An answer whose body has not been read. Header names are lower case, in order, repeats kept."""

    status: int
    headers: tuple[tuple[str, str], ...]
    chunks: AsyncGenerator[bytes, None]

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class Wire(httpcore2.AsyncNetworkBackend):
    """Connects to one of ``addresses``, whatever host it is asked for. ``sent`` turns true with the first byte of HTTP.

    ``addresses`` is ``None`` towards a proxy, which the operator named: that one is connected to by name.
    """

    def __init__(self, addresses: Sequence[str] | None, connect_seconds: float) -> None:
        self._addresses = addresses
        self._connect_seconds = connect_seconds
        self._sockets = httpcore2.AnyIOBackend()
        self.sent = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        hosts = [host] if self._addresses is None else list(self._addresses[:_CONNECTS_MAX])
        while True:
            try:
                stream = await self._sockets.connect_tcp(
                    hosts.pop(0), port, self._connect_seconds, local_address, socket_options
                )
                return _Stream(stream, self)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if not hosts:
                    raise


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that notes on its ``Wire`` when the request begins to leave."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, wire: Wire) -> None:
        self._stream = stream
        self._wire = wire

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._wire.sent = True
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._wire)

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


@asynccontextmanager
async def exchange(
    target: Target, wire: Wire, headers: Mapping[str, str], options: HttpOptions
) -> AsyncIterator[Exchange]:
    """Send one GET on a connection of its own, closed afterwards: what a server sends after its answer is never read.

    Raises ``NotPerformed`` while nothing of the request has left, ``CapabilityError`` after.
    """
    port = None if target.is_default_port else target.port
    url = httpcore2.URL(
        scheme=target.scheme.encode(), host=target.host.encode(), port=port, target=target.path.encode("ascii")
    )
    request = httpcore2.Request(
        b"GET",
        url,
        headers=[("Host", target.authority), *headers.items()],
        extensions={"timeout": {"connect": options.connect_seconds}},
    )
    connection = _connection(url, wire, options)
    try:
        try:
            response = await connection.handle_async_request(request)
        except _FAILURES as error:
            _raise(error, target, wire.sent)
        try:
            yield Exchange(response.status, _headers(response.headers, options), _chunks(response, target))
        finally:
            await response.aclose()
    finally:
        await connection.aclose()


def _connection(
    url: httpcore2.URL, wire: Wire, options: HttpOptions
) -> httpcore2.AsyncHTTPConnection | httpcore2.AsyncConnectionPool:
    context = tls_context(options.ca_file) if url.scheme == b"https" else None
    if options.proxy is None:
        return httpcore2.AsyncHTTPConnection(url.origin, ssl_context=context, network_backend=wire)
    return httpcore2.AsyncHTTPProxy(
        options.proxy,
        proxy_auth=_proxy_auth(options.proxy),
        ssl_context=context,
        max_connections=1,
        network_backend=wire,
    )


def _proxy_auth(proxy: str) -> tuple[str, str] | None:
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(proxy)
    return (unquote(parts.username), unquote(parts.password or "")) if parts.username else None


@lru_cache(maxsize=4)
def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Certificates and names are verified. Reading the authorities takes long: call it in a thread first."""
    context = httpcore2.default_ssl_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


def _headers(raw: Sequence[tuple[bytes, bytes]], options: HttpOptions) -> tuple[tuple[str, str], ...]:
    if sum(len(name) + len(value) for name, value in raw) > options.header_bytes_max:
        raise CapabilityError(f"the answer's headers exceed {options.header_bytes_max} bytes", code=PROTOCOL)
    return tuple((name.decode("ascii", "replace").lower(), _header_text(value)) for name, value in raw)


def _header_text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def _chunks(response: httpcore2.Response, target: Target) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in response.aiter_stream():
            yield chunk
    except _FAILURES as error:
        _raise(error, target, True)


def _raise(error: Exception, target: Target, sent: bool) -> NoReturn:
    """Our own words and the verdict on a certificate; never what the peer wrote."""
    where = repr(target.authority)
    certificate = _certificate_error(error)
    if certificate is not None:
        why = f"its certificate is not accepted ({certificate.verify_message})"
        raise NotPerformed(f"no connection to {where}: {why}", code=UNREACHABLE) from None
    if not sent:
        raise NotPerformed(f"no connection to {where}: {_words(error)}", code=UNREACHABLE) from None
    code = PROTOCOL if isinstance(error, httpcore2.ProtocolError) else UNREACHABLE
    raise CapabilityError(f"no usable answer from {where}: {_words(error)}", code=code) from None


def _words(error: Exception) -> str:
    if isinstance(error, httpcore2.TimeoutException):
        return "it took too long"
    if isinstance(error, httpcore2.ProxyError):
        return "the proxy refused"
    if isinstance(error, httpcore2.ProtocolError):
        return "it broke the rules of HTTP or stopped halfway"
    if isinstance(error, httpcore2.ConnectError):
        return "nothing answers there, or not with TLS where TLS was asked for"
    return "the connection broke"


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    for _ in range(8):
        if error is None or isinstance(error, ssl.SSLCertVerificationError):
            return error
        error = error.__cause__ or error.__context__
    return None
