"""Who may speak HTTP to this server at all: checks on Host and Origin, before authentication and everything else.

A page in a browser can resolve its own name to this machine and post to it (DNS rebinding). Such a request carries the
page's name in ``Host`` and usually in ``Origin``; an IP address cannot be rebound, and no page of a stranger has a
loopback origin. So loopback binds answer to loopback names, other binds also to IP addresses, and any further name
must be listed by the operator.
"""

from __future__ import annotations

import ipaddress
import json
import logging
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger(__name__)

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """``hosts`` are names, with a port or for any port; ``origins`` are whole origins, the port may be ``*``."""

    hosts: frozenset[str]
    origins: frozenset[str]
    any_address: bool

    @classmethod
    def for_bind(cls, host: str, hosts: tuple[str, ...] = (), origins: tuple[str, ...] = ()) -> AllowedHosts:
        """What a server bound to ``host`` answers to, besides the operator's own lists."""
        loopback = is_loopback(host)
        bound = () if host in ("", "0.0.0.0", "::") else (f"[{host}]" if ":" in host else host,)  # noqa: S104
        return cls(
            frozenset(name.lower().removesuffix(":*") for name in (*LOOPBACK_NAMES, *bound, *hosts)),
            frozenset(origin.lower().rstrip("/") for origin in origins),
            any_address=not loopback,
        )

    def admits_host(self, header: str) -> bool:
        authority = header.lower()
        name = _without_port(authority)
        return authority in self.hosts or name in self.hosts or (self.any_address and _is_address(name))

    def admits_origin(self, origin: str, host_header: str) -> bool:
        """The page came from a listed origin, from this very server, or from this machine."""
        wanted = origin.lower().rstrip("/")
        if wanted in self.origins:
            return True
        parts = urlsplit(wanted)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            return False
        if parts.netloc == host_header.lower() or _without_port(parts.netloc) in LOOPBACK_NAMES:
            return True
        return f"{parts.scheme}://{_without_port(parts.netloc)}:*" in self.origins


class HostGuard:
    """ASGI: refuses what ``allowed`` does not admit, and cleans header values for everything behind it.

    httptools keeps white space that trails a header's value; RFC 9110 says it is no part of it.
    """

    def __init__(self, app: ASGIApp, allowed: AllowedHosts) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        hosts = header_values(scope, b"host")
        if len(hosts) != 1 or not self._allowed.admits_host(hosts[0]):
            log.warning("refused a request for host %r", hosts[:2])
            await refuse(
                send, 421, f"host {hosts[0] if hosts else ''!r} is not served here; list it in MCP_ALLOWED_HOSTS"
            )
            return
        for origin in header_values(scope, b"origin"):
            if not self._allowed.admits_origin(origin, hosts[0]):
                log.warning("refused a request from origin %r", origin)
                await refuse(send, 403, f"origin {origin!r} is not allowed; list it in MCP_ALLOWED_ORIGINS")
                return
        await self._app(scope, receive, send)


def header_values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def header(scope: Scope, name: bytes) -> str | None:
    """The first value of a header."""
    values = header_values(scope, name)
    return values[0] if values else None


async def refuse(send: Send, status: int, message: str) -> None:
    """A plain JSON answer from ahead of MCP."""
    await send_json(send, status, json.dumps({"error": message}).encode())


async def send_json(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _without_port(authority: str) -> str:
    if authority.startswith("["):
        return authority.partition("]")[0] + "]"
    return authority.rpartition(":")[0] if ":" in authority else authority


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
