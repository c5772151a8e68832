"""Anthropic's Messages API with structured output. The only file that imports the ``anthropic`` SDK, when it is used.

The same contract tests as for ``openai`` hold it.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, cast

from chaoscore.adapters.providers.conversation import ModelProvider, Tries
from chaoscore.adapters.providers.exchange import (
    Ask,
    Failure,
    Names,
    Reply,
    count_at,
    instructions_of,
    not_understood,
    objects_at,
    refuses_schema,
    text_at,
)
from chaoscore.adapters.providers.schemas import ANTHROPIC_KEYWORDS, is_strict, loosened
from chaoscore.adapters.providers.sdk import Connection, RawAnswer, SdkErrors, base_url_checked, load_sdk, send
from chaoscore.app.ports import Usage
from chaoscore.domain.errors import NotConfigured, ProviderOutputInvalid, ProviderRefused, ProviderTruncated
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.redaction import Redactor

if TYPE_CHECKING:
    from httpx2 import AsyncClient

MODEL_DEFAULT = "claude-sonnet-5-5"
"""Used when no model is set (``ANTHROPIC_MODEL``)."""
OFFICIAL_URL = "https://api.anthropic.com"
ANSWER_BYTES_MAX = 8_388_608


def anthropic_provider(
    *,
    api_key: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    tries: Tries = Tries(),
    ca_file: str | None = None,
    answer_bytes_max: int = ANSWER_BYTES_MAX,
) -> ModelProvider:
    """``model`` ``None`` means ``MODEL_DEFAULT``; ``base_url`` ``None`` the official endpoint;
    ``ca_file`` certificate authorities (PEM) trusted besides the system's.

    Raises ``ConfigurationInvalid`` for a base URL that is not http(s), or that holds a user or a password.
    """
    connection = Connection(
        url=base_url_checked(base_url, "the base URL") if base_url else OFFICIAL_URL,
        key=api_key,
        try_seconds=tries.try_seconds,
        answer_bytes_max=answer_bytes_max,
        ca_file=ca_file,
    )
    return ModelProvider(MessagesEndpoint(connection, model or MODEL_DEFAULT), tries)


class _Resource(Protocol):
    """The one call that is used of the SDK."""

    create: Callable[..., Awaitable[RawAnswer]]


class MessagesEndpoint:
    """``POST /v1/messages``. A schema that is not strict, or that the API refuses, is told in words."""

    id = "anthropic"
    display_name = "Anthropic"

    def __init__(self, connection: Connection, model: str) -> None:
        self._connection = connection
        self._tls: ssl.SSLContext | None = None
        self.model = model
        self.redactor = Redactor([connection.key])
        self._formats = True
        self.schema_enforced: bool | None = True if connection.url == OFFICIAL_URL else None

    def is_configured(self) -> bool:
        return bool(self._connection.key)

    async def prepare(self) -> None:
        if not self.is_configured():
            raise NotConfigured(
                "the anthropic provider has no key; set ANTHROPIC_API_KEY, "
                "or write the steps yourself and pass them to chaoscore_plan"
            )
        if self._tls is None:
            self._tls = await load_sdk("anthropic", "messages.messages", self._connection)

    def describe(self) -> dict[str, Json]:
        url = self._connection.url
        kind = "official" if url == OFFICIAL_URL else "custom"
        return {"endpoint": kind, "api": "messages", "base_url": url, "warnings": list(self._connection.warnings())}

    async def exchange(self, ask: Ask) -> Reply | Failure:
        import anthropic

        async def call(http: AsyncClient) -> RawAnswer:
            client = anthropic.AsyncAnthropic(
                api_key=self._connection.key,
                # Set, so that the SDK does not look for it in the environment.
                webhook_key="",
                base_url=self._connection.url,
                max_retries=0,
                timeout=self._connection.try_seconds,
                open_telemetry=False,
                http_client=http,
            )
            return await self._send(client, ask)

        answer = await send(
            self._connection,
            self._tls,
            call,
            SdkErrors(anthropic.APITimeoutError, anthropic.APIConnectionError, anthropic.APIStatusError),
            Names(self.display_name, "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL"),
            self.redactor,
        )
        if not isinstance(answer, Failure):
            return read_message(answer, self.model)
        if self._formats and refuses_schema(answer):
            self._formats = False
            self.schema_enforced = False
            return replace(answer, retry=True, retry_after_seconds=0.0)
        return answer

    async def _send(self, client: object, ask: Ask) -> RawAnswer:
        schema = loosened(ask.schema, ANTHROPIC_KEYWORDS) if ask.schema is not None else None
        strict = schema is not None and self._formats and is_strict(schema)
        body: dict[str, object] = {
            "model": self.model,
            "system": instructions_of(ask, self.schema_enforced if strict else False),
            "messages": [{"role": turn.role, "content": turn.text} for turn in ask.turns],
            "max_tokens": ask.output_tokens_max,
        }
        if strict:
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        resource = cast("_Resource", client.messages.with_raw_response)  # type: ignore[attr-defined]
        return await resource.create(**body)


def read_message(body: JsonObject, model: str) -> Reply | Failure:
    """A ``/v1/messages`` answer. Refused and cut off are told apart before any text is looked at."""
    cached = count_at(body, "usage", "cache_read_input_tokens")
    usage = Usage(
        1,
        # Anthropic counts cached and newly cached tokens apart from the others.
        count_at(body, "usage", "input_tokens") + cached + count_at(body, "usage", "cache_creation_input_tokens"),
        count_at(body, "usage", "output_tokens"),
        cached,
    )
    if body.get("type") != "message":
        return not_understood("Anthropic", "it is not a message", usage)
    match body.get("stop_reason"):
        case "refusal":
            return Failure(ProviderRefused("the model refused to answer; word the goal otherwise"), usage)
        case "max_tokens" | "model_context_window_exceeded":
            said = "the answer was cut off at its token limit; ask for less, or take a model that writes more"
            return Failure(ProviderTruncated(said), usage)
    text = "".join(text_at(block, "text") or "" for block in objects_at(body, "content") if block.get("type") == "text")
    if not text:
        return Failure(ProviderOutputInvalid("Anthropic answered without any text; try again"), usage)
    return Reply(text, text_at(body, "model") or model, usage)
