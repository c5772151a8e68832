"""The SDK's own client on both transports and in both eras: one surface, one behaviour."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import MCPError
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp_types import ResourceUpdatedNotification, TextContent, TextResourceContents

from tests.mcp.support import Era, HttpServer, Transport, http_server, sdk_client

EVERYWHERE: list[tuple[Transport, Era]] = [
    ("stdio", "legacy"),
    ("stdio", "auto"),
    ("http", "legacy"),
    ("http", "auto"),
]
"""``auto`` settles on 2026-07-28, as a test below makes sure."""
COUNTER = "fixture://counter"


@pytest.fixture(scope="module")
def web() -> Iterator[HttpServer]:
    with http_server() as server:
        yield server


def target(web: HttpServer, transport: Transport) -> str | None:
    return web.url if transport == "http" else None


def test_the_tool_list_is_the_same_on_every_transport_and_in_every_era(web: HttpServer) -> None:
    async def listed(transport: Transport, era: Era) -> list[dict[str, Any]]:
        async with sdk_client(target(web, transport), era) as client:
            return [tool.model_dump(by_alias=True) for tool in (await client.list_tools()).tools]

    async def everywhere() -> list[list[dict[str, Any]]]:
        return [await listed(transport, era) for transport, era in EVERYWHERE]

    first, *others = asyncio.run(everywhere())
    assert len(first) > 10
    assert all(tool["inputSchema"] and tool["outputSchema"] and tool["annotations"] and tool["title"] for tool in first)
    assert all(other == first for other in others)


@pytest.mark.parametrize(("transport", "era"), EVERYWHERE)
def test_a_call_gives_the_envelope_progress_errors_and_resources(
    web: HttpServer, transport: Transport, era: Era
) -> None:
    async def scenario() -> None:
        async with sdk_client(target(web, transport), era) as client:
            assert client.server_capabilities is not None
            assert client.server_capabilities.tools is not None
            assert client.instructions == "Use it in tests."

            said = await client.call_tool("echo", {"text": "审批"})
            assert said.is_error is False
            assert said.structured_content is not None
            assert said.structured_content["data"] == {"text": "审批"}
            assert isinstance(said.content[0], TextContent)
            assert said.content[0].text == 'DONE: said it\ndata: {"text":"审批"}'

            wrong = await client.call_tool("echo", {"txt": "x"})
            assert wrong.is_error is True
            assert wrong.structured_content is not None
            assert wrong.structured_content["error"]["details"]["key"] == "/text"

            seen: list[float] = []

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                seen.append(progress)

            await client.call_tool("count_up", {"steps": 10}, progress_callback=progressed)
            assert seen == sorted(seen)
            assert seen[-1] == 10

            assert [str(item.uri) for item in (await client.list_resources()).resources] == [COUNTER]
            templates = (await client.list_resource_templates()).resource_templates
            assert [item.uri_template for item in templates] == ["fixture://numbers/{n}"]
            contents = (await client.read_resource(COUNTER)).contents[0]
            assert isinstance(contents, TextResourceContents)
            assert contents.mime_type == "application/json"
            with pytest.raises(MCPError) as missing:
                await client.read_resource("fixture://nowhere")
            assert missing.value.code == (-32002 if era == "legacy" else -32602)
            assert missing.value.data["uri"] == "fixture://nowhere"

    asyncio.run(scenario())


@pytest.mark.parametrize(("transport", "era"), EVERYWHERE)
def test_a_client_that_cancels_cancels_the_handler(web: HttpServer, transport: Transport, era: Era) -> None:
    key = f"{transport} {era}"

    async def scenario() -> None:
        async with sdk_client(target(web, transport), era) as client:

            async def state() -> Any:
                found = (await client.call_tool("state")).structured_content
                assert found is not None
                return found["data"]

            holding = asyncio.create_task(client.call_tool("hold", {"key": key}))
            while key not in (await state())["running"]:
                pass
            holding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await holding
            while key not in (await state())["cancelled"]:
                pass

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_2025_client_hears_of_what_it_subscribed_to_and_of_nothing_else(
    web: HttpServer, transport: Transport
) -> None:
    async def scenario() -> None:
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def handle(message: object) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                heard.put_nowait(str(message.params.uri))

        warnings.simplefilter("ignore", MCPDeprecationWarning)
        async with sdk_client(target(web, transport), "legacy", message_handler=handle) as client:
            await client.call_tool("bump")
            await client.subscribe_resource(COUNTER)
            # Over HTTP the client's event stream opens in the background: a change before that is not kept.
            while heard.empty():
                await client.call_tool("bump")
            assert await heard.get() == COUNTER
            await client.unsubscribe_resource(COUNTER)
            while not heard.empty():
                heard.get_nowait()
            await client.call_tool("bump")
            await client.send_ping()
            await client.call_tool("state")
            assert heard.empty()

    asyncio.run(asyncio.wait_for(scenario(), 30))


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_2026_client_listens_to_what_it_asked_for(web: HttpServer, transport: Transport) -> None:
    async def scenario() -> None:
        async with sdk_client(target(web, transport), "auto") as client:
            async with client.listen(resource_subscriptions=[COUNTER]) as changes:
                await client.call_tool("bump", {"list": True})
                await client.call_tool("bump")
                assert await anext(changes) == ResourceUpdated(uri=COUNTER)
            async with client.listen(resources_list_changed=True) as changes:
                await client.call_tool("bump")
                await client.call_tool("bump", {"list": True})
                assert await anext(changes) == ResourcesListChanged()

            async def watchers() -> int:
                found = (await client.call_tool("state")).structured_content
                assert found is not None
                count: int = found["data"]["watchers"]
                return count

            while transport == "stdio" and await watchers():
                pass  # a closed stream watches nothing any more

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_the_auto_client_settles_on_the_newest_era(web: HttpServer) -> None:
    async def scenario() -> list[str]:
        versions = []
        for url in (None, web.url):
            async with sdk_client(url, "auto") as client:
                versions.append(client.protocol_version)
        return versions

    assert asyncio.run(scenario()) == ["2026-07-28", "2026-07-28"]
