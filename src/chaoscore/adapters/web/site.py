"""The ASGI app of the Decision Center: who comes in, what may be sent, what every response says to the browser.

Mounted behind the guard of Host and Origin of the HTTP server. A POST passes, in order: the origin check, the session,
the bound on its body, the CSRF token; only then a handler sees it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from chaoscore.adapters.web import decisions, entry, history, rules, runs
from chaoscore.adapters.web.access import Access, TooManyTries, matches
from chaoscore.adapters.web.drawing import HERE, Drawing
from chaoscore.adapters.web.events import EventStream
from chaoscore.adapters.web.forms import BadForm, Form, read_form
from chaoscore.adapters.web.visit import PageHandler, Visit
from chaoscore.app.center import Center
from chaoscore.domain.errors import ChaosError

log = logging.getLogger(__name__)

CENTER_PATH = "/center"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # A page with "no-referrer" sends its own forms with "Origin: null", which no check can tell from a stranger's.
    # "same-origin" tells strangers just as little; the one address that holds a secret has "no-referrer".
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ASSETS = {
    "center.css": "text/css; charset=utf-8",
    "center.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
STATUS = {
    "NOT_FOUND": 404,
    "VALIDATION_ERROR": 400,
    "VERSION_CONFLICT": 409,
    "RUN_BUSY": 409,
    "ILLEGAL_TRANSITION": 409,
    "PIN_REFUSED": 403,
    "STORE_BUSY": 503,
    "IO_ERROR": 503,
    "NO_SPACE": 503,
    "READ_ONLY": 503,
    "PERMISSION": 503,
}


class CenterSite:
    """``admits_origin`` says whether a page of an origin may post to a host, besides pages of that very host."""

    def __init__(
        self,
        center: Center,
        access: Access,
        admits_origin: Callable[[str], bool] = lambda origin: False,
        base: str = CENTER_PATH,
    ) -> None:
        self.center = center
        self.access = access
        self.base = base
        self._admits_origin = admits_origin
        self._assets = {name: (HERE / "static" / name).read_bytes() for name in ASSETS}
        stamped = {name: f"{name}?v={hashlib.sha256(raw).hexdigest()[:12]}" for name, raw in self._assets.items()}
        self._drawing = Drawing(center.parts.redactor, center.parts.clock.now, stamped, base, center.parts.copyable)
        self._drawing.warm_up()
        self._app = Starlette(routes=self._routes())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def close(self) -> None:
        """End what only waits, so that the server can stop."""
        self.center.changes.close()

    # -- routes ----------------------------------------------------------------------------------------------

    def _routes(self) -> Sequence[BaseRoute]:
        gets: dict[str, PageHandler] = {
            "/": decisions.inbox,
            "/together": decisions.together,
            "/decisions/{source}/{id}": decisions.one,
            "/resume": runs.resume,
            "/runs": runs.index,
            "/runs/{label}": runs.one,
            "/history": history.index,
            "/audit": history.audit,
            "/policy": rules.policy,
            "/memory": rules.memory,
            "/memory/one": rules.one_memory,
        }
        posts: dict[str, PageHandler] = {
            "/together": decisions.answer_together,
            "/decisions/{source}/{id}": decisions.answer,
            "/runs/{label}/cancel": runs.cancel,
            "/audit/verify": history.verify,
        }
        return [
            Route("/enter", self._enter, methods=["GET"]),
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/static/{name}", self._asset, methods=["GET"]),
            Route("/live", self._live, methods=["GET"]),
            *(Route(path, self._visited(handler), methods=["GET"]) for path, handler in gets.items()),
            *(Route(path, self._visited(handler), methods=["POST"]) for path, handler in posts.items()),
            Route("/{path:path}", self._visited(decisions.nowhere), methods=["GET", "POST"]),
        ]

    def _visited(self, handler: PageHandler) -> Callable[[Request], object]:
        async def handle(request: Request) -> Response:
            try:
                return await self._visit(request, handler)
            except BadForm as fault:
                return self._error(request, fault.status, fault.message)
            except ChaosError as error:
                return self._error(request, STATUS.get(error.code, 500), error.message)
            except Exception:
                log.exception("a page of the Decision Center failed unexpectedly")
                return self._error(request, 500, "it failed unexpectedly; the server's log tells why")

        return handle

    async def _visit(self, request: Request, handler: PageHandler) -> Response:
        posting = request.method == "POST"
        if posting:
            self._require_own_page(request)
        by_itself = request.headers.get("x-live") == "1"
        session = self.access.session(request.cookies.get(self.access.cookie), touch=not by_itself)
        if session is None:
            following = "" if posting else entry.following(request, self.base)
            return self._door(401, None, following)
        form = await read_form(request) if posting else Form(())
        if posting and not matches(form.get("csrf"), session.csrf):
            raise BadForm(403, "this form is not of your session; load the page again and answer there")
        return await handler(Visit(request, session, self.center, self._drawing, self.base, form))

    def _require_own_page(self, request: Request) -> None:
        """Raises ``BadForm`` for a form that another page sends."""
        origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
        parts = urlsplit(origin.lower())
        own = parts.scheme in ("http", "https") and bool(parts.netloc) and parts.netloc == host.lower()
        site = request.headers.get("sec-fetch-site", "same-origin")
        if not (own or self._admits_origin(origin)) or (own and site != "same-origin"):
            log.warning("refused a form that was sent from origin %r", origin[:200])
            raise BadForm(403, "forms are taken from this site's own pages only")

    # -- coming in and going ---------------------------------------------------------------------------------

    async def _enter(self, request: Request) -> Response:
        """The one-time link. Only a person's own navigation uses it up: previews and prefetching do not."""
        purpose = request.headers.get("sec-purpose", request.headers.get("purpose", ""))
        if request.method != "GET" or "prefetch" in purpose or "prerender" in purpose:
            return PlainTextResponse("open this link yourself", 425, {"referrer-policy": "no-referrer"})
        try:
            opened = self.access.enter(request.query_params.get("token", ""), _peer(request))
        except TooManyTries as wait:
            return self._wait(wait)
        if opened is None:
            response = self._door(403, "this link was used, is too old, or is none of this server's", "")
        else:
            # Not a redirect: a strict cookie is not sent along one that began on another site.
            response = HTMLResponse(self._drawing.page("entered.html", {"following": f"{self.base}/"}))
            self._give_cookie(request, response, opened)
        response.headers["referrer-policy"] = "no-referrer"
        return response

    async def _sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            return self._door(200, None, "")
        try:
            self._require_own_page(request)
            form = await read_form(request)
            opened = self.access.sign_in(form.get("token"), entry.name_of(form), _peer(request))
        except TooManyTries as wait:
            return self._wait(wait)
        except BadForm as fault:
            return self._door(fault.status, fault.message, "")
        following = entry.own_path(form.get("following"), self.base)
        if opened is None:
            return self._door(403, "that is not the token of this start", following)
        response = Response(status_code=303, headers={"location": following or f"{self.base}/"})
        self._give_cookie(request, response, opened)
        return response

    async def _sign_out(self, request: Request) -> Response:
        async def leave(visit: Visit) -> Response:
            self.access.leave(request.cookies.get(self.access.cookie, ""))
            response = self._door(200, "you are signed out", "")
            response.delete_cookie(self.access.cookie, path=self.base, httponly=True, samesite="strict")
            return response

        return await self._visited(leave)(request)  # type: ignore[misc, no-any-return]

    def _give_cookie(self, request: Request, response: Response, opened: str) -> None:
        # Behind a proxy the browser speaks TLS and this server does not; the form's origin tells.
        secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
        response.set_cookie(self.access.cookie, opened, path=self.base, httponly=True, samesite="strict", secure=secure)

    def _door(self, status: int, problem: str | None, following: str) -> Response:
        return HTMLResponse(self._drawing.page("door.html", {"problem": problem, "following": following}), status)

    def _wait(self, wait: TooManyTries) -> Response:
        response = self._door(429, str(wait), "")
        response.headers["retry-after"] = str(wait.seconds)
        return response

    def _error(self, request: Request, status: int, message: str) -> Response:
        session = self.access.session(request.cookies.get(self.access.cookie), touch=False)
        if session is None:
            return self._door(status, message, "")
        values: dict[str, object] = {"status": status, "message": message, "csrf": session.csrf}
        values |= {"person": session.name, "version": 0, "live": False}
        return HTMLResponse(self._drawing.page("error.html", values), status)

    # -- files and events ------------------------------------------------------------------------------------

    async def _asset(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        if name not in ASSETS:
            return PlainTextResponse("there is no such file", 404)
        # The address changes with the file, and nothing in it is anybody's secret.
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(self._assets[name], headers=headers, media_type=ASSETS[name])

    async def _live(self, request: Request) -> Response | EventStream:
        cookie = request.cookies.get(self.access.cookie)
        if self.access.session(cookie, touch=False) is None:
            return PlainTextResponse("sign in first", 401)
        if self.center.changes.is_full:
            return PlainTextResponse("too many pages listen already", 503, {"retry-after": "15"})
        return EventStream(self.center.changes, lambda: self.access.session(cookie, touch=False) is not None)


def front_door(base: str = CENTER_PATH) -> Starlette:
    """For a server of this page alone: its bare address leads to the page, and nothing else is there."""

    async def lead(request: Request) -> Response:
        return RedirectResponse(f"{base}/", 307, HEADERS)

    return Starlette(routes=[Route("/", lead, methods=["GET"])])


def _peer(request: Request) -> str:
    return request.client.host if request.client is not None else ""
