"""One request of somebody who came in, and the few ways to answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from chaoscore.adapters.web.access import WebSession
from chaoscore.adapters.web.drawing import Drawing
from chaoscore.adapters.web.forms import BadForm, Form
from chaoscore.app.center import Center

QUERY_CHARS_MAX = 2_000


@dataclass(frozen=True, slots=True)
class Visit:
    """``form`` is there for a POST, its CSRF token checked."""

    request: Request
    session: WebSession
    center: Center
    drawing: Drawing
    base: str
    form: Form

    @property
    def approver(self) -> str:
        """As whom an answer is recorded: the name the person gave, or whoever runs this process."""
        return f"web:{self.session.name}" if self.session.name else self.center.parts.approver

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def query(self, name: str) -> str:
        """A value of the address, empty when there is none. Raises ``BadForm`` when it is too long."""
        value = self.request.query_params.get(name, "")
        if len(value) > QUERY_CHARS_MAX:
            raise BadForm(400, f"{name} is too long")
        return value

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        given = {
            "csrf": self.session.csrf,
            "person": self.session.name,
            "version": self.center.changes.look(),
            "worker": self.center.parts.worker,
            "live": True,
            **values,
        }
        return HTMLResponse(self.drawing.page(template, given), status)

    def to(self, path: str, **query: str) -> Response:
        """See other: a page that can be loaded again without answering again."""
        more = f"?{urlencode(query)}" if query else ""
        return RedirectResponse(f"{self.base}{quote(path, safe='/-_.~:')}{more}", 303)


PageHandler = Callable[[Visit], Awaitable[Response]]
