"""The product over real clients: one surface on both transports and in both eras, and the main job through it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client, StdioServerParameters

from tests.app.harness import run, write_policy
from tests.mcp.product import environment
from tests.mcp.support import PATIENCE_SECONDS, ROOT, Era, Transport

TOOLS = ["reason", "plan", "execute", "inspect", "remember", "recall", "achieve"]
EXAMPLE = json.loads((ROOT / "examples" / "index-docs.json").read_text("utf-8"))
WAYS = pytest.mark.parametrize(
    ("transport", "era"),
    [("stdio", "legacy"), ("stdio", "2026-07-28"), ("http", "legacy"), ("http", "2026-07-28")],
)


@contextmanager
def http_product(directory: Path, **more: str) -> Iterator[str]:
    """A real `chaoscore serve --http` on a free port; its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "chaoscore.cli", "serve", "--http", "--port", "0"],
        cwd=directory,
        env=environment(directory) | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None and process.stdout is not None
    try:
        url = None
        for line in process.stderr:
            if found := re.search(r"listening on (http://\S+?:\d+)", line):
                url = found[1]
                break
        assert url is not None, "the server did not start"
        yield url
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()
        process.stderr.close()


@asynccontextmanager
async def product(directory: Path, transport: Transport, era: Era, **more: str) -> AsyncIterator[Client]:
    (directory / "work").mkdir(exist_ok=True)
    if transport == "stdio":
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "chaoscore.cli", "serve", "--stdio"],
            cwd=str(directory),
            env=environment(directory) | more,
        )
        async with Client(server, mode=era, read_timeout_seconds=PATIENCE_SECONDS) as client:
            yield client
    else:
        with http_product(directory, **more) as url:
            async with Client(f"{url}/mcp", mode=era, read_timeout_seconds=PATIENCE_SECONDS) as client:
                yield client


async def tool(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(f"chaoscore_{name}", arguments)
    assert result.structured_content is not None
    assert result.is_error is (not result.structured_content["ok"])
    return cast("dict[str, Any]", result.structured_content)


def test_both_transports_and_both_eras_show_the_same_seven_tools(tmp_path: Path) -> None:
    async def work() -> None:
        seen = []
        for transport, era in (
            ("stdio", "legacy"),
            ("stdio", "2026-07-28"),
            ("http", "legacy"),
            ("http", "2026-07-28"),
        ):
            async with product(tmp_path, cast("Transport", transport), cast("Era", era)) as client:
                listed = await client.list_tools()
                seen.append([t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in listed.tools])
        assert [t["name"] for t in seen[0]] == [f"chaoscore_{name}" for name in TOOLS]
        assert all(other == seen[0] for other in seen[1:])
        for definition in seen[0]:
            assert definition["outputSchema"]["properties"]["mustStop"]
            assert set(definition["annotations"]) >= {"readOnlyHint", "idempotentHint", "destructiveHint"}
            for name, schema in definition["inputSchema"]["properties"].items():
                assert "description" in schema or "enum" in schema or "items" in schema, (definition["name"], name)

    run(work())


@WAYS
def test_the_main_job_runs_through_a_real_client(tmp_path: Path, transport: Transport, era: Era) -> None:
    async def work() -> None:
        docs = tmp_path / "work" / "docs"
        (docs / "more").mkdir(parents=True)
        (docs / "a.md").write_text("# First\n\ntext\n", "utf-8")
        (docs / "more" / "b.md").write_text("intro\n# Second\n", "utf-8")
        async with product(tmp_path, transport, era) as client:
            planned = await tool(client, "plan", objective=EXAMPLE["objective"], steps=EXAMPLE["steps"])
            assert planned["status"] == "PLANNED"
            verdicts = {s["id"]: s["verdict"]["effect"] for s in planned["data"]["steps"]}
            assert verdicts["save"] == "REQUIRE_APPROVAL"
            told: list[str] = []

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                told.append(message or "")

            waiting = await client.call_tool(
                "chaoscore_execute", {"plan_id": planned["data"]["plan_id"]}, progress_callback=progress
            )
            assert waiting.structured_content is not None
            assert waiting.structured_content["status"] == "WAITING_FOR_APPROVAL"
            assert waiting.structured_content["mustStop"] is True
            assert any("fs.read_text" in message for message in told)
            assert not (tmp_path / "work" / "DOCS.md").exists()
            run_id = waiting.structured_content["data"]["run_id"]
            done = await tool(client, "execute", run_id=run_id, confirmed=True)
            assert (done["status"], done["data"]["evaluation"]["outcome"]) == ("ACHIEVED", "achieved")
            index = (tmp_path / "work" / "DOCS.md").read_text("utf-8")
            assert "[First](docs/a.md)" in index
            assert "[Second](docs/more/b.md)" in index

    run(work())


def test_what_was_remembered_over_stdio_is_found_over_http(tmp_path: Path) -> None:
    async def work() -> None:
        async with product(tmp_path, "stdio", "legacy") as client:
            await tool(client, "remember", key="会议", value="下周三讨论预算")
        async with product(tmp_path, "http", "2026-07-28") as client:
            found = await tool(client, "recall", text="预算")
            assert [m["key"] for m in found["data"]["memories"]] == ["会议"]

    run(work())


@WAYS
def test_policy_blocks_the_same_on_every_transport(tmp_path: Path, transport: Transport, era: Era) -> None:
    async def work() -> None:
        write_policy(tmp_path, deniedCapabilities=["fs.*"])
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "a.txt").write_text("secret", "utf-8")
        async with product(tmp_path, transport, era, CHAOS_CORE_POLICY_PATH=str(tmp_path / "policy.json")) as client:
            steps = [{"id": "s1", "capability": "fs.read_text", "arguments": {"path": "a.txt"}}]
            answer = await tool(client, "achieve", steps=steps, confirmed=True)
            assert answer["status"] == "BLOCKED"
            assert answer["data"]["steps"][0]["state"] == "denied"

    run(work())


