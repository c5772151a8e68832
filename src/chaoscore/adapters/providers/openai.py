"""OpenAI, and every server that speaks its API: the Responses API on the official endpoint, Chat Completions wherever
a base URL is set (many such servers take a schema on ``/responses`` and ignore it).

The only file that imports the ``openai`` SDK, and only when it is used. The SDK's answers are read from the raw JSON:
a server behind a base URL may send anything, and the SDK's models believe it.
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
    said_by,
    text_at,
)
from chaoscore.adapters.providers.schemas import OPENAI_KEYWORDS, is_strict, loosened
from chaoscore.adapters.providers.sdk import Connection, RawAnswer, SdkErrors, base_url_checked, load_sdk, send
from chaoscore.app.ports import Usage
from chaoscore.domain.errors import (
    NotConfigured,
    ProviderError,
    ProviderOutputInvalid,
    ProviderRateLimited,
    ProviderRefused,
    ProviderTruncated,
    ProviderUnavailable,
)
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.redaction import Redactor

if TYPE_CHECKING:
    from httpx2 import AsyncClient

MODEL_DEFAULT = "gpt-5.4-mini"
"""Used when no model is set (``OPENAI_MODEL``): a small model with strict schemas."""
OFFICIAL_URL = "https://api.openai.com/v1"
ANSWER_BYTES_MAX = 8_388_608


def openai_provider(
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
    url = base_url_checked(base_url, "OPENAI_BASE_URL") if base_url else None
    connection = Connection(
        url=url or OFFICIAL_URL,
        key=api_key,
        try_seconds=tries.try_seconds,
        answer_bytes_max=answer_bytes_max,
        ca_file=ca_file,
    )
    if url is None:
        return ModelProvider(ResponsesEndpoint(connection, model or MODEL_DEFAULT), tries)
    return ModelProvider(ChatEndpoint(connection, model or MODEL_DEFAULT), tries)


class _Resource(Protocol):
    """The two calls that are used of the SDK."""

    create: Callable[..., Awaitable[RawAnswer]]


class _OpenAI:
    """What both APIs share: the configuration, the SDK and how its errors read."""

    id = "openai"
    display_name = "OpenAI"
    api = ""
    _resource = ""

    def __init__(self, connection: Connection, model: str, schema_enforced: bool | None) -> None:
        self._connection = connection
        self._tls: ssl.SSLContext | None = None
        self.model = model
        self.redactor = Redactor([connection.key])
        self.schema_enforced = schema_enforced
        self._formats = True

    def is_configured(self) -> bool:
        return bool(self._connection.key) or self._connection.url != OFFICIAL_URL

    async def prepare(self) -> None:
        if not self.is_configured():
            raise NotConfigured(
                "the openai provider has no key; set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server, "
                "or write the steps yourself and pass them to chaoscore_plan"
            )
        if self._tls is None:
            self._tls = await load_sdk("openai", self._resource, self._connection)

    def describe(self) -> dict[str, Json]:
        url = self._connection.url
        kind = "official" if url == OFFICIAL_URL else "custom"
        return {"endpoint": kind, "api": self.api, "base_url": url, "warnings": list(self._connection.warnings())}

    async def exchange(self, ask: Ask) -> Reply | Failure:
        import openai

        async def call(http: AsyncClient) -> RawAnswer:
            client = openai.AsyncOpenAI(
                # A local server needs no key, the SDK does.
                api_key=self._connection.key or "not-needed",
                # Set, so that the SDK does not look for it in the environment.
                admin_api_key="",
                webhook_secret="",
                base_url=self._connection.url,
                max_retries=0,
                timeout=self._connection.try_seconds,
                http_client=http,
            )
            return await self._send(client, ask)

        answer = await send(
            self._connection,
            self._tls,
            call,
            SdkErrors(openai.APITimeoutError, openai.APIConnectionError, openai.APIStatusError),
            Names(self.display_name, "OPENAI_API_KEY", "OPENAI_MODEL and OPENAI_BASE_URL"),
            self.redactor,
        )
        if isinstance(answer, Failure):
            return self._adapted(answer)
        return self._read(answer)

    async def _send(self, client: object, ask: Ask) -> RawAnswer:
        raise NotImplementedError

    def _read(self, body: JsonObject) -> Reply | Failure:
        raise NotImplementedError

    def _adapted(self, failure: Failure) -> Failure:
        """A server that refuses the schema itself is told it in words, now and from then on."""
        if not self._formats or not refuses_schema(failure):
            return failure
        self._formats = False
        self.schema_enforced = False
        return replace(failure, retry=True, retry_after_seconds=0.0)


class ResponsesEndpoint(_OpenAI):
    """``POST /responses``: the official endpoint, which enforces a strict schema."""

    api = "responses"
    _resource = "responses.responses"

    def __init__(self, connection: Connection, model: str) -> None:
        super().__init__(connection, model, schema_enforced=True)

    async def _send(self, client: object, ask: Ask) -> RawAnswer:
        body: dict[str, object] = {
            "model": self.model,
            "instructions": instructions_of(ask, self.schema_enforced),
            "input": [{"role": turn.role, "content": turn.text} for turn in ask.turns],
            "max_output_tokens": ask.output_tokens_max,
            "store": False,
        }
        if ask.schema is not None and self._formats:
            schema = loosened(ask.schema, OPENAI_KEYWORDS)
            body["text"] = {
                "format": {"type": "json_schema", "name": "answer", "strict": is_strict(schema), "schema": schema}
            }
        resource = cast("_Resource", client.responses.with_raw_response)  # type: ignore[attr-defined]
        return await resource.create(**body)

    def _read(self, body: JsonObject) -> Reply | Failure:
        return read_response(body, self.model, self.redactor)


class ChatEndpoint(_OpenAI):
    """``POST /chat/completions`` with ``response_format``. What a server refuses by name is left out from then on."""

    display_name = "the OpenAI-compatible server"
    api = "chat"
    _resource = "chat.completions.completions"

    def __init__(self, connection: Connection, model: str) -> None:
        super().__init__(connection, model, schema_enforced=None)
        self._tokens_key = "max_tokens"

    async def _send(self, client: object, ask: Ask) -> RawAnswer:
        told = instructions_of(ask, self.schema_enforced)
        body: dict[str, object] = {
            "model": self.model,
            "messages": [
                {"role": "system", "content": told},
                *({"role": turn.role, "content": turn.text} for turn in ask.turns),
            ],
            self._tokens_key: ask.output_tokens_max,
        }
        if ask.schema is not None and self._formats:
            schema = loosened(ask.schema, OPENAI_KEYWORDS)
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": is_strict(schema), "schema": schema},
            }
        resource = cast("_Resource", client.chat.completions.with_raw_response)  # type: ignore[attr-defined]
        return await resource.create(**body)

    def _read(self, body: JsonObject) -> Reply | Failure:
        return read_completion(body, self.model, self.redactor)

    def _adapted(self, failure: Failure) -> Failure:
        """Newer models want ``max_completion_tokens``."""
        old = self._tokens_key == "max_tokens" and "max_tokens" in failure.error.message
        if not old or failure.status not in (400, 422):
            return super()._adapted(failure)
        self._tokens_key = "max_completion_tokens"
        return replace(failure, retry=True, retry_after_seconds=0.0)


def read_response(body: JsonObject, model: str, redactor: Redactor) -> Reply | Failure:
    """A ``/responses`` answer. Refused, cut off and failed are told apart before any text is looked at."""
    usage = Usage(
        1,
        count_at(body, "usage", "input_tokens"),
        count_at(body, "usage", "output_tokens"),
        count_at(body, "usage", "input_tokens_details", "cached_tokens"),
        count_at(body, "usage", "output_tokens_details", "reasoning_tokens"),
    )
    parts = [part for item in objects_at(body, "output") for part in objects_at(item, "content")]
    for part in parts:
        if part.get("type") == "refusal":
            return _refused(text_at(part, "refusal"), usage, redactor)
    status = body.get("status")
    if status == "incomplete":
        reason = text_at(body, "incomplete_details", "reason")
        return _filtered(usage) if reason == "content_filter" else _truncated(usage)
    if status == "failed":
        said = said_by(body, redactor)
        code = text_at(body, "error", "code")
        if code == "rate_limit_exceeded":
            return Failure(ProviderRateLimited(f"OpenAI limits the rate: {said}; wait and try again"), usage, True)
        return Failure(ProviderUnavailable(f"OpenAI failed: {said}; try again later"), usage, code == "server_error")
    if status != "completed":
        return not_understood("OpenAI", "its status is neither completed, incomplete nor failed", usage)
    text = "".join(text_at(part, "text") or "" for part in parts if part.get("type") == "output_text")
    if not text:
        return Failure(ProviderOutputInvalid("OpenAI answered without any text; try again"), usage)
    return Reply(text, text_at(body, "model") or model, usage)


def read_completion(body: JsonObject, model: str, redactor: Redactor) -> Reply | Failure:
    """A ``/chat/completions`` answer of whichever server."""
    usage = Usage(
        1,
        count_at(body, "usage", "prompt_tokens"),
        count_at(body, "usage", "completion_tokens"),
        count_at(body, "usage", "prompt_tokens_details", "cached_tokens"),
        count_at(body, "usage", "completion_tokens_details", "reasoning_tokens"),
    )
    who = ChatEndpoint.display_name
    if body.get("error"):
        return Failure(ProviderError(f"{who} reports an error: {said_by(body, redactor)}"), usage)
    choices = objects_at(body, "choices")
    message = choices[0].get("message") if choices else None
    if not is_object(message):
        return not_understood(who, "it has no choices with a message", usage)
    if refusal := text_at(message, "refusal"):
        return _refused(refusal, usage, redactor)
    match choices[0].get("finish_reason"):
        case "content_filter":
            return _filtered(usage)
        case "length":
            return _truncated(usage)
    text = text_at(message, "content")
    if not text:
        return Failure(ProviderOutputInvalid(f"{who} answered without any text; try again"), usage)
    return Reply(text, text_at(body, "model") or model, usage)


def _refused(said: str | None, usage: Usage, redactor: Redactor) -> Failure:
    return Failure(ProviderRefused(f"the model refused: {said_by(said, redactor) or 'without a reason'}"), usage)


def _filtered(usage: Usage) -> Failure:
    return Failure(ProviderRefused("the provider's content filter stopped the answer; word the goal otherwise"), usage)


def _truncated(usage: Usage) -> Failure:
    return Failure(
        ProviderTruncated("the answer was cut off at its token limit; ask for less, or take a model that writes more"),
        usage,
    )
