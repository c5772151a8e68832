"""The six resources over real stdio, and who is told of a change, whoever made it."""

from __future__ import annotations

import asyncio
import json
import warnings
from typing import Any

import pytest
from mcp import MCPError
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification, TextResourceContents

from tests.interaction_surface.support import PATIENCE_SECONDS, Repository, Wire, sdk_client, wire
from tests.mcp.support import Era, message

BASE = "chaos://interactions/"
ERAS: list[Era] = ["legacy", "auto"]


def read(server: Wire, uri: str) -> Any:
    answer = server.request(message("resources/read", {"uri": BASE + uri}, 1))
    content = answer["result"]["contents"][0]
    assert content["mimeType"] == "application/json"
    return json.loads(content["text"])


@pytest.mark.parametrize("era", ERAS)
def test_there_are_three_resources_and_templates_for_the_rest(repository: Repository, era: Era) -> None:
    async def scenario() -> None:
        async with sdk_client(repository, era) as client:
            fixed = (await client.list_resources()).resources
            assert [str(item.uri) for item in fixed] == [BASE + name for name in ("active", "locks", "sessions")]
            templates = (await client.list_resource_templates()).resource_templates
            assert [item.uri_template for item in templates] == [
                BASE + "sessions/{commandRunId}",
                BASE + "decisions/{decisionId}",
                BASE + "capsules/{commandRunId}",
                BASE + "locks{?cursor,limit}",
                BASE + "sessions{?cursor,limit}",
            ]
            content = (await client.read_resource(BASE + "active")).contents[0]
            assert isinstance(content, TextResourceContents)
            assert json.loads(content.text)["state"] == "ready"
            for nowhere in ("chaos://interactions/nope", "chaos://elsewhere/active", BASE + "sessions?limit=x"):
                with pytest.raises(MCPError) as refused:
                    await client.read_resource(nowhere)
                assert refused.value.code == -32602

    asyncio.run(scenario())


def test_documents_are_read_by_their_ids_and_a_miss_is_a_clean_body(repository: Repository) -> None:
    with wire(repository) as server:
        run = server.begin(changeId="c1")
        decision = server.ask(run)
        assert read(server, f"sessions/{run}") == repository.read(f"sessions/{run}.json")
        body = read(server, f"decisions/{decision}")
        assert body == {"decision": repository.read(f"decisions/{decision}/decision.json"), "response": None}
        server.tool("chaos_answer_decision", decisionId=decision, selectedOptionId="full")
        assert read(server, f"decisions/{decision}")["response"]["selectedOptionId"] == "full"
        assert read(server, f"capsules/{run}") == repository.read(f"capsules/{run}.json")
        for miss in ("sessions/RUN-no", "decisions/DEC-no", "capsules/RUN-no", "sessions/..%2f..%2fetc", "sessions/.."):
            assert read(server, miss)["status"] == "NOT_FOUND"
        (repository.root / f"sessions/{run}.json").write_text("{")
        broken = read(server, f"sessions/{run}")
        assert broken["status"] == "ERROR" and f"sessions/{run}.json" in broken["message"]


def test_lists_come_in_pages_the_newest_first(repository: Repository) -> None:
    with wire(repository) as server:
        runs = [server.begin(commandRunId=f"RUN-{number}") for number in range(5)]
        first = read(server, "sessions?limit=2")
        assert first["total"] == 5
        rest = read(server, f"sessions?limit=500&cursor={first['next'].replace(':', '%3A')}")
        shown = {session["commandRunId"] for page in (first, rest) for session in page["sessions"]}
        assert shown == set(runs) and rest["next"] is None


def test_reading_leaves_a_repository_untouched(repository: Repository) -> None:
    with wire(repository) as server:
        for uri in ("active", "locks", "sessions", "sessions/RUN-1"):
            read(server, uri)
        for tool in ("chaos_get_active_decision", "chaos_list_sessions", "chaos_list_locks"):
            server.tool(tool)
    assert list(repository.path.iterdir()) == []


@pytest.mark.parametrize("kind", ["answer", "manual file", "reentry"])
def test_a_2025_client_hears_of_a_change_that_another_process_made(repository: Repository, kind: str) -> None:
    async def scenario() -> None:
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def handle(item: object) -> None:
            if isinstance(item, ResourceUpdatedNotification):
                heard.put_nowait(str(item.params.uri))

        warnings.simplefilter("ignore", MCPDeprecationWarning)
        with wire(repository) as other:
            run = other.begin(changeId="c1")
            silent = other.begin("chaos:other")
            decision = other.ask(run)
            async with sdk_client(repository, "legacy", message_handler=handle) as client:
                assert client.server_capabilities.resources is not None
                assert client.server_capabilities.resources.subscribe is True
                wanted = f"sessions/{silent}" if kind == "reentry" else f"decisions/{decision}"
                await client.subscribe_resource(BASE + wanted)
                await client.subscribe_resource(BASE + "capsules/RUN-nobody")
                if kind == "answer":
                    other.tool("chaos_answer_decision", decisionId=decision, selectedOptionId="full")
                elif kind == "manual file":
                    repository.write(f"decisions/{decision}/response.json", {"left": "by hand"})
                else:
                    other.begin("chaos:other", commandRunId=silent)
                assert await asyncio.wait_for(heard.get(), PATIENCE_SECONDS) == BASE + wanted
                await client.unsubscribe_resource(BASE + wanted)
                while not heard.empty():
                    heard.get_nowait()
                other.tool("chaos_cancel_command", commandRunId=run)
                await client.send_ping()
                assert heard.empty()

    asyncio.run(asyncio.wait_for(scenario(), 2 * PATIENCE_SECONDS))


def test_a_2026_client_listens_to_what_another_process_does(repository: Repository) -> None:
    async def scenario() -> None:
        with wire(repository) as other:
            run = other.begin(changeId="c1")
            decision = other.ask(run)
            uri = f"{BASE}decisions/{decision}"
            async with sdk_client(repository, "auto") as client:
                assert client.protocol_version == "2026-07-28"
                async with client.listen(resource_subscriptions=[uri, BASE + "active"]) as changes:
                    other.tool("chaos_answer_decision", decisionId=decision, selectedOptionId="full")
                    seen: set[str] = set()
                    while len(seen) < 2:
                        change = await asyncio.wait_for(anext(changes), PATIENCE_SECONDS)
                        assert isinstance(change, ResourceUpdated)
                        seen.add(change.uri)
                    assert seen == {uri, BASE + "active"}

    asyncio.run(asyncio.wait_for(scenario(), 2 * PATIENCE_SECONDS))


def test_a_subscriber_hears_of_its_own_servers_changes_too(repository: Repository) -> None:
    with wire(repository) as server:
        run = server.begin()
        assert server.request(message("resources/subscribe", {"uri": BASE + "active"}, 5))["result"] == {}
        while server.heard or server.tool("chaos_get_active_decision")["status"] != "NO_ACTIVE_DECISION":
            server.heard.clear()
        server.ask(run)
        told = server.heard[0] if server.heard else server.receive()
        assert told == {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": BASE + "active"},
        }
