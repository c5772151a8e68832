"""The Decision Center in a real Chromium: a served process of its own, an agent in another one's place, and pages that
are watched.

Every page refuses requests to anywhere but the servers of the test, and remembers dialogs, violations of the content
security policy, errors of scripts and what it asked for.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Playwright, Route, sync_playwright

from chaoscore.adapters.files.approver_pin import FilePin
from chaoscore.adapters.system import SystemClock
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import DecisionRequest
from chaoscore.app.tools import CallContext, Connection
from chaoscore.bootstrap import Kernel, open_kernel
from chaoscore.bootstrap_interaction import Interactions, open_interactions
from chaoscore.domain.json import Json, JsonObject
from chaoscore.settings import load_settings
from chaoscore.settings.interaction import load_interaction_settings
from tests.app.harness import step, write_policy
from tests.mcp.support import ROOT

T = TypeVar("T")
PIN = "velvet-otter-91"
WRITE = "fs.write_text"
PATIENCE_SECONDS = 15.0
PATIENCE_MS = PATIENCE_SECONDS * 1000
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
_ENTRY = r"Decision Center: (\S+)\n.*within 15 minutes: (\S+)\n.*until the server ends: (\S+)\n"
# Set before any script of a page runs, and by the browser itself, so that no policy of the page stands in the way.
WATCHER = """
document.addEventListener("securitypolicyviolation", (event) => console.error(
  ["VIOLATION", event.violatedDirective, event.blockedURI, location.pathname, event.sample].join(" ")));
"""


def found_browser() -> str:
    """Where Chromium is. Skips when there is none, naming what is missing."""
    command = ["bash", str(ROOT / "scripts" / "browser"), "find"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode == 3:
        pytest.skip(f"no browser: {found.stderr.strip()}")
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Headless, with a new profile."""
    path = found_browser()
    playwright: Playwright
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, headless=True)
        try:
            yield browser
        finally:
            browser.close()


class Served:
    """``chaoscore serve --http`` as a process, on a free port that it keeps when it is started again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.page = self.link = self.token = ""
        self.log: list[str] = []
        """What was written to standard error, by every process there was."""
        self.process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        for name in ("work", "repo"):
            (directory / name).mkdir(exist_ok=True)

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.directory),
            "CHAOS_CORE_DATA_DIR": str(self.directory / "data"),
            "CHAOS_CORE_POLICY_PATH": str(self.directory / "policy.json"),
            "CHAOS_CORE_FS_ROOTS": str(self.directory / "work"),
            "CHAOS_INTERACTIONS_ROOT": str(self.directory / "repo" / ".chaos" / "interactions"),
        }

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "chaoscore.cli", "serve", "--http", "--port", str(self.port)]
        process = subprocess.Popen(
            command, env=self.environment(), cwd=self.directory / "repo", stderr=subprocess.PIPE, text=True
        )
        self.process = process
        assert process.stderr is not None
        begun = len(self.log)
        for line in process.stderr:
            self.log.append(line)
            said = "".join(self.log[begun:])
            if (found := re.search(_ENTRY, said, re.DOTALL)) and "listening on" in said:
                self.page, self.link, self.token = found.groups()
                break
        else:
            raise AssertionError("the server ended: " + "".join(self.log[begun:]))
        self.port = urlsplit(self.page).port or 0
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            self.log.extend(stream)

    def kill(self) -> None:
        """As ``kill -9`` does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self._ended()
        self.page = self.link = self.token = ""

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self._ended()

    def require_quiet(self) -> None:
        """No page failed, and nothing that opens the door was written anywhere but to the operator."""
        told = ("Decision Center: ", "  come in once, ", "  or with this token, ")
        said = "".join(line for line in self.log if not line.startswith(told))
        assert "failed unexpectedly" not in said and "Traceback" not in said, said
        for secret in (self.token, self.link.partition("token=")[2], PIN):
            assert secret and secret not in said

    def _ended(self) -> None:
        assert self.process is not None and self._reader is not None
        self.process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)


