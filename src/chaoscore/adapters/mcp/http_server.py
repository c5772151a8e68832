"""Runs the ASGI app on a socket: uvicorn with httptools, and a stop that lets calls finish."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import logging
import signal
import socket
from collections.abc import Callable, Generator

import uvicorn

from chaoscore.adapters.mcp.http import HttpApp
from chaoscore.adapters.mcp.http_endpoint import HttpLimits
from chaoscore.adapters.mcp.http_guard import is_loopback
from chaoscore.domain.errors import ConfigurationInvalid

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
BACKLOG = 512


async def serve_http(
    app: HttpApp,
    host: str,
    port: int,
    *,
    limits: HttpLimits | None = None,
    on_listening: Callable[[str, int], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then let calls in flight finish within ``stop_seconds``, and return.

    ``port`` 0 takes a free one; ``on_listening`` is told which. Raises ``ConfigurationInvalid`` when it cannot listen.
    """
    bounds = limits or HttpLimits()
    if not app.authenticated and not is_loopback(host):
        log.warning(
            "listening on %s without authentication: everyone who can reach this address can use every tool; "
            "put an authenticating proxy in front or bind to 127.0.0.1",
            host,
        )
    sockets = listen(host, port)
    server = _Server(
        uvicorn.Config(
            app,
            http="httptools" if importlib.util.find_spec("httptools") else "h11",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=bounds.connections_max,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(bounds.stop_seconds)),
        )
    )
    loop = asyncio.get_running_loop()

    def stop() -> None:
        log.info("asked to stop; calls in flight get %s seconds", bounds.stop_seconds)
        app.close_streams()
        server.should_exit = True

    watched = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop)
            watched.append(number)
    try:
        bound_host, bound_port = sockets[0].getsockname()[:2]
        log.info("listening on http://%s:%s", bound_host, bound_port)
        if on_listening is not None:
            on_listening(bound_host, bound_port)
        await server.serve(sockets)
    finally:
        for number in watched:
            loop.remove_signal_handler(number)
        for sock in sockets:
            sock.close()


def event_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, for ``asyncio.Runner(loop_factory=…)``; ``None`` where it is not installed."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


def listen(host: str, port: int) -> list[socket.socket]:
    """Listening sockets on every address of ``host``, all on one port."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((item[0], item[4]) for item in found):
            chosen = (address[0], sockets[0].getsockname()[1] if sockets else port, *address[2:])
            sockets.append(_listening(family, chosen))
    except OSError as error:
        for sock in sockets:
            sock.close()
        why = "the port is taken" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise ConfigurationInvalid(
            f"cannot listen on {host!r} port {port}: {why}; choose another with HOST and PORT", host=host, port=port
        ) from None
    return sockets


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    # With the protocol named, asyncio turns Nagle's algorithm off; else each answer on a kept connection waits 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


class _Server(uvicorn.Server):
    """Signals are ours: uvicorn's handlers would end every stream at once and raise the signal again at the end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
