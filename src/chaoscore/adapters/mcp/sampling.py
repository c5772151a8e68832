"""Text of the client's own model over MCP (``sampling/createMessage``), for a plan that nobody else could write.

Deprecated in 2026-07-28, where the request travels inside ``input_required``; optional in every revision. Above is
``asking``'s caller ``server``; the application sees ``app.client_model`` alone.
"""

from __future__ import annotations

import logging

from mcp_types import (
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitResult,
    InputResponse,
    SamplingMessage,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)

from chaoscore.adapters.mcp.asking import STATE_SECONDS, NoResponse, OpenCall, Rounds
from chaoscore.app.client_model import Prompt, Silent, Written, received
from chaoscore.domain.json import Json, digest, is_object

log = logging.getLogger(__name__)

KEY_PREFIX = "model:"
"""Of every key that asks the model, so that no answer of a user can stand for one of a model."""

SECONDS_MIN = 0.5
"""With less time left nothing is asked."""


def has_model(capabilities: ClientCapabilities | None) -> bool:
    return capabilities is not None and capabilities.sampling is not None


class LiveClientModel:
    """Asks while the call is open (all revisions before 2026-07-28)."""

    def __init__(self, call: OpenCall) -> None:
        self._call = call

    async def write(self, key: str, prompt: Prompt, seconds: float) -> Written | Silent:
        if seconds < SECONDS_MIN:
            return Silent("no time was left")
        try:
            result = await self._call.send(_request(prompt), CreateMessageResultWithTools, seconds)
        except NoResponse as error:
            log.info("the client's model was asked for %r in vain: %s", key, error.why)
            return Silent(error.why)
        return read(result)


class RoundsClientModel:
    """Asks by ending the call, and answers from what the client brings along when it calls again (2026-07-28)."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    async def write(self, key: str, prompt: Prompt, seconds: float) -> Written | Silent:
        key = KEY_PREFIX + key
        shown = digest(prompt.about)
        if self._rounds.left_out(key):
            return Silent("the client called again without an answer of it")
        given = self._rounds.given(key, shown)
        if given is not None:
            return _restored(given.answer)
        await self._rounds.ask(key, shown, _request(prompt), self._rounds.now() + STATE_SECONDS)
        return Silent("it could not be asked")


def read(result: CreateMessageResult | CreateMessageResultWithTools) -> Written | Silent:
    """The text of an answer. What is not all text, or was cut off, is none."""
    blocks = result.content if isinstance(result.content, list) else [result.content]
    if result.stop_reason == "toolUse" or any(isinstance(b, ToolUseContent | ToolResultContent) for b in blocks):
        return Silent("it wanted to use a tool")
    if result.stop_reason == "maxTokens":
        return Silent("its answer was cut off at the limit of tokens")
    return received("".join(block.text for block in blocks if isinstance(block, TextContent)), result.model)


def kept(response: InputResponse) -> Json:
    """What of a response goes into the sealed state: never more than the text that counts."""
    if isinstance(response, ElicitResult):
        return {"why": f"the client answered {response.action!r}"}
    if not isinstance(response, CreateMessageResult | CreateMessageResultWithTools):
        return {"why": "the client's answer is none of a model"}
    answer = read(response)
    if isinstance(answer, Silent):
        return {"why": answer.why}
    return {"text": answer.text, "model": answer.model}


def _restored(answer: Json) -> Written | Silent:
    assert is_object(answer)  # ``kept`` wrote it, and the state was sealed
    text, model = answer.get("text"), answer.get("model")
    if not isinstance(text, str):
        return Silent(str(answer.get("why")))
    return Written(text, model if isinstance(model, str) else None)


def _request(prompt: Prompt) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(text=prompt.input))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=[message],
            system_prompt=prompt.instructions,
            max_tokens=prompt.answer_tokens_max,
            include_context="none",
        )
    )
