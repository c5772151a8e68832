"""The Decision Center over real HTTP: uvicorn on a free port in this process, over a real kernel and real folders."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from chaoscore.adapters.mcp.http import http_app
from chaoscore.adapters.mcp.http_guard import AllowedHosts
from chaoscore.adapters.mcp.http_server import listen
from chaoscore.adapters.system import RandomIds, SystemClock
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import DecisionRequest
from chaoscore.bootstrap_center import CENTER_PATH, OpenCenter, open_center
from chaoscore.bootstrap_interaction import Interactions, open_interactions
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.settings.interaction import load_interaction_settings
from tests.app.harness import Bench, bench, step, until, write_policy

ASK = "test.append"
PATIENCE_SECONDS = 10.0


@dataclass
class Web:
    """A running Decision Center, what it stands on, and a browser that came in by the link."""

    bench: Bench
    runtime: Interactions
    center: OpenCenter
    address: str
    browser: httpx2.AsyncClient

    @property
    def csrf(self) -> str:
        """The CSRF token of the browser's session."""
        access = self.center.site.access
        session = access.session(self.browser.cookies.get(access.cookie))
        assert session is not None, "nobody is signed in"
        return session.csrf

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.browser.get(f"{self.address}{path}", **more)

    async def post(self, path: str, fields: dict[str, Any], **headers: str) -> httpx2.Response:
        """As a form of this site sends it; headers with an empty value are left out."""
        sent = {"origin": self.address, "sec-fetch-site": "same-origin", **headers}
        return await self.browser.post(
            f"{self.address}{path}",
            data={"csrf": self.csrf, **fields},
            headers={key.replace("_", "-"): value for key, value in sent.items() if value},
        )

    async def waiting_run(self, text: str = "hello", **more: Json) -> str:
        """A run that waits for one approval; the decision's id."""
        plan = await self.bench.plan(step("s1", ASK, {"text": text}, **more))
        await self.bench.execute(plan)
        found, _ = await self.bench.kernel.services.approvals.waiting(None, 200)
        return found[-1].id

    async def ask(self, **more: Any) -> str:
        """An agent's question in the folder; the decision's id."""
        begun = await self.runtime.service.begin(BeginRequest(more.pop("command", "chaos:work"), metadata=None))
        given: dict[str, Any] = {
            "title": "Go on?",
            "context": "Something is to be decided.",
            "options": [{"id": "yes", "label": "Yes"}, {"id": "no", "label": "No"}],
            "interaction_type": "confirmation",
            "independent": True,
            **more,
        }
        asked = await self.runtime.service.create_decision(DecisionRequest(begun.data["commandRunId"], **given))  # type: ignore[arg-type]
        assert asked.ok, asked
        return str(asked.data["decisionId"])

    @property
    def folder(self) -> str:
        return self.center.site.center.parts.folders[0].key

    def question(self, decision: str) -> str:
        """The path of an agent's question."""
        return f"/center/decisions/{self.folder}/{decision}"


@asynccontextmanager
async def web(
    directory: Path, *, limits: Limits | None = None, root: Path | None = None, enter: bool = True, **policy: Json
) -> AsyncIterator[Web]:
    repository = directory / "repo"
    repository.mkdir(exist_ok=True)
    asking: dict[str, Json] = {"requireConfirmationFor": [ASK], **policy}
    write_policy(directory, **asking)
    settings = load_interaction_settings({"repo-root": str(repository)}, {}, repository)
    async with (
        bench(directory, limits=limits, root=root) as b,
        open_interactions(settings) as runtime,
        open_center(b.kernel, runtime, (), worker=False) as center,
    ):

        async def health() -> JsonObject:
            return {"ok": True}

        app = http_app(
            {},
            health=health,
            allowed=AllowedHosts.for_bind("127.0.0.1"),
            clock=SystemClock(),
            ids=RandomIds(),
            mounts={CENTER_PATH: center.site},
            on_close=center.site.close,
        )
        sockets = listen("127.0.0.1", 0)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none", lifespan="on"))
        serving = asyncio.create_task(server.serve(sockets))
        try:
            port = sockets[0].getsockname()[1]
            await until(lambda: server.started)
            address = f"http://127.0.0.1:{port}"
            async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as browser:
                if enter:
                    entered = await browser.get(center.entry("127.0.0.1", port).link)
                    assert entered.status_code == 200, entered.text
                yield Web(b, runtime, center, address, browser)
        finally:
            app.close_streams()
            server.should_exit = True
            with contextlib.suppress(asyncio.CancelledError):
                await serving
            for sock in sockets:
                sock.close()


def hidden(page: str, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'<input type="hidden" name="{re.escape(name)}" value="([^"]*)"', page)
    assert found is not None, f"there is no hidden field {name}"
    return html.unescape(found.group(1))