def test_a_key_appears_nowhere(tmp_path: Path) -> None:
    """The key is in the environment, the provider answers 401 with it, and no answer, log line or file shows it."""
    import http.server
    import threading

    key = "sk-proj-CANARYcanary0123456789canary"

    class Echo(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            sent = self.headers["authorization"]
            body = json.dumps({"error": {"message": f"Incorrect API key provided: {sent}"}}).encode()
            self.send_response(401)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    async def work() -> None:
        (tmp_path / "work").mkdir()
        with (tmp_path / "stderr.txt").open("w") as errors:
            parameters = StdioServerParameters(
                command=sys.executable,
                args=["-m", "chaoscore.cli", "serve", "--stdio"],
                cwd=str(tmp_path),
                env=environment(tmp_path)
                | {
                    "OPENAI_API_KEY": key,
                    "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}/v1",
                    "CHAOS_CORE_LOG_LEVEL": "debug",
                    "OPENAI_LOG": "debug",
                },
            )
            from mcp.client.stdio import stdio_client

            async with Client(stdio_client(parameters, errlog=errors), mode="legacy") as client:
                answers = [
                    await client.call_tool("chaoscore_reason", {"objective": "anything"}),
                    await client.call_tool("chaoscore_achieve", {"objective": "summarise the universe"}),
                    await client.call_tool("chaoscore_inspect", {"what": "providers"}),
                    await client.call_tool("chaoscore_inspect", {"what": "health"}),
                    await client.call_tool("chaoscore_inspect", {"what": "audit"}),
                ]
        assert answers[0].structured_content is not None
        assert answers[0].structured_content["error"]["code"] == "PROVIDER_AUTH"
        assert "CANARY" not in str([a.model_dump() for a in answers])

    run(work())
    server.shutdown()
    server.server_close()
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"CANARY" not in file.read_bytes(), file
