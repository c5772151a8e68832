"""The server that the MCP conformance suite runs against: the shipped factory and HTTP app, with the suite's fixtures.

``python -m tests.mcp.conformance_server PORT`` serves until SIGTERM.
"""

from __future__ import annotations

import asyncio
import base64
import re
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

from chaoscore.adapters.mcp.definition import RawHandler, RequestContext, ServerDefinition
from chaoscore.adapters.mcp.http import HttpApp, http_app
from chaoscore.adapters.mcp.http_endpoint import Resumption
from chaoscore.adapters.mcp.http_guard import AllowedHosts
from chaoscore.adapters.mcp.http_server import event_loop_factory, serve_http
from chaoscore.adapters.system.clock import SystemClock
from chaoscore.adapters.system.ids import RandomIds
from chaoscore.app.resources import Resource, ResourceContent, ResourceTemplate, Watcher
from chaoscore.app.tools import CallContext, ToolSet
from chaoscore.bootstrap import open_kernel
from chaoscore.domain.errors import NotFound
from chaoscore.domain.json import JsonObject
from chaoscore.settings import load_settings
from tests.mcp.conformance_tools import BUS, PIXEL, ask, embedded, png, raw_tools, text

EVENTS_MAX = 1_000


class Resources:
    """The suite's resources, through the product's provider port."""

    async def resources(self, context: CallContext) -> Sequence[Resource]:
        return [
            Resource("test://static-text", "static-text", "a text", "text/plain"),
            Resource("test://static-binary", "static-binary", "a picture", "image/png"),
            Resource("test://watched-resource", "watched", "something to watch", "text/plain"),
            Resource("test://example-resource", "example", "an example", "text/plain"),
        ]

    async def templates(self, context: CallContext) -> Sequence[ResourceTemplate]:
        return [ResourceTemplate("test://template/{id}/data", "template", "data by id", "application/json")]

    async def read(self, uri: str, context: CallContext) -> ResourceContent:
        if uri == "test://static-text":
            return ResourceContent("text/plain", "This is the content of the static text resource.")
        if uri == "test://static-binary":
            return ResourceContent("image/png", base64.b64decode(png()))
        if uri in ("test://watched-resource", "test://example-resource"):
            return ResourceContent("text/plain", "words")
        found = re.fullmatch(r"test://template/([^/]+)/data", uri)
        if found is None:
            raise NotFound(f"there is no resource {uri!r}", uri=uri)
        key = found[1]
        return ResourceContent("application/json", f'{{"id":"{key}","templateTest":true,"data":"Data for ID: {key}"}}')

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        return lambda: None


class RecentEvents(EventStore):
    """The newest events of all streams, for clients that reconnect."""

    def __init__(self) -> None:
        self._events: OrderedDict[EventId, tuple[StreamId, types.JSONRPCMessage | None]] = OrderedDict()
        self._numbers = count(1)

    async def store_event(self, stream_id: StreamId, message: types.JSONRPCMessage | None) -> EventId:
        event_id = str(next(self._numbers))
        self._events[event_id] = (stream_id, message)
        if len(self._events) > EVENTS_MAX:
            self._events.popitem(last=False)
        return event_id

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        if last_event_id not in self._events:
            return None
        stream_id = self._events[last_event_id][0]
        for event_id, (stream, message) in list(self._events.items()):
            if int(event_id) > int(last_event_id) and stream == stream_id and message is not None:
                await send_callback(EventMessage(message, event_id))
        return stream_id


def _prompt(name: str, *arguments: str) -> types.Prompt:
    wanted = [types.PromptArgument(name=item, description=item, required=True) for item in arguments]
    return types.Prompt(name=name, description=f"conformance fixture {name}", arguments=wanted)


PROMPTS = [
    _prompt("test_simple_prompt"),
    _prompt("test_prompt_with_arguments", "arg1", "arg2"),
    _prompt("test_prompt_with_embedded_resource", "resourceUri"),
    _prompt("test_prompt_with_image"),
    _prompt("test_input_required_result_prompt"),
]


async def list_prompts(_: RequestContext, __: types.PaginatedRequestParams) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=PROMPTS)


async def get_prompt(
    _: RequestContext, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}

    def user(*content: types.ContentBlock) -> types.GetPromptResult:
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=item) for item in content])

    match params.name:
        case "test_simple_prompt":
            return user(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            words = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
            return user(text(words))
        case "test_prompt_with_embedded_resource":
            resource = embedded(str(given.get("resourceUri")), "text/plain", "Embedded resource content for testing.")
            return user(resource, text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return user(PIXEL, text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            if "user_context" in (params.input_responses or {}):
                return user(text("Context taken."))
            question = ask("What context should the prompt use?", {"context": {"type": "string"}}, ["context"])
            return types.InputRequiredResult(input_requests={"user_context": question})
    raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")


async def complete(_: RequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))


async def set_level(_: RequestContext, __: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


def conformance_app(tools: ToolSet) -> HttpApp:
    """The product's HTTP app, with the product's tools and the fixtures beside them."""
    handlers: list[RawHandler] = [
        RawHandler("prompts/list", types.PaginatedRequestParams, list_prompts),
        RawHandler("prompts/get", types.GetPromptRequestParams, get_prompt),
        RawHandler("completion/complete", types.CompleteRequestParams, complete),
        RawHandler("logging/setLevel", types.SetLevelRequestParams, set_level),
        RawHandler("subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(BUS)),
    ]
    seal: Any = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="conformance")
    definition = ServerDefinition(
        name="conformance",
        title="Conformance",
        version="1.0.0",
        instructions="Fixtures of the MCP conformance suite.",
        tools=tools,
        resources=Resources(),
        raw_tools=raw_tools(),
        raw_handlers=handlers,
        middleware=[seal],
    )

    async def health() -> JsonObject:
        return {"ok": True}

    return http_app(
        {"/mcp": definition},
        health=health,
        allowed=AllowedHosts.for_bind("127.0.0.1"),
        clock=SystemClock(),
        ids=RandomIds(),
        resumption=Resumption(RecentEvents(), retry_milliseconds=500),
    )


def main() -> None:
    def listening(_: str, port: int) -> None:
        print(f"listening {port}", flush=True)

    async def serve(directory: Path) -> None:
        settings = load_settings({"data_dir": str(directory / "data")}, {"HOME": str(directory)}, directory)
        async with open_kernel(settings) as kernel:
            await serve_http(conformance_app(kernel.tools), "127.0.0.1", int(sys.argv[1]), on_listening=listening)

    with tempfile.TemporaryDirectory() as directory, asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(serve(Path(directory)))


if __name__ == "__main__":
    main()
