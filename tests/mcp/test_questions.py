"""Questions of runs through real clients: asked in place where the client can show a form, watched as resources, and
found again after the server was killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import ElicitRequestFormParams, ElicitResult

from tests.app.harness import run, until, write_policy
from tests.mcp.product import environment
from tests.mcp.support import PATIENCE_SECONDS, Era, Transport
from tests.mcp.test_kernel_surface import WAYS, http_product, tool

WRITE = {"id": "s1", "capability": "fs.write_text", "arguments": {"path": "out.txt", "text": "written by a plan"}}
SECOND = {"id": "s2", "capability": "fs.write_text", "arguments": {"path": "two.txt", "text": "second"}}


@asynccontextmanager
async def asked(
    directory: Path, transport: Transport, era: Era, action: str, choice: Any, seen: list[ElicitRequestFormParams]
) -> AsyncIterator[Client]:
    """A client whose user answers every form alike."""
    (directory / "work").mkdir(exist_ok=True)

    async def answer(_: Any, params: Any) -> ElicitResult:
        seen.append(params)
        content = {"choice": choice, "rationale": "looks right"} if action == "accept" else None
        return ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    options: dict[str, Any] = {"read_timeout_seconds": PATIENCE_SECONDS, "elicitation_callback": answer}
    if transport == "stdio":
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "chaoscore.cli", "serve", "--stdio"],
            cwd=str(directory),
            env=environment(directory),
        )
        async with Client(server, mode=era, **options) as client:
            yield client
    else:
        with http_product(directory) as url:
            async with Client(f"{url}/mcp", mode=era, **options) as client:
                yield client


async def planned(client: Client, *steps: dict[str, Any]) -> str:
    made = await tool(client, "plan", steps=[{**s, "arguments": dict(s["arguments"])} for s in steps])
    assert made["ok"], made
    return str(made["data"]["plan_id"])


def paths(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    work = directory / "work"
    return (
        {**WRITE, "arguments": {**WRITE["arguments"], "path": str(work / "out.txt")}},  # type: ignore[dict-item]
        {**SECOND, "arguments": {**SECOND["arguments"], "path": str(work / "two.txt")}},  # type: ignore[dict-item]
    )


@WAYS
def test_a_client_that_shows_forms_is_asked_in_place_and_the_run_goes_on(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async def work() -> None:
        seen: list[ElicitRequestFormParams] = []
        first, _ = paths(tmp_path)
        async with asked(tmp_path, transport, era, "accept", "approve", seen) as client:
            plan = await planned(client, first)
            done = await tool(client, "execute", plan_id=plan)
            assert done["status"] == "ACHIEVED", done
            assert (tmp_path / "work" / "out.txt").read_text("utf-8") == "written by a plan"
            assert len(seen) == 1 and "written by a plan" in seen[0].message
            told = await tool(client, "inspect", what="audit", plan_id=plan, limit=100)
            assert told["ok"], told
            events = told["data"]["events"]
            (answered,) = [e["data"] for e in events if e["kind"] == "decision-answered"]
            assert answered["door"] == "elicitation"

    run(work())


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_rerun_that_asks_in_place_is_one_rerun(tmp_path: Path, era: Era) -> None:
    async def work() -> None:
        seen: list[ElicitRequestFormParams] = []
        first, _ = paths(tmp_path)
        first = {**first, "arguments": {**first["arguments"], "overwrite": True}}
        async with asked(tmp_path, "stdio", era, "accept", "approve", seen) as client:
            plan = await planned(client, first)
            one = await tool(client, "execute", plan_id=plan)
            two = await tool(client, "execute", plan_id=plan, rerun=True)
            assert (one["status"], two["status"]) == ("ACHIEVED", "ACHIEVED"), two
            assert len(seen) == 2
            runs = (await tool(client, "inspect", what="runs"))["data"]["runs"]
            assert len(runs) == 2

    run(work())


@WAYS
def test_of_several_actions_the_user_picks_and_the_rest_is_denied(
    tmp_path: Path, transport: Transport, era: Era
) -> None:
    async def work() -> None:
        seen: list[ElicitRequestFormParams] = []
        async with asked(tmp_path, transport, era, "accept", ["approve:s2"], seen) as client:
            plan = await planned(client, *paths(tmp_path))
            done = await tool(client, "execute", plan_id=plan)
            assert [s["state"] for s in done["data"]["steps"]] == ["denied", "succeeded"]
            assert not (tmp_path / "work" / "out.txt").exists()

    run(work())


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_declining_is_a_no_and_leaving_the_form_is_none(tmp_path: Path, era: Era) -> None:
    async def work() -> None:
        for action, status in (("cancel", "WAITING_FOR_APPROVAL"), ("decline", "BLOCKED")):
            directory = tmp_path / action
            directory.mkdir()
            async with asked(directory, "stdio", era, action, None, []) as client:
                plan = await planned(client, paths(directory)[0])
                assert (await tool(client, "execute", plan_id=plan))["status"] == status
                assert not (directory / "work" / "out.txt").exists()

    run(work())


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_in_human_mode_a_form_is_shown_only_where_the_policy_lists_that_door(tmp_path: Path, era: Era) -> None:
    async def work() -> None:
        for number, doors in enumerate((["web", "terminal"], ["elicitation"])):
            directory = tmp_path / str(number)
            (directory / "data").mkdir(parents=True)
            write_policy(
                directory / "data",
                requireConfirmationFor=["fs.write_text"],
                approvalMode="human",
                approvalDoors=list(doors),
            )
            seen: list[ElicitRequestFormParams] = []
            async with asked(directory, "stdio", era, "accept", "approve", seen) as client:
                plan = await planned(client, paths(directory)[0])
                done = await tool(client, "execute", plan_id=plan)
                assert (len(seen), done["status"]) == (number, ("WAITING_FOR_APPROVAL", "ACHIEVED")[number])

    run(work())


def test_runs_and_decisions_are_resources_and_whoever_subscribed_hears_of_changes(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "work").mkdir()
        updated: list[str] = []

        async def heard(message: Any) -> None:
            uri = getattr(getattr(message, "params", None), "uri", None)
            if uri is not None:
                updated.append(str(uri))

        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "chaoscore.cli", "serve"],
            cwd=str(tmp_path),
            env=environment(tmp_path),
        )
        async with Client(
            server, mode="legacy", read_timeout_seconds=PATIENCE_SECONDS, message_handler=heard
        ) as client:
            listed = [str(r.uri) for r in (await client.list_resources()).resources]
            assert listed == ["chaos://runs", "chaos://decisions"]
            plan = await planned(client, paths(tmp_path)[0])
            await client.subscribe_resource("chaos://decisions")
            waiting = await tool(client, "execute", plan_id=plan)
            await until(lambda: "chaos://decisions" in updated)
            body = json.loads((await client.read_resource("chaos://decisions")).contents[0].text)  # type: ignore[union-attr]
            (decision,) = body["decisions"]
            assert decision["decision"] == waiting["data"]["decisions"][0]["decision"]
            assert decision["actions"][0]["arguments"]["text"] == "written by a plan"
            run_id = waiting["data"]["run_id"]
            one = json.loads((await client.read_resource(f"chaos://runs/{run_id}")).contents[0].text)  # type: ignore[union-attr]
            assert one["status"] == "waiting-for-decision"

    run(work())


def children_of(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()
    return [int(pid) for pid in found if b"chaoscore" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_question_survives_the_death_of_its_server_and_the_worker_of_the_next_one_finishes_the_run(
    tmp_path: Path,
) -> None:
    """The walk through: an agent asks, the server is killed, a person answers, another server goes on by itself."""

    async def agent() -> tuple[str, int]:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "chaoscore.cli", "serve"],
            cwd=str(tmp_path),
            env=environment(tmp_path),
        )
        async with Client(server, mode="legacy", read_timeout_seconds=PATIENCE_SECONDS) as client:
            plan = await planned(client, *paths(tmp_path))
            waiting = await tool(client, "execute", plan_id=plan)
            (decision,) = waiting["data"]["decisions"]
            servers = children_of(os.getpid())
            for pid in servers:
                os.kill(pid, signal.SIGKILL)
            return str(decision["decision"]), len(servers)

    async def work() -> None:
        (tmp_path / "work").mkdir()
        decision, killed = await agent()
        assert killed == 1
        out = tmp_path / "work" / "two.txt"
        with http_product(tmp_path):
            answered = await asyncio.to_thread(
                subprocess.run,
                [
                    *(sys.executable, "-m", "chaoscore.cli", "decide", decision),
                    *("--option", "approve:s1", "--option", "approve:s2", "--no-input"),
                ],
                env=environment(tmp_path),
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
            assert answered.returncode == 0, answered.stderr
            await until(out.exists, PATIENCE_SECONDS)
        assert out.read_text("utf-8") == "second"

    run(work())
