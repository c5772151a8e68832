"""The yardstick of P5: an SDK lowlevel server that echoes, on our stdio transport and with nothing else of ours."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

from chaoscore.adapters.mcp.stdio_carriers import StdioLimits, open_wire
from chaoscore.adapters.mcp.stdio_fds import claim_standard_streams
from chaoscore.adapters.mcp.stdio_session import StdioSession


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="echo", input_schema=schema)])


async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    text = (params.arguments or {})["text"]
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content={"text": text})


async def main() -> None:
    server: Server[Any] = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)

    async def alone(_: types.JSONRPCRequest) -> types.JSONRPCMessage:
        raise NotImplementedError

    limits = StdioLimits()
    async with open_wire(claim_standard_streams(), limits, lambda: None) as wire:
        session = StdioSession(wire, alone, limits.unanswered_max, limits.grace_seconds, lambda: None)
        await server.run(session, session.outbound, server.create_initialization_options())


asyncio.run(main())
