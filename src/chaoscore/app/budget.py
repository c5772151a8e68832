"""What one call may still spend on models: checked before each request, charged after it, failed ones included."""

from __future__ import annotations

from chaoscore.app.ports import AIProvider, GeneratedJson, GenerateOptions, Usage
from chaoscore.domain.errors import LimitExceeded, ProviderError
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.limits import Limits

ANSWER_TOKENS_MAX = 8_192


class Budget:
    """Counts provider calls and tokens against ``Limits`` for one goal, re-plans included.

    ``answer_tokens_max`` bounds each single answer, so that a model that rambles is cut off (``PROVIDER_TRUNCATED``).
    """

    def __init__(self, limits: Limits, answer_tokens_max: int = ANSWER_TOKENS_MAX) -> None:
        self._limits = limits
        self._answer_tokens_max = answer_tokens_max
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """What has been spent so far."""
        return self._usage

    def check(self) -> None:
        """Raises ``LimitExceeded`` when nothing more may be spent."""
        limits, usage = self._limits, self._usage
        if usage.calls >= limits.provider_calls_max:
            raise LimitExceeded(
                f"{usage.calls} provider calls are spent of {limits.provider_calls_max}; "
                "write the steps yourself, or ask the operator for a higher provider_calls_max",
                limit="provider_calls_max",
            )
        if usage.tokens >= limits.provider_tokens_max:
            raise LimitExceeded(
                f"{usage.tokens} tokens are spent of {limits.provider_tokens_max}; "
                "write the steps yourself, or ask the operator for a higher provider_tokens_max",
                limit="provider_tokens_max",
            )

    def charge(self, usage: Usage) -> None:
        self._usage = self._usage.plus(usage)

    async def generate_json(
        self, provider: AIProvider, instructions: str, input: str, json_schema: JsonObject
    ) -> GeneratedJson:
        """One checked and charged call. Raises ``LimitExceeded`` before it, or what the provider raises."""
        self.check()
        left = self._limits.provider_tokens_max - self._usage.tokens
        options = GenerateOptions(min(self._answer_tokens_max, left), self._limits.provider_seconds)
        try:
            made = await provider.generate_json(instructions, input, json_schema, options)
        except ProviderError as error:
            self.charge(_spent(error.details.get("usage")))
            raise
        except BaseException:
            # Cancelled: the request was sent, what it cost nobody told.
            self.charge(Usage(calls=1))
            raise
        self.charge(made.usage)
        return made


def _spent(told: Json) -> Usage:
    """The usage that a provider's error carries, nothing when it carries none."""
    if not is_object(told):
        return Usage()
    counts = {
        name: value
        for name, value in told.items()
        if isinstance(value, int) and not isinstance(value, bool) and name in Usage().to_json()
    }
    return Usage(**counts)
