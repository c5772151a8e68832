"""Objective → structured intent, through the configured model. No side effects; nothing here plans or runs.

The intent is advice: planning shows it to a model, policy never sees it. spec §1, §7.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from chaoscore.app.budget import Budget
from chaoscore.app.ports import AIProvider, Ids, Usage
from chaoscore.domain.errors import NotConfigured
from chaoscore.domain.fence import fence, fence_rule
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.limits import Limits

_SENTENCES_MAX = 12
_SENTENCE_CHARS_MAX = 500


def _sentences(words: str) -> JsonObject:
    return {
        "type": "array",
        "maxItems": _SENTENCES_MAX,
        "items": {"type": "string", "maxLength": _SENTENCE_CHARS_MAX},
        "description": words,
    }


_PARTS: dict[str, JsonObject] = {
    "objective": {
        "type": "string",
        "minLength": 1,
        "maxLength": 1_000,
        "description": "what is wanted, in one sentence that needs no context",
    },
    "deliverables": _sentences("what has to be there at the end"),
    "constraints": _sentences("conditions that the work must keep"),
    "success_criteria": _sentences("facts by which anybody can check that it was done"),
    "assumptions": _sentences("what was taken for granted because nobody said it"),
    "missing_information": _sentences("what a person would have to be asked"),
}
INTENT_SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": list(_PARTS),
    "properties": _PARTS,
}
"""The form of every intent: closed, all keys present, sentences only."""

INSTRUCTIONS = (
    "State what the user wants as an intent. Do not plan, do not answer the request, do not add wishes. "
    "The user's words are the JSON object after 'request'. Short sentences; leave a list empty when there is nothing "
    "to say."
)


@dataclass(frozen=True, slots=True)
class Reasoned:
    """``intent`` follows ``INTENT_SCHEMA``; ``usage`` is what this call spent."""

    intent: JsonObject
    provider: str
    model: str
    usage: Usage


class Reasoner:
    def __init__(self, provider: AIProvider | None, limits: Limits, ids: Ids) -> None:
        self._provider = provider
        self._limits = limits
        self._ids = ids

    async def reason(
        self, objective: str, context: JsonObject | None, constraints: Sequence[str], budget: Budget
    ) -> Reasoned:
        """One provider call. ``context`` is data from elsewhere: memories, working memory, facts of the caller.

        Raises ``NotConfigured`` without a model, another ``ProviderError``, or ``LimitExceeded`` for the budget.
        """
        provider = self._provider
        if provider is None or not provider.is_configured():
            raise NotConfigured(
                "no model is configured, so there is nobody to reason; chaoscore_plan takes steps that you write "
                "yourself (it shows the schema when called with the objective alone), or set OPENAI_API_KEY"
            )
        fence_id = self._ids.label("fence")
        parts = [request_text(objective, constraints, self._limits)]
        data = said(context or {})
        if data:
            parts.append(fence("context", data, fence_id))
        made = await budget.generate_json(
            provider, f"{INSTRUCTIONS}\n{fence_rule(fence_id)}", "\n".join(parts), INTENT_SCHEMA
        )
        assert is_object(made.raw)  # the provider has validated it
        return Reasoned(made.raw, made.provider_id, made.model, made.usage)


def request_text(objective: str, constraints: Sequence[str], limits: Limits) -> str:
    """The caller's own words, as one line of JSON."""
    request: dict[str, Json] = {"objective": objective[: limits.objective_chars_max]}
    if constraints:
        request["constraints"] = list(constraints)
    return f"request: {json.dumps(request, ensure_ascii=False)}"


def said(context: JsonObject) -> dict[str, Json]:
    """What of a context says anything: empty parts only distract a model."""
    return {key: value for key, value in context.items() if value not in (None, "", [], (), {})}
