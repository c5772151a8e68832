"""Open pages hear of changes: of this process, of other processes, of folders; bounded, and gone with the session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from chaoscore.app.center import changes
from chaoscore.app.center.changes import Changes
from tests.app.harness import run, until
from tests.mcp.support import ROOT
from tests.web.harness import Web, hidden, web

PATIENCE_SECONDS = 20.0


class Events:
    """What one open page hears."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines: AsyncIterator[str] = response.aiter_lines()

    async def change(self) -> int:
        """The version of the next change."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for line in self._lines:
                if line.startswith("data: "):
                    return int(line.removeprefix("data: "))
        raise AssertionError("the stream ended")

    async def ended(self) -> bool:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for _ in self._lines:
                pass
        return True


def listening(w: Web) -> object:
    return w.browser.stream("GET", f"{w.address}/center/live", timeout=PATIENCE_SECONDS)


def test_an_answer_of_another_process_arrives_and_the_page_then_shows_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            decision = await w.waiting_run()
            async with w.browser.stream("GET", f"{w.address}/center/live", timeout=PATIENCE_SECONDS) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                events = Events(response)
                first = await events.change()
                child = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "tests.web.answerer", str(tmp_path), decision, "deny", cwd=ROOT
                )
                path = f"/center/decisions/runs/{decision}"
                while True:
                    version = await events.change()
                    assert version > first
                    page = (await w.get(path, headers={"x-live": "1"})).text
                    if "answered by ada (terminal)" in page:
                        break
                assert await child.wait() == 0

    run(work())


def test_an_answer_on_one_page_reaches_another(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            path = f"/center/decisions/runs/{await w.waiting_run()}"
            digest = hidden((await w.get(path)).text, "digest")
            async with w.browser.stream("GET", f"{w.address}/center/live") as response:
                events = Events(response)
                first = await events.change()
                await w.post(path, {"digest": digest, "option": "approve"})
                assert await events.change() > first

    run(work())


def test_a_question_in_a_folder_arrives(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w:
            await w.ask()
            async with w.browser.stream("GET", f"{w.address}/center/live") as response:
                events = Events(response)
                first = await events.change()
                poller = w.center.site.center.changes
                await until(lambda: bool(poller._tokens))
                await w.ask(command="chaos:other", title="Another?")
                assert await events.change() > first

    run(work())


def test_nothing_is_looked_at_while_nobody_listens_and_listeners_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "LISTENERS_MAX", 2)

    async def work() -> None:
        async with web(tmp_path) as w:
            center: Changes = w.center.site.center.changes
            assert center._poller is None
            address = f"{w.address}/center/live"
            async with w.browser.stream("GET", address) as one, w.browser.stream("GET", address) as two:
                assert await Events(one).change() and await Events(two).change()
                refused = await w.browser.get(address)
                assert refused.status_code == 503 and refused.headers["retry-after"]
            await until(lambda: not center.is_full and center._poller is None)
            async with w.browser.stream("GET", address) as three:
                assert await Events(three).change()

    run(work())


def test_a_stream_ends_when_its_person_signs_out(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w, w.browser.stream("GET", f"{w.address}/center/live") as response:
            events = Events(response)
            await events.change()
            await w.post("/center/sign-out", {})
            w.center.site.center.changes.tell()
            assert await events.ended()

    run(work())


def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    async def work() -> None:
        async with web(tmp_path) as w, w.browser.stream("GET", f"{w.address}/center/live") as response:
            events = Events(response)
            await events.change()
            w.center.site.close()
            assert await events.ended()

    run(work())
