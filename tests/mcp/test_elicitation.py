"""Asking the user in place, with the SDK's own client on both transports and in both eras: one behaviour for tools."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, ErrorData

from tests.mcp.support import PATIENCE_SECONDS, ROOT, Era, Transport, http_server

SERVER = "tests.mcp.elicitation_server"
EVERYWHERE: list[tuple[Transport, Era]] = [
    ("stdio", "legacy"),
    ("stdio", "auto"),
    ("http", "legacy"),
    ("http", "auto"),
]
everywhere = pytest.mark.parametrize(("transport", "era"), EVERYWHERE)
Content = dict[str, str | int | float | bool | list[str] | None]
GOOD: Content = {"where": "green", "what": ["db", "web"], "sure": True, "why": "because"}


class Stage:
    """One server over one transport, with its folder; ``asked`` are the forms that the client's user was shown."""

    def __init__(self, transport: Transport, era: Era, data: Path, url: str | None) -> None:
        self.era = era
        self.data = data
        self.asked: list[ElicitRequestFormParams] = []
        self._url = url

    @asynccontextmanager
    async def client(
        self, answer: Callable[[ElicitRequestFormParams], Awaitable[ElicitResult | ErrorData]] | None
    ) -> AsyncIterator[Client]:
        async def callback(_: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
            assert isinstance(params, ElicitRequestFormParams)
            self.asked.append(params)
            assert answer is not None
            return await answer(params)

        server: Any = self._url or StdioServerParameters(
            command=sys.executable, args=["-m", SERVER, "stdio", json.dumps({"data": str(self.data)})], cwd=str(ROOT)
        )
        options: dict[str, Any] = {} if answer is None else {"elicitation_callback": callback}
        async with Client(server, mode=self.era, read_timeout_seconds=PATIENCE_SECONDS, **options) as client:
            yield client

    def journal(self) -> list[str]:
        return (self.data / "journal").read_text().splitlines()


@pytest.fixture
def stage(transport: Transport, era: Era, tmp_path: Path) -> Iterator[Stage]:
    if transport == "stdio":
        yield Stage(transport, era, tmp_path, None)
        return
    with http_server({"data": str(tmp_path)}, SERVER) as web:
        yield Stage(transport, era, tmp_path, web.url)


def says(action: Any, content: Content | None = None) -> Callable[[ElicitRequestFormParams], Awaitable[ElicitResult]]:
    async def answer(_: ElicitRequestFormParams) -> ElicitResult:
        return ElicitResult(action=action, content=content)

    return answer


async def tool(client: Client, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    found = (await client.call_tool(name, arguments or {})).structured_content
    assert isinstance(found, dict)
    return found


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


@everywhere
def test_an_answer_reaches_the_tool_field_by_field_and_the_effect_happens_once(stage: Stage) -> None:
    async def scenario() -> None:
        async with stage.client(says("accept", {**GOOD, "unasked": "x"})) as client:
            found = await tool(client, "deploy")
        assert found["ok"] is True
        assert found["data"]["answer"] == {"action": "accept", "content": GOOD}

    run(scenario())
    assert len(stage.asked) == 1
    once = ["begins", "asks approve", "answered accept", "effect"]
    again = ["begins", "asks approve", "cancelled", "begins", "asks approve again", "answered accept", "effect"]
    assert stage.journal() == (once if stage.era == "legacy" else again)


@everywhere
def test_the_user_sees_what_is_asked_and_no_secret(stage: Stage) -> None:
    async def scenario() -> None:
        async with stage.client(says("accept", GOOD)) as client:
            await tool(client, "deploy")

    run(scenario())
    assert stage.asked[0].message == "Deploy to production with [redacted]?"
    assert stage.asked[0].requested_schema == {
        "type": "object",
        "properties": {
            "where": {
                "type": "string",
                "title": "Where to",
                "oneOf": [
                    {"const": "blue", "title": "The blue cluster"},
                    {"const": "green", "title": "The green cluster"},
                ],
            },
            "what": {"type": "array", "items": {"type": "string", "enum": ["web", "jobs", "db"]}, "minItems": 1},
            "sure": {"type": "boolean", "description": "There is no way back"},
            "why": {"type": "string", "maxLength": 40},
        },
        "required": ["where", "what", "sure"],
    }


@everywhere
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_no_and_a_dismissal_are_told_apart(stage: Stage, action: str) -> None:
    async def scenario() -> None:
        async with stage.client(says(action, GOOD)) as client:
            assert (await tool(client, "deploy"))["data"]["answer"] == {"action": action, "content": {}}

    run(scenario())
    assert "effect" not in stage.journal()


@everywhere
def test_a_client_that_declared_no_elicitation_is_never_asked(stage: Stage) -> None:
    async def scenario() -> None:
        async with stage.client(None) as client:
            found = await tool(client, "deploy")
            assert found["mustStop"] is True
            assert found["data"] == {"answer": None}

    run(scenario())
    assert stage.journal() == ["begins", "cannot ask"]


@everywhere
def test_an_answer_that_does_not_fit_the_form_is_no_answer(stage: Stage) -> None:
    async def scenario() -> None:
        unfit: list[Content | None] = [
            {**GOOD, "where": "mauve"},
            {**GOOD, "what": ["web", "moon"]},
            {**GOOD, "what": []},
            {**GOOD, "what": "web"},
            {**GOOD, "sure": "yes"},
            {**GOOD, "sure": 1},
            {**GOOD, "why": "x" * 41},
            {key: value for key, value in GOOD.items() if key != "where"},
            {},
            None,
        ]

        async def answer(_: ElicitRequestFormParams) -> ElicitResult:
            return ElicitResult(action="accept", content=unfit[len(stage.asked) - 1])

        async with stage.client(answer) as client:
            for _ in unfit:
                found = await tool(client, "deploy")
                assert found["ok"] is True
                assert found["data"] == {"answer": None}
        assert len(stage.asked) == len(unfit)

    run(scenario())
    assert "effect" not in stage.journal()


@everywhere
def test_a_client_that_fails_to_ask_is_no_fault_of_the_server(stage: Stage) -> None:
    async def scenario() -> None:
        async def answer(_: ElicitRequestFormParams) -> ErrorData:
            return ErrorData(code=-32603, message="no window")

        async with stage.client(answer) as client:
            if stage.era == "legacy":
                assert (await tool(client, "deploy"))["data"] == {"answer": None}
            else:  # the client gives up its own call and sends nothing
                with pytest.raises(MCPError):
                    await tool(client, "deploy")
            assert (await tool(client, "echo", {"text": "still there"}))["data"] == {"text": "still there"}

    run(scenario())
    assert "effect" not in stage.journal()


@everywhere
def test_questions_asked_side_by_side_travel_together(stage: Stage) -> None:
    async def scenario() -> None:
        both = asyncio.Event()

        async def answer(params: ElicitRequestFormParams) -> ElicitResult:
            if len(stage.asked) == 2:
                both.set()
            await both.wait()  # both are shown before either is answered
            return ElicitResult(action="accept", content={"sure": params.message == "first?"})

        async with stage.client(answer) as client:
            found = (await tool(client, "together"))["data"]
            assert {key: item["content"]["sure"] for key, item in found.items()} == {"first": True, "second": False}

    run(scenario())
    assert stage.journal().count("begins") == (1 if stage.era == "legacy" else 2)


@everywhere
def test_questions_asked_one_by_one_are_each_asked_once(stage: Stage) -> None:
    async def scenario() -> None:
        async with stage.client(says("accept", {"sure": True})) as client:
            found = (await tool(client, "one_by_one"))["data"]
            assert [item["action"] for item in found.values()] == ["accept", "accept"]

    run(scenario())
    assert [item.message for item in stage.asked] == ["first?", "second?"]
    assert stage.journal().count("begins") == (1 if stage.era == "legacy" else 3)


@everywhere
def test_other_calls_go_on_while_a_user_is_asked(stage: Stage) -> None:
    async def scenario() -> None:
        asked, go = asyncio.Event(), asyncio.Event()

        async def answer(_: ElicitRequestFormParams) -> ElicitResult:
            asked.set()
            await go.wait()
            return ElicitResult(action="accept", content=GOOD)

        async with stage.client(answer) as client:
            deploying = asyncio.create_task(tool(client, "deploy"))
            await asked.wait()
            for number in range(20):
                assert (await tool(client, "echo", {"text": str(number)}))["data"] == {"text": str(number)}
            assert not deploying.done()
            go.set()
            assert (await deploying)["data"]["answer"]["action"] == "accept"

    run(scenario())
    assert stage.journal().count("effect") == 1


@everywhere
def test_a_client_that_gives_up_its_call_while_asking_ends_it(stage: Stage) -> None:
    async def scenario() -> None:
        asked = asyncio.Event()

        async def answer(_: ElicitRequestFormParams) -> ElicitResult:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        async with stage.client(answer) as client:
            deploying = asyncio.create_task(tool(client, "deploy"))
            await asked.wait()
            deploying.cancel()
            with pytest.raises(asyncio.CancelledError):
                await deploying
            while stage.journal()[-1] != "cancelled":
                await tool(client, "echo", {"text": "x"})

    run(scenario())
    assert "effect" not in stage.journal()
