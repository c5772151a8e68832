"""MCP over standard input and output: one process, one client, one connection.

Above: bootstrap, which brings the definition, the principal and the connection. Below: ``stdio_session``, which is the
SDK's stream pair, and ``stdio_carriers``, which move the bytes.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import anyio
from mcp.server.runner import serve_loop
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCRequest

from chaoscore.adapters.mcp.definition import Caller, Peer, ServerDefinition
from chaoscore.adapters.mcp.server import SdkServer, build_server
from chaoscore.adapters.mcp.stdio_carriers import StdioLimits, open_wire
from chaoscore.adapters.mcp.stdio_fds import WireFds, claim_standard_streams
from chaoscore.adapters.mcp.stdio_session import StdioSession
from chaoscore.app.tools import Connection
from chaoscore.domain.principal import Principal

log = logging.getLogger(__name__)


async def serve_stdio(
    definition: ServerDefinition,
    *,
    principal: Principal,
    connection: Connection,
    limits: StdioLimits | None = None,
    fds: WireFds | None = None,
) -> None:
    """Serve one client until its input ends, or SIGTERM or SIGINT arrives; then return.

    ``fds`` are the streams when the process has already moved them (``claim_standard_streams``). They stay moved when
    this returns: what is printed at exit does not belong on the wire either.
    """
    bounds = limits or StdioLimits()
    peer = Peer(principal, connection)
    built = build_server(definition, lambda _: Caller(peer))
    server = built.sdk

    async def alone(request: JSONRPCRequest) -> JSONRPCMessage:
        return await answer_alone(server, request)

    def stop() -> None:
        log.info("asked to stop; calls in flight get %s seconds", bounds.stop_seconds)
        session.stop(bounds.stop_seconds)

    def client_gone() -> None:
        session.client_gone()

    try:
        async with open_wire(fds or claim_standard_streams(), bounds, client_gone, definition.lone_surrogates) as wire:
            session = StdioSession(wire, alone, bounds.unanswered_max, bounds.grace_seconds, built.withdraw_questions)
            with _stop_signals(stop):
                await _serve(server, session)
    finally:
        peer.close()


async def _serve(server: SdkServer, session: StdioSession) -> None:
    """Drive the SDK in the era that the client opened with.

    ``Server.run`` would find the era out for itself, at the price of relaying every message through one more stream.
    """
    options = server.create_initialization_options()
    if await session.opens_stateless():
        await server.run(session, session.outbound, options)
        return
    async with server.lifespan(server) as state:
        await serve_loop(server, session, session.outbound, lifespan_state=state, init_options=options)


async def answer_alone(server: SdkServer, request: JSONRPCRequest) -> JSONRPCMessage:
    """What the server answers to one request on a connection that nothing else travels on."""
    into, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    outbox, answers = anyio.create_memory_object_stream[SessionMessage](1)
    async with into, answers:
        await into.send(SessionMessage(request))
        running = asyncio.create_task(server.run(inbox, outbox, server.create_initialization_options()))
        try:
            return (await answers.receive()).message
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


@contextmanager
def _stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on SIGTERM and SIGINT, where the platform and the thread allow it."""
    loop = asyncio.get_running_loop()
    watched = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop)
            watched.append(number)
    try:
        yield
    finally:
        for number in watched:
            loop.remove_signal_handler(number)
