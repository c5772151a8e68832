"""The SDK's server, built from a definition: the one factory behind every transport.

The lowlevel ``Server`` is used, not ``MCPServer``, so that every argument error can be answered in our envelope and the
tool list is the application's own data. Above: ``stdio`` and ``http``. Below: the tool set and the resource provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import ListenHandler
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)

from chaoscore.adapters.mcp import wire
from chaoscore.adapters.mcp.definition import Caller, Identify, Peer, RawTool, RequestContext, ServerDefinition
from chaoscore.adapters.mcp.edge import Edge
from chaoscore.adapters.mcp.elicitation import Elicitation
from chaoscore.adapters.mcp.progress import ProgressPump
from chaoscore.adapters.mcp.watching import LegacyWatch, ProviderBus, subscribe
from chaoscore.adapters.mcp.wire import Wire
from chaoscore.app.ports import Progress
from chaoscore.app.resources import ResourceProvider
from chaoscore.app.tools import CallContext, no_progress
from chaoscore.domain.errors import ChaosError

STATIC_SECONDS = 300
"""How long a client may keep lists that never change while a server runs."""


class SdkServer(Server[Any]):
    """Announces what the definition serves, whichever transport asks for the options."""

    resources_change = False
    tools_change = False

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(
            resources_changed=self.resources_change, tools_changed=self.tools_change
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)


@dataclass(frozen=True, slots=True)
class BuiltServer:
    """``close_streams`` ends every listen stream with a proper answer, ``withdraw_questions`` what users are asked."""

    sdk: SdkServer
    close_streams: Callable[[], None]
    withdraw_questions: Callable[[], None]


def build_server(definition: ServerDefinition, identify: Identify) -> BuiltServer:
    """Everything but the transport. ``identify`` says who calls."""
    raw = {item.tool.name: item for item in definition.raw_tools}
    clash = [name for name in raw if definition.tools.get(name) is not None]
    if clash or len(raw) != len(definition.raw_tools):
        raise ValueError(f"two tools have one name: {', '.join(clash) or 'among the raw tools'}")
    schemas: dict[str, Mapping[str, Any]] = {spec.name: spec.input_schema for spec in definition.tools.specs}
    schemas.update({name: item.tool.input_schema for name, item in raw.items()})
    elicitation = Elicitation(definition)
    tools = _Tools(definition, raw, identify, elicitation)
    server = SdkServer(
        definition.name,
        title=definition.title,
        version=definition.version,
        instructions=definition.instructions,
        cache_hints=_cache_hints(),
        # Without it the SDK lists all tools inside every 2026-era HTTP call.
        get_tool_input_schema=schemas.get,
    )
    server.tools_change = definition.tools_change
    refuse = partial(_refusal, definition)
    # The SDK's own tracing is left out: a sixth of every call, also when nobody collects it. Whoever does puts
    # ``OpenTelemetryMiddleware`` into the definition's middleware.
    server.middleware = [Edge(server, refuse), *definition.middleware]
    server.add_request_handler("tools/list", PaginatedRequestParams, tools.list_all)
    server.add_request_handler("tools/call", CallToolRequestParams, tools.call)
    close_streams: Callable[[], None] = _nothing
    if definition.resources is not None:
        close_streams = _serve_resources(server, definition.resources, identify, definition.fixed_resources)
    for handler in definition.raw_handlers:
        server.add_request_handler(handler.method, handler.params, handler.handler)
    return BuiltServer(server, close_streams, elicitation.questions.withdraw_all)


class _Tools:
    def __init__(
        self, definition: ServerDefinition, raw: Mapping[str, RawTool], identify: Identify, elicitation: Elicitation
    ) -> None:
        self._tools = definition.tools
        self._result_text = definition.result_text
        self._raw = raw
        self._identify = identify
        self._elicitation = elicitation
        self._listed: Wire = {
            "tools": [
                *(wire.tool_definition(spec) for spec in definition.tools.specs),
                *(item.tool.model_dump(by_alias=True, mode="json", exclude_none=True) for item in raw.values()),
            ],
            **wire.COMPLETE,
        }

    async def list_all(self, _: RequestContext, __: PaginatedRequestParams) -> Wire:
        return self._listed

    async def call(
        self, ctx: RequestContext, params: CallToolRequestParams
    ) -> Wire | CallToolResult | InputRequiredResult:
        raw = self._raw.get(params.name)
        if raw is not None:
            return await raw.handler(ctx, params)
        caller = self._identify(ctx)
        if not caller.may_vanish:
            return await self._run(ctx, caller, params)
        with anyio.CancelScope() as scope:
            caller.on_gone = scope.cancel
            try:
                if not caller.gone:
                    return await self._run(ctx, caller, params)
            finally:
                caller.on_gone = None
        return {"content": [], "isError": True, **wire.COMPLETE}  # nobody is there to read it

    async def _run(
        self, ctx: RequestContext, caller: Caller, params: CallToolRequestParams
    ) -> Wire | InputRequiredResult:
        try:
            asks = await self._elicitation.in_place(ctx, caller, params)
        except ChaosError as error:
            return wire.tool_result(self._tools.refused(error), self._result_text)
        pump = None
        progress: Progress = no_progress
        if ctx.meta is not None and "progress_token" in ctx.meta:
            pump = ProgressPump(ctx.session.report_progress)
            progress = pump.report
        peer = caller.peer
        context = CallContext(peer.principal, peer.connection, progress, peer.binding, asks.elicitor, asks.client_model)
        call = partial(self._tools.call, params.name, params.arguments or {}, context)
        try:
            outcome = await (call() if asks.rounds is None else asks.rounds.run(call))
            if pump is not None:
                await pump.finish()
        finally:
            if pump is not None:
                pump.abandon()
        if isinstance(outcome, InputRequiredResult):
            return outcome
        return wire.tool_result(outcome, self._result_text)


def _serve_resources(
    server: SdkServer, provider: ResourceProvider, identify: Identify, fixed: bool
) -> Callable[[], None]:
    server.resources_change = True

    def context(ctx: RequestContext) -> CallContext:
        peer = identify(ctx).peer
        return CallContext(peer.principal, peer.connection, binding=peer.binding)

    async def list_resources(ctx: RequestContext, _: PaginatedRequestParams) -> Wire:
        found = await provider.resources(context(ctx))
        return {"resources": [wire.resource_entry(item) for item in found], **wire.COMPLETE}

    async def list_templates(ctx: RequestContext, _: PaginatedRequestParams) -> Wire:
        found = await provider.templates(context(ctx))
        return {"resourceTemplates": [wire.template_entry(item) for item in found], **wire.COMPLETE}

    async def read(ctx: RequestContext, params: ReadResourceRequestParams) -> Wire:
        uri = str(params.uri)
        return wire.resource_contents(uri, await provider.read(uri, context(ctx)))

    def watch(ctx: RequestContext, peer: Peer) -> None:
        if not peer.watching:
            peer.watching = True
            peer.closers.append(LegacyWatch(provider, peer, ctx.session).close)

    async def start_watching(ctx: RequestContext, _: NotificationParams) -> None:
        watch(ctx, identify(ctx).peer)

    async def add(ctx: RequestContext, params: SubscribeRequestParams) -> Wire:
        peer = identify(ctx).peer
        subscribe(peer, str(params.uri))
        watch(ctx, peer)
        return {}

    async def remove(ctx: RequestContext, params: UnsubscribeRequestParams) -> Wire:
        identify(ctx).peer.subscriptions.discard(str(params.uri))
        return {}

    listen = ListenHandler(ProviderBus(provider))
    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read)
    server.add_request_handler("resources/subscribe", SubscribeRequestParams, add)
    server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, remove)
    server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, listen)
    if not fixed:
        server.add_notification_handler("notifications/initialized", NotificationParams, start_watching)
    return listen.close


def _cache_hints() -> dict[CacheableMethod, CacheHint]:
    """What never changes may be kept by anyone; the rest is the reader's own and stale at once."""
    static = CacheHint(ttl_ms=STATIC_SECONDS * 1000, scope="public")
    fresh = CacheHint(ttl_ms=0, scope="private")
    return {
        "server/discover": static,
        "tools/list": static,
        "prompts/list": static,
        "resources/list": fresh,
        "resources/templates/list": static,
        "resources/read": fresh,
    }


def _refusal(definition: ServerDefinition, error: ChaosError) -> Wire:
    return wire.tool_result(definition.tools.refused(error), definition.result_text)


def _nothing() -> None:
    """There are no streams."""
