"""The tools, prompts and completion that the MCP conformance suite asks a server for.

None is part of the product. They are registered through the product's own factory, as raw tools and raw handlers, so
that the suite tests the factory, the transports and the HTTP app that ship.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import warnings
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from chaoscore.adapters.mcp.definition import RawTool, RequestContext

warnings.filterwarnings("ignore", category=MCPDeprecationWarning)  # sampling and logging are deprecated, and tested

Result = types.CallToolResult | types.InputRequiredResult
Call = Callable[[RequestContext, types.CallToolRequestParams], Awaitable[Result]]
BUS = InMemorySubscriptionBus()


def png() -> str:
    """One red pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    pixel = chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00"))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + pixel + chunk(b"IEND", b"")).decode()


def wav() -> str:
    """Eight silent samples."""
    body = b"\x80" * 8
    head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + struct.pack("<I", len(body))
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(head + body)) + head + body).decode()


def said(*content: types.ContentBlock, error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), is_error=error)


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def embedded(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    )


def constant(*content: types.ContentBlock, error: bool = False) -> Call:
    async def call(_: RequestContext, __: types.CallToolRequestParams) -> Result:
        return said(*content, error=error)

    return call


async def with_logging(ctx: RequestContext, _: types.CallToolRequestParams) -> Result:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
        await asyncio.sleep(0.05)
    return said(text("Logged three messages."))


async def with_progress(ctx: RequestContext, _: types.CallToolRequestParams) -> Result:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return said(text("Reported progress."))


async def sampling(ctx: RequestContext, params: types.CallToolRequestParams) -> Result:
    prompt = str((params.arguments or {}).get("prompt", ""))
    message = types.SamplingMessage(role="user", content=text(prompt))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    content = answer.content
    words = content.text if isinstance(content, types.TextContent) else "(no text)"
    return said(text(f"LLM response: {words}"))


def elicitation(label: str, properties: dict[str, Any], required: list[str], message: str | None = None) -> Call:
    async def call(ctx: RequestContext, params: types.CallToolRequestParams) -> Result:
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
        question = message or str((params.arguments or {}).get("message", ""))
        answer = await ctx.session.elicit_form(question, schema, related_request_id=ctx.request_id)
        return said(text(f"{label}: action={answer.action}, content={answer.content}"))

    return call


async def reconnection(ctx: RequestContext, _: types.CallToolRequestParams) -> Result:
    """Close the stream mid-call; the client comes back for the answer."""
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.1)
    return said(text("Reconnected and answered."))


async def change_tools(_: RequestContext, __: types.CallToolRequestParams) -> Result:
    await BUS.publish(ToolsListChanged())
    return said(text("Tools changed."))


async def change_prompts(_: RequestContext, __: types.CallToolRequestParams) -> Result:
    await BUS.publish(PromptsListChanged())
    return said(text("Prompts changed."))


async def needs_sampling(ctx: RequestContext, _: types.CallToolRequestParams) -> Result:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this tool needs a client that can sample",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return said(text("The client can sample."))


def ask(message: str, properties: dict[str, Any], required: list[str]) -> types.ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


ASK_NAME = ask("What is your name?", {"name": {"type": "string"}}, ["name"])
ASK_ROOTS = types.ListRootsRequest()


def ask_model(words: str, tokens: int) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=text(words))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=tokens))


def accepted(params: types.InputResponseRequestParams, key: str) -> dict[str, Any] | None:
    answer = (params.input_responses or {}).get(key)
    if isinstance(answer, types.ElicitResult) and answer.action == "accept":
        return dict(answer.content or {})
    return None


async def input_elicitation(_: RequestContext, params: types.CallToolRequestParams) -> Result:
    answer = accepted(params, "user_name")
    if answer is None or not isinstance(answer.get("name"), str):
        return types.InputRequiredResult(input_requests={"user_name": ASK_NAME})
    return said(text(f"Hello, {answer['name']}!"))


async def input_sampling(_: RequestContext, params: types.CallToolRequestParams) -> Result:
    answer = (params.input_responses or {}).get("capital_question")
    if not isinstance(answer, types.CreateMessageResult):
        return types.InputRequiredResult(
            input_requests={"capital_question": ask_model("What is the capital of France?", 100)}
        )
    return said(text(answer.content.text if isinstance(answer.content, types.TextContent) else "(no text)"))


async def input_roots(_: RequestContext, params: types.CallToolRequestParams) -> Result:
    answer = (params.input_responses or {}).get("client_roots")
    if not isinstance(answer, types.ListRootsResult):
        return types.InputRequiredResult(input_requests={"client_roots": ASK_ROOTS})
    return said(text(f"Roots: {', '.join(str(root.uri) for root in answer.roots)}"))


async def input_state(_: RequestContext, params: types.CallToolRequestParams) -> Result:
    if accepted(params, "confirm") is None or params.request_state != "asked":
        question = ask("Please confirm", {"ok": {"type": "boolean"}}, ["ok"])
        return types.InputRequiredResult(input_requests={"confirm": question}, request_state="asked")
    return said(text("state-ok"))


async def input_multiple(_: RequestContext, params: types.CallToolRequestParams) -> Result:
    requests: dict[str, types.InputRequest] = {
        "user_name": ASK_NAME,
        "greeting": ask_model("Generate a greeting", 50),
        "client_roots": ASK_ROOTS,
    }
    missing = {key: item for key, item in requests.items() if key not in (params.input_responses or {})}
    if missing:
        return types.InputRequiredResult(input_requests=requests, request_state="all three")
    return said(text("Got all three."))


