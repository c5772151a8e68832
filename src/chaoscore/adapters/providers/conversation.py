"""The ``AIProvider`` that every model is used through: tries, deadlines, validation and the one repair turn.

Below it an ``Endpoint`` sends single requests; above it the application knows only the port. What a model answers is
validated here whatever the server promised, because servers that accept a schema and ignore it are common.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace

from chaoscore.adapters.providers.exchange import Ask, Endpoint, Failure, Reply, Turn, parse_json
from chaoscore.adapters.providers.schemas import STRUCTURE_KEYWORDS, loosened
from chaoscore.app.ports import GeneratedJson, GeneratedText, GenerateOptions, Usage
from chaoscore.domain.errors import (
    Fault,
    ProviderError,
    ProviderOutputInvalid,
    ProviderRefused,
    ProviderTimedOut,
    ProviderTruncated,
)
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.schema import schema_faults

log = logging.getLogger(__name__)

REPAIR_FAULTS_MAX = 8
ECHO_CHARS_MAX = 16_000
PROBE_SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["tide_mark"],
    "properties": {"tide_mark": {"type": "string", "enum": ["kelp-41"]}},
}


@dataclass(frozen=True, slots=True)
class Tries:
    """``try_seconds`` bounds one request; waits between tries double from ``backoff_seconds``."""

    try_seconds: float = 60.0
    retries_max: int = 2
    backoff_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class Probed:
    """Whether the server made the model follow a schema that the words of the request contradicted."""

    enforced: bool
    usage: Usage


class ModelProvider:
    """One endpoint as an ``AIProvider``. Raises ``ProviderError``s only, with ``details['usage']`` once it has asked.

    Each retry is a request of its own and counts as a call. Cancelling a call closes its connection.
    """

    def __init__(self, endpoint: Endpoint, tries: Tries = Tries()) -> None:
        self._endpoint = endpoint
        self._tries = tries

    @property
    def id(self) -> str:
        return self._endpoint.id

    @property
    def display_name(self) -> str:
        return self._endpoint.display_name

    @property
    def model(self) -> str:
        return self._endpoint.model

    @property
    def schema_enforced(self) -> bool | None:
        """``None`` until ``probe`` or an answer that ignored its schema has told."""
        return self._endpoint.schema_enforced

    def is_configured(self) -> bool:
        return self._endpoint.is_configured()

    def describe(self) -> dict[str, Json]:
        """For ``inspect providers`` and people: where it goes and what is known about it; no secret."""
        return {
            "id": self.id,
            "display_name": self.display_name,
            "configured": self.is_configured(),
            "model": self.model,
            "schema_enforced": self.schema_enforced,
            **self._endpoint.describe(),
        }

    async def generate_text(
        self, instructions: str, input: str, options: GenerateOptions | None = None
    ) -> GeneratedText:
        options = options or GenerateOptions()
        until = await self._begin(options)
        result = await self._ask(
            Ask(_sendable(instructions), (Turn("user", _sendable(input)),), None, options.output_tokens_max), until
        )
        if isinstance(result, Failure):
            raise _priced(result.error, result.usage)
        return GeneratedText(result.text, result.model, self.id, result.usage)

    async def generate_json(
        self, instructions: str, input: str, json_schema: JsonObject, options: GenerateOptions | None = None
    ) -> GeneratedJson:
        options = options or GenerateOptions()
        until = await self._begin(options)
        first = Turn("user", _sendable(input))
        turns: tuple[Turn, ...] = (first,)
        spent = Usage()
        said = ""
        for _ in range(2):
            result = await self._ask(Ask(_sendable(instructions), turns, json_schema, options.output_tokens_max), until)
            spent = spent.plus(result.usage)
            if isinstance(result, Failure):
                raise _priced(result.error, spent)
            value, faults = read_json(result.text, json_schema)
            if not faults:
                return GeneratedJson(value, result.model, self.id, spent)
            if _ignored(value, json_schema):
                # From now on the schema is told in words too.
                self._endpoint.schema_enforced = False
            said = say_faults(faults)
            turns = (first, Turn("assistant", _sendable(result.text[:ECHO_CHARS_MAX])), Turn("user", _repair(said)))
        message = f"{self.display_name} twice gave an answer that does not follow the schema: {said[:1_000]}"
        raise _priced(ProviderOutputInvalid(self._endpoint.redactor.text(message)), spent)

    async def probe(self, options: GenerateOptions | None = None) -> Probed:
        """Ask for one object in words and for another by schema: only an enforced schema wins.

        One request. Raises ``ProviderError`` when the server cannot be asked.
        """
        options = options or GenerateOptions(output_tokens_max=400, deadline_seconds=90.0)
        until = await self._begin(options)
        known, self._endpoint.schema_enforced = self._endpoint.schema_enforced, None
        ask = Ask(
            "You answer with JSON.",
            (Turn("user", 'Answer with exactly {"fruit": "apple"} and nothing else.'),),
            PROBE_SCHEMA,
            options.output_tokens_max,
        )
        result = await self._ask(ask, until)
        if isinstance(result, Failure) and not isinstance(result.error, ProviderTruncated | ProviderRefused):
            self._endpoint.schema_enforced = known
            raise _priced(result.error, result.usage)
        enforced = isinstance(result, Reply) and not read_json(result.text, PROBE_SCHEMA)[1]
        self._endpoint.schema_enforced = enforced
        return Probed(enforced, result.usage)

    async def _begin(self, options: GenerateOptions) -> float:
        """Load the SDK; the loop time by which the whole call has to end."""
        until = asyncio.get_running_loop().time() + options.deadline_seconds
        await self._endpoint.prepare()
        return until

    async def _ask(self, ask: Ask, until: float) -> Reply | Failure:
        """One answer, asked for at most ``1 + retries_max`` times before ``until``."""
        spent = Usage()
        for attempt in range(1 + self._tries.retries_max):
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return Failure(self._late(), spent)
            result = await self._try(ask, left)
            spent = spent.plus(result.usage)
            if isinstance(result, Reply) or not result.retry or attempt == self._tries.retries_max:
                return replace(result, usage=spent)
            wait = result.retry_after_seconds
            if wait is None:
                wait = self._tries.backoff_seconds * 2**attempt
            if wait >= until - asyncio.get_running_loop().time():
                # Waiting would only turn a precise error into a time-out.
                return replace(result, usage=spent)
            await asyncio.sleep(wait)
        raise AssertionError("the last try returns")

    async def _try(self, ask: Ask, left: float) -> Reply | Failure:
        unexpected: str | None = None
        try:
            async with asyncio.timeout(min(self._tries.try_seconds, left)):
                return await self._endpoint.exchange(ask)
        except TimeoutError:
            pass
        except Exception as error:
            # Its text and its traceback may hold a request with its key, so only its kind is told.
            unexpected = type(error).__name__
        if unexpected is not None:
            log.error("%s failed unexpectedly: %s", self.display_name, unexpected)
            return Failure(ProviderError(f"{self.display_name} failed unexpectedly: {unexpected}"))
        if left <= self._tries.try_seconds:
            return Failure(self._late())
        return Failure(
            ProviderTimedOut(
                f"{self.display_name} did not answer within {self._tries.try_seconds:g} s; try again later"
            ),
            retry=True,
        )

    def _late(self) -> ProviderTimedOut:
        return ProviderTimedOut(f"{self.display_name} did not answer before the deadline of the call; try again later")


def read_json(text: str, schema: JsonObject) -> tuple[Json, list[Fault]]:
    """The JSON value of an answer and what is wrong with it. An answer in one whole code fence is taken out of it;
    nothing else is mended: mended JSON hides that an answer was cut off."""
    try:
        value = parse_json(_unfenced(text))
    except ValueError as error:
        return None, [Fault("", f"is not JSON: {str(error)[:200]}")]
    try:
        return value, schema_faults(value, schema)
    except RecursionError:
        return None, [Fault("", "is nested too deeply")]


def _ignored(value: Json, schema: JsonObject) -> bool:
    """Whether a server that enforces the structure of a schema could not have let this answer through."""
    return bool(schema_faults(value, loosened(schema, STRUCTURE_KEYWORDS)))


def say_faults(faults: list[Fault]) -> str:
    """The first faults as one line: where, what, and what to write instead."""
    parts = []
    for fault in faults[:REPAIR_FAULTS_MAX]:
        hint = f" ({fault.suggestion})" if fault.suggestion else ""
        parts.append(f"{fault.pointer or 'the answer'}: {fault.message}{hint}")
    more = f"; and {len(faults) - REPAIR_FAULTS_MAX} more" if len(faults) > REPAIR_FAULTS_MAX else ""
    return "; ".join(parts)[:4_000] + more


def _repair(said: str) -> str:
    return _sendable(f"That answer was rejected. {said}. Answer again with the whole corrected JSON and nothing else.")


def _unfenced(text: str) -> str:
    body = text.strip()
    if body.startswith("```") and body.endswith("```") and "\n" in body:
        first, _, rest = body.partition("\n")
        if first in ("```", "```json", "```JSON"):
            return rest[:-3]
    return body


def _sendable(text: str) -> str:
    """A lone surrogate, which JSON text can smuggle in, cannot be sent as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _priced(error: ProviderError, usage: Usage) -> ProviderError:
    if usage.calls:
        error.details["usage"] = usage.to_json()
    return error
