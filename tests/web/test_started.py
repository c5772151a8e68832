"""The Decision Center as people start it: what is printed, what is not, what is served, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from chaoscore.bootstrap import open_kernel
from chaoscore.domain.json import JsonObject
from chaoscore.settings import Settings
from tests.mcp.support import ENVELOPE, ROOT
from tests.web.harness import hidden

PATIENCE_SECONDS = 60.0
STOP_SECONDS = 15.0


@dataclass
class Started:
    process: subprocess.Popen[str]
    page: str
    link: str
    token: str
    said: list[str] = field(default_factory=list)

    def stop(self, number: int = signal.SIGINT) -> str:
        """Everything it said on standard error; it ended by itself and well."""
        self.process.send_signal(number)
        assert self.process.stderr is not None
        rest = self.process.stderr.read()
        assert self.process.wait(STOP_SECONDS) == 0, rest
        return "".join(self.said) + rest


@contextmanager
def started(directory: Path, *command: str, **environ: str) -> Iterator[Started]:
    given = {"HOME": str(directory), "CHAOS_CORE_DATA_DIR": str(directory / "data"), "PATH": os.environ["PATH"]}
    process = subprocess.Popen(
        [sys.executable, "-m", "chaoscore.cli", *command],
        cwd=directory,
        env={**given, "PYTHONPATH": str(ROOT / "src"), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said: list[str] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := re.search(r"Decision Center: (\S+)\n.*: (\S+)\n.*: (\w+)\n", "".join(said))) is None:
            line = process.stderr.readline()
            assert line and time.monotonic() < deadline, said
            said.append(line)
        yield Started(process, found[1], found[2], found[3], said)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_decide_web_serves_the_page_alone_on_this_machine_until_ctrl_c(tmp_path: Path) -> None:
    with started(tmp_path, "decide", "--web") as center, httpx2.Client(timeout=PATIENCE_SECONDS) as browser:
        assert center.page.startswith("http://127.0.0.1:")
        assert browser.get(center.page).status_code == 401
        assert browser.get(center.link).status_code == 200
        assert "Nothing waits for you" in browser.get(center.page).text
        server = center.page.removesuffix("/center/")
        front = browser.get(f"{server}/")
        assert (front.status_code, front.headers["location"]) == (307, "/center/")
        assert browser.get(f"{server}/", follow_redirects=True).url == center.page
        assert [browser.get(f"{server}/{path}").status_code for path in ("elsewhere", "centers")] == [404, 404]
        assert browser.post(f"{server}/mcp", json={}).status_code == 404
        assert browser.post(f"{server}/interaction/mcp", json={}).status_code == 404
        center.stop()


@pytest.mark.parametrize("wrong", [("--port", "1"), ("--worker",), ("--web", "DEC-1"), ("--web", "--json")])
def test_options_that_do_not_go_together_are_refused(tmp_path: Path, wrong: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "chaoscore.cli", "decide", *wrong]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert ended.returncode == 2 and "--web" in ended.stderr


def test_serve_http_has_the_page_beside_mcp_and_ends_while_pages_listen(tmp_path: Path) -> None:
    with started(tmp_path, "serve", "--http", "--port", "0") as center, httpx2.Client(timeout=60.0) as browser:
        browser.get(center.link)
        server = center.page.removesuffix("/center/")
        assert browser.get(f"{server}/health").json()["ok"] is True
        assert browser.post(f"{server}/mcp", json={}).status_code != 404
        with browser.stream("GET", f"{center.page}live") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            began = time.monotonic()
            center.stop(signal.SIGTERM)
            assert time.monotonic() - began < STOP_SECONDS


async def ask_to_write(directory: Path, notes: Path) -> None:
    """A run of a caller that went away: it waits for the approval of one file."""
    (directory / "data").mkdir(mode=0o700)
    settings = Settings(directory / "data", directory / "data" / "policy.json", (notes,))
    async with open_kernel(settings) as kernel:
        arguments: JsonObject = {"path": str(notes / "minutes.txt"), "text": "approved in a browser"}
        write: JsonObject = {"id": "keep", "capability": "fs.write_text", "arguments": arguments}
        plan = await kernel.tools.call("chaoscore_plan", {"steps": [write]}, kernel.local_context())
        told = await kernel.tools.call("chaoscore_execute", {"plan_id": plan.data["plan_id"]}, kernel.local_context())
        assert told.status == "WAITING_FOR_APPROVAL", told


def test_what_is_approved_on_the_page_is_done_by_the_server_and_seen_there(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    asyncio.run(ask_to_write(tmp_path, notes))
    command = ("serve", "--http", "--port", "0", "--root", str(notes))
    with started(tmp_path, *command) as center, httpx2.Client(timeout=PATIENCE_SECONDS) as browser:
        browser.get(center.link)
        server = center.page.removesuffix("/center/")
        listed = re.search(r'class="title" href="([^"]+)"', browser.get(center.page).text)
        assert listed is not None
        page = browser.get(server + listed[1]).text
        assert "approved in a browser" in page and str(notes / "minutes.txt") in page
        with browser.stream("GET", f"{center.page}live") as stream:
            lines = stream.iter_lines()
            fields = {"csrf": hidden(page, "csrf"), "digest": hidden(page, "digest"), "option": "approve"}
            answered = browser.post(server + listed[1], data=fields, headers={"origin": server})
            assert answered.status_code == 303
            run = re.search(r'href="(/center/runs/[^"]+)"', browser.get(server + answered.headers["location"]).text)
            assert run is not None
            while ">completed</span>" not in browser.get(server + run[1]).text:
                next(lines)  # every change is told, so no waiting in between is needed
        assert (notes / "minutes.txt").read_text("utf-8") == "approved in a browser"
        center.stop()


def test_link_and_token_are_printed_once_and_are_in_no_log_audit_or_answer(tmp_path: Path) -> None:
    command = ("serve", "--http", "--port", "0", "--log-level", "debug")
    with started(tmp_path, *command) as center, httpx2.Client(timeout=PATIENCE_SECONDS) as browser:
        link = center.link.rpartition("=")[2]
        origin = {"origin": center.page.removesuffix("/center/")}
        texts = [browser.get(center.link).text, browser.get(center.link).text, browser.get(center.page).text]
        for given in (center.token, center.token[:-1] + "x"):
            answer = browser.post(f"{center.page}sign-in", data={"token": given}, headers=origin)
            texts += [answer.text, str(answer.headers)]
        texts += [browser.get(f"{center.page}audit").text, browser.get(f"{center.page}nowhere").text]
        assert not any(center.token in text or link in text for text in texts)
        cookie = next(iter(browser.cookies.values()))
        said = center.stop()
    assert said.count(link) == 1 and said.count(center.token) == 1 and said.count(center.token[:-1]) == 1
    assert cookie not in said
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            raw = file.read_bytes()
            assert link.encode() not in raw and center.token.encode() not in raw and cookie.encode() not in raw, file
    database = sqlite3.connect(next((tmp_path / "data").glob("*.db*")))
    assert database.execute("SELECT count(*) FROM audit").fetchone() is not None
    database.close()


def test_a_server_for_one_client_loads_nothing_of_the_page() -> None:
    program = (
        "import sys, chaoscore.cli.main, chaoscore.cli.server, chaoscore.bootstrap, chaoscore.adapters.mcp.stdio;"
        "print([m for m in sys.modules if m.split('.')[0] in ('jinja2', 'markupsafe') or m.startswith(("
        "'chaoscore.adapters.web', 'chaoscore.app.center', 'chaoscore.bootstrap_center'))])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ended.stdout.strip() == "[]"


def test_a_notice_carries_the_address_of_the_question_and_the_command_that_answers_it(tmp_path: Path) -> None:
    notes, heard, tell = tmp_path / "notes", tmp_path / "heard", tmp_path / "tell"
    notes.mkdir()
    os.mkfifo(heard)
    tell.write_text(f"#!/bin/sh\ncat > {heard}\n", "utf-8")
    tell.chmod(0o755)
    (tmp_path / "data").mkdir(mode=0o700)
    arguments: JsonObject = {"path": str(notes / "a.txt"), "text": "x"}
    write: JsonObject = {"id": "s1", "capability": "fs.write_text", "arguments": arguments}
    command = ("serve", "--http", "--port", "0", "--root", str(notes))
    with (
        started(tmp_path, *command, CHAOS_CORE_NOTIFY_COMMAND=str(tell)) as center,
        httpx2.Client(timeout=PATIENCE_SECONDS) as browser,
    ):
        server = center.page.removesuffix("/center/")
        plan = call_tool(browser, server, "chaoscore_plan", {"steps": [write]})
        asked = call_tool(browser, server, "chaoscore_execute", {"plan_id": plan["data"]["plan_id"]})
        notice = json.loads(heard.read_text("utf-8"))  # opens once the program does
        (decision,) = asked["data"]["decisions"]
        assert notice["url"] == f"{center.page}decisions/runs/{decision['decision']}"
        assert notice["command"] == f"chaoscore decide {decision['decision']} --data-dir {tmp_path / 'data'}"
        assert browser.get(notice["url"]).status_code == 401
        browser.get(center.link)
        assert str(notes / "a.txt") in browser.get(notice["url"]).text


def call_tool(client: httpx2.Client, server: str, name: str, arguments: JsonObject) -> dict[str, Any]:
    """One call of the stateless protocol era."""
    headers = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
        "accept": "application/json",
    }
    params = {"name": name, "arguments": arguments, "_meta": ENVELOPE}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = client.post(f"{server}/mcp", json=body, headers=headers)
    return cast("dict[str, Any]", answer.json()["result"]["structuredContent"])