class Agent:
    """Who asks: a kernel and a decision runtime of another process than the server, over the same folders.

    It has a loop in a thread of its own, because the browser's driver has the one of the test's thread.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._closing = asyncio.Event()
        self._open: asyncio.Future[None] | None = None
        self.kernel: Kernel
        self.runtime: Interactions
        ready = threading.Event()
        self._life = asyncio.run_coroutine_threadsafe(self._live(ready), self._loop)
        while not ready.wait(0.05):
            if self._life.done():
                self._life.result()
        self._number = 0

    async def _live(self, ready: threading.Event) -> None:
        env, directory = self._served.environment(), self._served.directory
        settings = load_settings({}, env, directory)
        interactions = load_interaction_settings({"repo-root": str(directory / "repo")}, env, directory / "repo")
        async with open_kernel(settings) as self.kernel, open_interactions(interactions) as self.runtime:
            ready.set()
            await self._closing.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._life.result(PATIENCE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_SECONDS)

    def call(self, tool: str, **arguments: Json) -> dict[str, Any]:
        context = CallContext(self.kernel.principal, Connection("c-test"))
        return dict(self.do(self.kernel.tools.call(tool, arguments, context)).to_json())

    def run(self, *steps: JsonObject, objective: str = "tidy the notes") -> str:
        """A run of these steps, as far as it gets; its label."""
        made = self.call("chaoscore_plan", objective=objective, steps=list(steps))
        assert made["ok"], made
        begun = self.call("chaoscore_execute", plan_id=made["data"]["plan_id"])
        return str(begun["data"]["label"])

    def waiting_run(self, text: str = "hello", **more: Json) -> tuple[str, Path]:
        """A run that waits for a person; the decision's id and the file that it will write."""
        self._number += 1
        path = self._served.directory / "work" / f"note-{self._number}.md"
        label = self.run(write(path, text, "keep", **more))
        return self.decision(label), path

    def decision(self, label: str) -> str:
        """The id of the question that a run waits for."""
        run = self.do(self.kernel.stores.runs.load_run(label))
        assert run is not None
        return next(decision.id for decision in run.decisions if decision.state == "waiting")

    def ask(self, **more: Any) -> str:
        """A question in the folder; the decision's id."""
        self._number += 1
        return self.do(self._ask(more.pop("command", f"chaos:work-{self._number}"), more))

    async def _ask(self, command: str, more: dict[str, Any]) -> str:
        begun = await self.runtime.service.begin(BeginRequest(command, metadata=None))
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
        """The key of the interactions folder in addresses."""
        from chaoscore.app.center import Folder

        return Folder(str(self.runtime.settings.root), self.runtime.service).key


def write(path: Path, text: str = "hello", step_id: str = "keep", **more: Json) -> JsonObject:
    return step(step_id, WRITE, {"path": str(path), "text": text}, **more)


@dataclass
class Watch:
    """What must not happen in any page of a browser context."""

    admitted: set[str] = field(default_factory=set)
    strangers: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def require_peace(self) -> None:
        assert (self.strangers, self.dialogs, self.violations, self.errors) == ([], [], [], [])

    def attach(self, context: BrowserContext) -> None:
        context.route("**/*", self._route)
        context.add_init_script(WATCHER)
        context.on("page", self._page)

    def _route(self, route: Route) -> None:
        url = urlsplit(route.request.url)
        if f"{url.scheme}://{url.netloc}" in self.admitted:
            route.continue_()
        else:
            self.strangers.append(route.request.url)
            route.abort()

    def _page(self, page: Page) -> None:
        def dialog(shown: Any) -> None:
            self.dialogs.append(shown.message)
            shown.dismiss()

        def console(message: Any) -> None:
            if "VIOLATION" in message.text or "Content Security Policy" in message.text:
                self.violations.append(message.text)

        page.on("dialog", dialog)
        page.on("console", console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))


@dataclass
class Desk:
    """A person's browser in front of a served Decision Center."""

    served: Served
    agent: Agent
    browser: Browser
    watch: Watch
    context: BrowserContext
    page: Page

    def go(self, path: str, page: Page | None = None) -> Page:
        shown = page or self.page
        shown.goto(f"{self.served.origin}/center{path}")
        return shown

    def other(self, *, name: str = "", **options: Any) -> Page:
        """A page of a browser of its own, that came in by the token."""
        context = new_context(self.browser, self.watch, **options)
        page = context.new_page()
        sign_in(self.served, page, name)
        return page

    def decision(self, name: str) -> str:
        return f"/decisions/runs/{name}"

    def policy(self, **policy: Json) -> None:
        """Another policy from now on."""
        write_policy(self.served.directory, **policy)


def new_context(browser: Browser, watch: Watch, **options: Any) -> BrowserContext:
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE_MS)
    watch.attach(context)
    return context


def sign_in(served: Served, page: Page, name: str = "") -> None:
    if not page.url.startswith(served.origin):
        page.goto(f"{served.origin}/center/")
    page.get_by_label("Token").fill(served.token)
    page.get_by_label("Your name").fill(name)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()


@contextmanager
def desk(directory: Path, browser: Browser, *, pin: bool = False, **policy: Json) -> Iterator[Desk]:
    """A server of its own, a browser that came in by the one-time link."""
    write_policy(directory, **{"requireConfirmationFor": [WRITE], **policy})
    served = Served(directory)
    agent = Agent(served)
    if pin:
        FilePin(directory / "data", SystemClock()).create(PIN)
    try:
        served.start()
        watch = Watch({served.origin})
        context = new_context(browser, watch)
        try:
            page = context.new_page()
            page.goto(served.link)
            page.wait_for_url(f"{served.origin}/center/")
            yield Desk(served, agent, browser, watch, context, page)
        finally:
            for opened in list(browser.contexts):
                opened.close()
            served.stop()
        served.require_quiet()
    finally:
        agent.close()


def focused(page: Page) -> str:
    """What has the focus: its id, or its text."""
    return str(page.evaluate("() => document.activeElement.id || document.activeElement.textContent.trim()"))


def tab_to(page: Page, wanted: Locator, presses_max: int = 120) -> None:
    """Press Tab until ``wanted`` has the focus."""
    for _ in range(presses_max):
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the keyboard does not get to {wanted}")


def texts(located: Locator) -> Sequence[str]:
    return [text.strip() for text in located.all_inner_texts()]
