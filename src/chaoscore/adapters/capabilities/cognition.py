"""``cognition.generate_text``: a text by the configured model, from instructions and data that are kept apart.

The gate stands above it, the ``AIProvider`` port below. Without a provider it fails and says how to get one: no canned
text ever poses as a model's.
"""

from __future__ import annotations

from chaoscore.app.ports import AIProvider, GenerateOptions, HandlerContext, Ids, Provided
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.errors import CapabilityError, LimitExceeded, NotConfigured, NotPerformed, ProviderError
from chaoscore.domain.fence import cut_to, fence, fence_rule
from chaoscore.domain.json import Json, JsonObject

NAME = "cognition.generate_text"
INSTRUCTIONS_CHARS_MAX = 8_000
INPUT_CHARS_MAX = 200_000
OUTPUT_TOKENS_MAX = 16_384
OUTPUT_TOKENS_DEFAULT = 2_048
_NO_INPUT = "Write the text that the instructions ask for."
_NOT_CONFIGURED = (
    "no model is configured; set OPENAI_API_KEY (and OPENAI_MODEL) in the server's environment, "
    "or set OPENAI_BASE_URL to a local server that speaks the same protocol"
)


def provide(provider: AIProvider | None, ids: Ids) -> Provided:
    """``ids`` make the fence's random id."""
    return Provided(_capability(), _Generate(provider, ids))


def _capability() -> Capability:
    return Capability(
        name=NAME,
        description=(
            "Let the configured model write a text: a summary, a translation, a draft. The instructions are yours; "
            "everything that comes from elsewhere belongs into input, where it is treated as data."
        ),
        risk="medium",
        input_schema={
            "type": "object",
            "required": ["instructions"],
            "additionalProperties": False,
            "properties": {
                "instructions": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": INSTRUCTIONS_CHARS_MAX,
                    "description": "what to write, in words of the plan's author",
                },
                "input": {"description": "any JSON to work on; usually references to outputs of earlier steps"},
                "output_tokens_max": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": OUTPUT_TOKENS_MAX,
                    "description": f"bound of the answer, {OUTPUT_TOKENS_DEFAULT} by default",
                },
            },
        },
        output_schema={
            "type": "object",
            "required": ["text", "model", "provider", "usage"],
            "additionalProperties": False,
            "properties": {
                "text": {"type": "string", "description": "what the model wrote"},
                "model": {"type": "string"},
                "provider": {"type": "string"},
                "usage": {
                    "type": "object",
                    "description": "tokens that were spent",
                    "additionalProperties": {"type": "integer"},
                },
            },
        },
        annotations=Annotations(read_only=True, idempotent=False, destructive=False, open_world=True),
        untrusted_output=True,
        builtin=True,
    )


class _Generate:
    def __init__(self, provider: AIProvider | None, ids: Ids) -> None:
        self._provider = provider
        self._ids = ids

    async def __call__(self, arguments: JsonObject, context: HandlerContext) -> Json:
        if self._provider is None or not self._provider.is_configured():
            raise NotPerformed(_NOT_CONFIGURED, code=NotConfigured.code)
        instructions, data = self._prompt(arguments)
        tokens = arguments.get("output_tokens_max")
        options = GenerateOptions(
            output_tokens_max=tokens if isinstance(tokens, int) else OUTPUT_TOKENS_DEFAULT,
            # The provider's own deadline comes first: its error says more, and says what was spent.
            deadline_seconds=max(1.0, context.deadline_seconds - 1.0),
        )
        try:
            answer = await self._provider.generate_text(instructions, data, options)
        except NotConfigured as error:
            raise NotPerformed(error.message, code=error.code, **error.details) from None
        except ProviderError as error:
            raise CapabilityError(error.message, code=error.code, **error.details) from None
        return {
            "text": answer.text,
            "model": answer.model,
            "provider": answer.provider_id,
            "usage": answer.usage.to_json(),
        }

    def _prompt(self, arguments: JsonObject) -> tuple[str, str]:
        instructions = str(arguments["instructions"])
        if "input" not in arguments:
            return instructions, _NO_INPUT
        data = arguments["input"]
        # Refused rather than cut: a summary of half a text would look like one of the whole.
        if cut_to(data, INPUT_CHARS_MAX)[1]:
            raise NotPerformed(
                f"the input has more than {INPUT_CHARS_MAX} characters, or is nested too deeply",
                code=LimitExceeded.code,
            )
        fence_id = self._ids.label("fence")
        return f"{instructions}\n\n{fence_rule(fence_id)}", fence("input", data, fence_id, INPUT_CHARS_MAX)
