"""What one request to a model is, and how it may end: values, so that nothing an SDK raised travels upwards.

An endpoint (``openai``, ``anthropic``) turns an ``Ask`` into a ``Reply`` or a ``Failure``; ``conversation`` above it
retries, validates and raises. Failures are returned and not raised because an exception raised while another is
handled keeps it in ``__context__``, and the exceptions of an SDK hold the request with its key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Literal, Protocol

from chaoscore.app.ports import Usage
from chaoscore.domain.errors import (
    ProviderAuthFailed,
    ProviderError,
    ProviderOutputInvalid,
    ProviderRateLimited,
    ProviderUnavailable,
)
from chaoscore.domain.json import Json, JsonObject, is_array, is_object
from chaoscore.domain.redaction import Redactor

MESSAGE_CHARS_MAX = 300
ONE_CALL = Usage(calls=1)


@dataclass(frozen=True, slots=True)
class Turn:
    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """``schema`` is what the answer must follow, ``None`` for free text."""

    instructions: str
    turns: tuple[Turn, ...]
    schema: JsonObject | None
    output_tokens_max: int


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Failure:
    """``retry`` tells whether asking again may help; ``retry_after_seconds`` is what the server asked for.

    ``status`` is the HTTP status when that was the failure.
    """

    error: ProviderError
    usage: Usage = ONE_CALL
    retry: bool = False
    retry_after_seconds: float | None = None
    status: int | None = None


class Endpoint(Protocol):
    """One way to reach one kind of model. ``exchange`` sends exactly one request and raises only cancellation.

    ``schema_enforced`` is whether the server makes the model follow the schema; ``None`` while nobody knows.
    """

    schema_enforced: bool | None

    @property
    def id(self) -> str: ...

    @property
    def display_name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def redactor(self) -> Redactor: ...

    def is_configured(self) -> bool: ...

    async def prepare(self) -> None:
        """Load the SDK. Raises ``NotConfigured`` telling what to set or install."""
        ...

    async def exchange(self, ask: Ask) -> Reply | Failure: ...

    def describe(self) -> dict[str, Json]:
        """Where it goes, for people; no secret."""
        ...


def instructions_of(ask: Ask, schema_enforced: bool | None) -> str:
    """The instructions, with the schema in words when the server is known not to enforce it."""
    if ask.schema is None or schema_enforced is not False:
        return ask.instructions
    return (
        f"{ask.instructions}\n\nAnswer with one JSON value that is valid against this JSON Schema, and nothing else:\n"
        f"{json.dumps(ask.schema, ensure_ascii=False, separators=(',', ':'))}"
    )


@dataclass(frozen=True, slots=True)
class Names:
    """How an endpoint and its settings are called in messages."""

    who: str
    key_setting: str
    model_setting: str


def status_failure(status: int, headers: Mapping[str, str], body: object, names: Names, redactor: Redactor) -> Failure:
    """The failure that an HTTP status other than 2xx means. ``body`` is the decoded error, or text."""
    said = said_by(body, redactor)
    tail = f": {said}" if said else ""
    who = names.who
    if status in (401, 403):
        message = f"{who} refused the key (HTTP {status}){tail}; check {names.key_setting}"
        return Failure(ProviderAuthFailed(message), status=status)
    wait = retry_after_seconds(headers)
    may_retry = headers.get("x-should-retry") != "false"
    if status == 429:
        inner = body.get("error", body) if is_object(body) else None
        if is_object(inner) and (inner.get("code") or inner.get("type")) in ("insufficient_quota", "billing_error"):
            message = f"{who} has no quota left{tail}; check the account's billing"
            return Failure(ProviderRateLimited(message), status=status)
        error = ProviderRateLimited(f"{who} limits the rate (HTTP 429){tail}; wait and try again")
        if wait is not None:
            error.details["retry_after_seconds"] = wait
        return Failure(error, retry=may_retry, retry_after_seconds=wait, status=status)
    if status in (408, 409) or status >= 500:
        down = ProviderUnavailable(f"{who} failed (HTTP {status}){tail}; try again later")
        return Failure(down, retry=may_retry, retry_after_seconds=wait, status=status)
    if status == 404:
        message = f"{who} knows no such model or path (HTTP 404){tail}; check {names.model_setting}"
        return Failure(ProviderError(message), status=status)
    if 300 <= status < 400:
        message = f"{who} redirects (HTTP {status}), which is not followed; give the final address as base URL"
        return Failure(ProviderError(message), status=status)
    return Failure(ProviderError(f"{who} refused the request (HTTP {status}){tail}"), status=status)


def refuses_schema(failure: Failure) -> bool:
    """Whether a server refused the form it was given for its answer, and not the request as such."""
    said = failure.error.message.lower()
    return failure.status in (400, 422) and any(word in said for word in ("schema", "response_format", "output_config"))


def said_by(body: object, redactor: Redactor) -> str:
    """What a server said about an error: one short line without secrets."""
    text = body if isinstance(body, str) else ""
    if is_object(body):
        inner = body.get("error", body)
        message = inner.get("message") if is_object(inner) else inner
        text = message if isinstance(message, str) else ""
    # Redacted before it is cut: half a key is not recognised any more.
    line = " ".join("".join(char if char.isprintable() else " " for char in redactor.text(text)[:20_000]).split())
    return line if len(line) <= MESSAGE_CHARS_MAX else line[:MESSAGE_CHARS_MAX] + "…"


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """``retry-after-ms``, ``retry-after`` in seconds, or as a date (counted from the answer's own ``date``)."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / divisor
        except ValueError:
            continue
        if isfinite(seconds):
            return max(seconds, 0.0)
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        since = parsedate_to_datetime(headers.get("date", ""))
        return max((until - since).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def decoded(content: bytes) -> Json:
    """A server's answer as JSON. Raises ``ValueError`` when it is not, however it is broken."""
    return parse_json(content.decode("utf-8"))


def parse_json(text: str) -> Json:
    """Exactly JSON (no NaN, no comments, nothing mended). Raises ``ValueError``."""
    try:
        value: Json = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        pass
    else:
        return value
    raise ValueError("nested too deeply")


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def not_understood(who: str, why: str, usage: Usage = ONE_CALL) -> Failure:
    """An answer that is not what the API documents: often a base URL that leads somewhere else."""
    return Failure(ProviderOutputInvalid(f"the answer of {who} is not what its API documents: {why}"), usage)


def objects_at(value: Json, key: str) -> tuple[JsonObject, ...]:
    """The objects in the array at ``key``; nothing when there is no such array."""
    found = value.get(key) if is_object(value) else None
    return tuple(item for item in found if is_object(item)) if is_array(found) else ()


def text_at(value: Json, *keys: str) -> str | None:
    """The string at the end of ``keys``, ``None`` when there is none."""
    for key in keys:
        value = value.get(key) if is_object(value) else None
    return value if isinstance(value, str) else None


def count_at(value: Json, *keys: str) -> int:
    """The non-negative integer at the end of ``keys``; 0 when there is none."""
    for key in keys:
        value = value.get(key) if is_object(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
