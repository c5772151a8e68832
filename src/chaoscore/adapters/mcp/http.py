"""MCP over Streamable HTTP, as an ASGI app: several servers, each at its path, and whatever else is mounted.

What a request passes, in order: the guard of Host and Origin; ``GET /health``; authentication, if there is any, ahead
of everything MCP; then the server at its path. Nothing here pretends to be authentication: without it every caller is
anonymous, and an id is its only credential.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import orjson
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from chaoscore.adapters.mcp.definition import ServerDefinition
from chaoscore.adapters.mcp.http_endpoint import HttpLimits, McpEndpoint, Resumption
from chaoscore.adapters.mcp.http_guard import AllowedHosts, HostGuard, refuse, send_json
from chaoscore.adapters.mcp.http_sessions import redact_session_ids
from chaoscore.app.ports import Clock, Ids
from chaoscore.domain.json import JsonObject
from chaoscore.domain.principal import ANONYMOUS, Principal

log = logging.getLogger(__name__)

Health = Callable[[], Awaitable[JsonObject]]
"""What ``GET /health`` answers. ``ok: false`` in it makes the status 503."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """The one place for it. ``wrap`` puts the middleware around the app (it answers 401 itself); ``principal`` reads
    the identity that the middleware left in the scope."""

    wrap: Callable[[ASGIApp], ASGIApp]
    principal: Callable[[Scope], Principal]


def oauth_principal(scope: Scope) -> Principal:
    """The identity behind the SDK's bearer middleware; ``ANONYMOUS`` when it let a request pass without one."""
    user = scope.get("user")
    if not isinstance(user, AuthenticatedUser):
        return ANONYMOUS
    token = user.access_token
    issuer = str((token.claims or {}).get("iss", ""))
    return Principal("oauth", "|".join(part for part in (issuer, token.subject or token.client_id) if part))


class HttpApp:
    """The ASGI app. ``close_streams`` ends what only waits, so that a server can stop while calls finish."""

    def __init__(
        self,
        app: ASGIApp,
        endpoints: Mapping[str, McpEndpoint],
        authenticated: bool,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._app = app
        self._endpoints = endpoints
        self._on_close = on_close
        self.authenticated = authenticated

    def close_streams(self) -> None:
        for endpoint in self._endpoints.values():
            endpoint.close_streams()
        if self._on_close is not None:
            self._on_close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def http_app(
    servers: Mapping[str, ServerDefinition],
    *,
    health: Health,
    allowed: AllowedHosts,
    clock: Clock,
    ids: Ids,
    limits: HttpLimits | None = None,
    authentication: Authentication | None = None,
    mounts: Mapping[str, ASGIApp] | None = None,
    resumption: Resumption | None = None,
    on_close: Callable[[], None] | None = None,
) -> HttpApp:
    """``servers`` by path (``/mcp``, ``/interaction/mcp``), ``mounts`` by path prefix (``/`` last).

    The app wants the ASGI lifespan. Mounted apps are behind the guard and authentication too; their own lifespan is
    not run, and ``on_close`` is where they end what only waits.
    """
    redact_session_ids()
    principal = authentication.principal if authentication else _anonymous
    bounds = limits or HttpLimits()
    endpoints = {
        path: McpEndpoint(definition, principal, clock, ids, bounds, resumption) for path, definition in servers.items()
    }

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for endpoint in endpoints.values():
                await stack.enter_async_context(endpoint.running())
            yield

    routes: list[BaseRoute] = [Route(path, endpoint) for path, endpoint in endpoints.items()]
    routes += [Mount(path, app) for path, app in (mounts or {}).items()]
    app = Starlette(routes=routes, lifespan=lifespan)
    requests = authentication.wrap(app) if authentication is not None else app
    front = _Front(app, requests, health)
    return HttpApp(HostGuard(front, allowed), endpoints, authentication is not None, on_close)


class _Front:
    """Answers ``GET /health`` ahead of authentication, because whoever watches a service has no token for it, and
    keeps the server's lifespan away from authentication."""

    def __init__(self, lifespan: ASGIApp, requests: ASGIApp, health: Health) -> None:
        self._lifespan = lifespan
        self._requests = requests
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        if scope["type"] != "http" or scope["path"] != "/health":
            await self._requests(scope, receive, send)
            return
        if scope["method"] not in ("GET", "HEAD"):
            await refuse(send, 405, "GET /health")
            return
        try:
            report = await self._health()
        except Exception:
            log.exception("health could not be told")
            await refuse(send, 503, "health could not be told; the server's log tells why")
            return
        await send_json(send, 200 if report.get("ok", True) else 503, orjson.dumps(report))


def _anonymous(_: Scope) -> Principal:
    return ANONYMOUS
