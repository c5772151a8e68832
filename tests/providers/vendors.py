"""What each API's answers look like on the wire, so that one set of tests holds every provider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chaoscore.adapters.providers.anthropic import anthropic_provider
from chaoscore.adapters.providers.conversation import ModelProvider, Tries
from chaoscore.adapters.providers.openai import ResponsesEndpoint, openai_provider
from chaoscore.adapters.providers.sdk import Connection
from chaoscore.domain.json import Json, JsonObject
from tests.providers.server import Answer

KEY = "sk-proj-CANARY0123456789abcdefCANARY"
MODEL = "model-1"
QUICK = Tries(try_seconds=5.0, retries_max=2, backoff_seconds=0.01)
USAGE = {"input": 10, "output": 5, "cached": 4}


@dataclass(frozen=True, slots=True)
class Vendor:
    """One API. Every function builds the answer of its server."""

    name: str
    provider: Callable[[str, Tries, int], ModelProvider]
    ok: Callable[[str], Answer]
    refusal: Callable[[str], Answer]
    truncated: Callable[[str], Answer]
    filtered: Callable[[], Answer]
    instructions: Callable[[JsonObject], str]
    last_turn: Callable[[JsonObject], str]
    schema: Callable[[JsonObject], Json]

    def make(self, url: str, tries: Tries = QUICK, answer_bytes_max: int = 8_388_608) -> ModelProvider:
        return self.provider(url, tries, answer_bytes_max)


def at(value: Json, *path: str | int) -> Json:
    """The value at the end of a path through plain JSON."""
    for token in path:
        if isinstance(token, int):
            assert isinstance(value, list)
            value = value[token]
        else:
            assert isinstance(value, dict)
            value = value.get(token)
    return value


def text_at(value: Json, *path: str | int) -> str:
    found = at(value, *path)
    assert isinstance(found, str)
    return found


# -- OpenAI, Responses ---------------------------------------------------------------------------------------------


def _response(part: Json, status: str = "completed", reason: str | None = None) -> Answer:
    return Answer(
        {
            "id": "resp_1",
            "object": "response",
            "model": MODEL,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": [
                {"type": "reasoning", "id": "r", "summary": []},
                {"type": "message", "role": "assistant", "content": [part]},
            ],
            "usage": {
                "input_tokens": USAGE["input"],
                "output_tokens": USAGE["output"],
                "total_tokens": 15,
                "input_tokens_details": {"cached_tokens": USAGE["cached"]},
                "output_tokens_details": {"reasoning_tokens": 2},
            },
        }
    )


def _output_text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _responses_provider(url: str, tries: Tries, answer_bytes_max: int) -> ModelProvider:
    connection = Connection(url, KEY, tries.try_seconds, answer_bytes_max)
    return ModelProvider(ResponsesEndpoint(connection, MODEL), tries)


RESPONSES = Vendor(
    "openai-responses",
    _responses_provider,
    ok=lambda text: _response(_output_text(text)),
    refusal=lambda said: _response({"type": "refusal", "refusal": said}),
    truncated=lambda text: _response(_output_text(text), "incomplete", "max_output_tokens"),
    filtered=lambda: _response(_output_text("{"), "incomplete", "content_filter"),
    instructions=lambda body: text_at(body, "instructions"),
    last_turn=lambda body: text_at(body, "input", -1, "content"),
    schema=lambda body: at(body, "text", "format", "schema"),
)

# -- OpenAI-compatible, Chat Completions ---------------------------------------------------------------------------


def _completion(message: JsonObject, finish: str = "stop") -> Answer:
    return Answer(
        {
            "id": "c",
            "object": "chat.completion",
            "model": MODEL,
            "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}],
            "usage": {
                "prompt_tokens": USAGE["input"],
                "completion_tokens": USAGE["output"],
                "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
            },
        }
    )


CHAT = Vendor(
    "openai-chat",
    lambda url, tries, size: openai_provider(
        api_key=KEY, model=MODEL, base_url=url, tries=tries, answer_bytes_max=size
    ),
    ok=lambda text: _completion({"content": text}),
    refusal=lambda said: _completion({"content": None, "refusal": said}),
    truncated=lambda text: _completion({"content": text}, "length"),
    filtered=lambda: _completion({"content": "{"}, "content_filter"),
    instructions=lambda body: text_at(body, "messages", 0, "content"),
    last_turn=lambda body: text_at(body, "messages", -1, "content"),
    schema=lambda body: at(body, "response_format", "json_schema", "schema"),
)

# -- Anthropic -----------------------------------------------------------------------------------------------------


def _message(text: str, stop: str = "end_turn") -> Answer:
    return Answer(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "stop_reason": stop,
            "content": [{"type": "text", "text": text}],
            "usage": {
                "input_tokens": USAGE["input"] - USAGE["cached"],
                "output_tokens": USAGE["output"],
                "cache_read_input_tokens": USAGE["cached"],
                "cache_creation_input_tokens": 0,
            },
        }
    )


ANTHROPIC = Vendor(
    "anthropic",
    lambda url, tries, size: anthropic_provider(
        api_key=KEY, model=MODEL, base_url=url.removesuffix("/v1"), tries=tries, answer_bytes_max=size
    ),
    ok=_message,
    refusal=lambda said: _message(said, "refusal"),
    truncated=lambda text: _message(text, "max_tokens"),
    filtered=lambda: _message("{", "refusal"),
    instructions=lambda body: text_at(body, "system"),
    last_turn=lambda body: text_at(body, "messages", -1, "content"),
    schema=lambda body: at(body, "output_config", "format", "schema"),
)

VENDORS = (RESPONSES, CHAT, ANTHROPIC)