async def input_rounds(_: RequestContext, params: types.CallToolRequestParams) -> Result:
    if params.request_state is None or (accepted(params, "step1") is None and params.request_state == "1"):
        first = ask("Step 1: What is your name?", {"name": {"type": "string"}}, ["name"])
        return types.InputRequiredResult(input_requests={"step1": first}, request_state="1")
    if params.request_state == "1" or accepted(params, "step2") is None:
        second = ask("Step 2: What is your favorite color?", {"color": {"type": "string"}}, ["color"])
        return types.InputRequiredResult(input_requests={"step2": second}, request_state="2")
    return said(text("Both rounds are done."))


async def input_capabilities(ctx: RequestContext, params: types.CallToolRequestParams) -> Result:
    if params.input_responses:
        return said(text("Answered."))
    capabilities = ctx.session.client_capabilities
    requests: dict[str, Any] = {}
    if capabilities is not None and capabilities.elicitation is not None:
        requests["user_name"] = ASK_NAME
    if capabilities is not None and capabilities.sampling is not None:
        requests["greeting"] = ask_model("Generate a greeting", 50)
    if not requests:
        return said(text("The client can do neither."))
    return types.InputRequiredResult(input_requests=requests)


NOTHING: dict[str, Any] = {"type": "object", "properties": {}}

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def _string(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


USER = {"username": _string(description="User's response"), "email": _string(description="User's email address")}
DEFAULTS = {
    "name": _string(default="John Doe"),
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": _string(enum=["active", "inactive", "pending"], default="active"),
    "verified": {"type": "boolean", "default": True},
}


def _titled(*titles: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": title} for number, title in enumerate(titles, 1)]


OPTIONS = ["option1", "option2", "option3"]
ENUMS = {
    "untitledSingle": _string(enum=OPTIONS),
    "titledSingle": _string(oneOf=_titled("First Option", "Second Option", "Third Option")),
    "legacyEnum": _string(enum=["opt1", "opt2", "opt3"], enumNames=["Option One", "Option Two", "Option Three"]),
    "untitledMulti": {"type": "array", "items": _string(enum=OPTIONS)},
    "titledMulti": {"type": "array", "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")}},
}
HEADERS: dict[str, Any] = {
    "type": "object",
    "properties": {"region": _string(**{"x-mcp-header": "Region"}), "query": _string()},
    "required": ["region"],
}
PIXEL = types.ImageContent(type="image", data=png(), mime_type="image/png")

CALLS: dict[str, tuple[Call, dict[str, Any]]] = {
    "test_simple_text": (constant(text("This is a simple text response for testing.")), NOTHING),
    "test_image_content": (constant(PIXEL), NOTHING),
    "test_audio_content": (
        constant(types.AudioContent(type="audio", data=wav(), mime_type="audio/wav")),
        NOTHING,
    ),
    "test_embedded_resource": (
        constant(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
        NOTHING,
    ),
    "test_multiple_content_types": (
        constant(
            text("Multiple content types test:"),
            PIXEL,
            embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ),
        NOTHING,
    ),
    "test_error_handling": (
        constant(text("This tool intentionally returns an error for testing"), error=True),
        NOTHING,
    ),
    "test_tool_with_logging": (with_logging, NOTHING),
    "test_logging_tool": (with_logging, NOTHING),
    "test_tool_with_progress": (with_progress, NOTHING),
    "test_sampling": (sampling, {"type": "object", "properties": {"prompt": _string()}, "required": ["prompt"]}),
    "test_elicitation": (
        elicitation("User response", USER, ["username", "email"]),
        {"type": "object", "properties": {"message": _string()}, "required": ["message"]},
    ),
    "test_elicitation_sep1034_defaults": (elicitation("Elicitation completed", DEFAULTS, [], "Defaults"), NOTHING),
    "test_elicitation_sep1330_enums": (elicitation("Elicitation completed", ENUMS, [], "Enums"), NOTHING),
    "test_reconnection": (reconnection, NOTHING),
    "test_streaming_elicitation": (input_elicitation, NOTHING),
    "test_trigger_tool_change": (change_tools, NOTHING),
    "test_trigger_prompt_change": (change_prompts, NOTHING),
    "test_missing_capability": (needs_sampling, NOTHING),
    "json_schema_2020_12_tool": (constant(text("fits")), SCHEMA_2020_12),
    "test_headers": (constant(text("heard")), HEADERS),
    "test_input_required_result_elicitation": (input_elicitation, NOTHING),
    "test_input_required_result_sampling": (input_sampling, NOTHING),
    "test_input_required_result_list_roots": (input_roots, NOTHING),
    "test_input_required_result_request_state": (input_state, NOTHING),
    "test_input_required_result_tampered_state": (input_state, NOTHING),
    "test_input_required_result_multiple_inputs": (input_multiple, NOTHING),
    "test_input_required_result_multi_round": (input_rounds, NOTHING),
    "test_input_required_result_capabilities": (input_capabilities, NOTHING),
}


def raw_tools() -> list[RawTool]:
    return [
        RawTool(types.Tool(name=name, description=f"conformance fixture {name}", input_schema=schema), call)
        for name, (call, schema) in CALLS.items()
    ]
