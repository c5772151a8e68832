"""The calling client's own model as one that writes a plan: what it is told, and what it answers, without a transport.

A call finds a ``ClientModel`` in its ``CallContext`` when the operator allows it and the client said that it has one.
``planning`` above asks it; below stand the transports, which ask live or by having the client call again. Whatever
comes back is the client's word: text to be read, linted and judged, never trusted. spec §7.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Protocol

from chaoscore.domain.errors import Fault
from chaoscore.domain.json import Json, JsonObject, unique_keys
from chaoscore.domain.redaction import Redactor

CLIENT_MODEL = "mcp-client"
"""How the provider of such a plan is called, in the plan and in the audit."""

WRITE_PLAN_SECONDS = 45.0
"""What a call that stays open waits for a plan, the repair turn included. Clients give up on a call after a minute."""

ANSWER_BYTES_MAX = 65_536
"""Of one answer's text in UTF-8. A client may have to carry the first one, sealed, until its second."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/@+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """``about`` are the facts that an answer holds for: it is not taken when they have changed before it came."""

    instructions: str
    input: str
    answer_tokens_max: int
    about: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Written:
    """``model`` is what the client calls its model, ``None`` when that is not a plain name."""

    text: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Silent:
    """No text came. ``why`` goes on after "the client's model gave no plan: "; it never repeats the client's words."""

    why: str


class ClientModel(Protocol):
    """The model behind the client of one call."""

    async def write(self, key: str, prompt: Prompt, seconds: float) -> Written | Silent:
        """What the model answers; the same for one ``key`` and the same ``about`` in a call that comes again.

        Never raises for anything a client does, and never waits longer than ``seconds`` in a call that stays open.
        Like ``Elicitor.ask`` it may **end the call here**, as if it was cancelled, and answer in another call that
        begins from the start: ask only where all that has happened before may happen again.
        """
        ...


class RedactedClientModel:
    """Law 10 on the way to the client's model."""

    def __init__(self, inner: ClientModel, redactor: Redactor) -> None:
        self._inner = inner
        self._redactor = redactor

    async def write(self, key: str, prompt: Prompt, seconds: float) -> Written | Silent:
        clean = self._redactor.text
        shown = replace(prompt, instructions=clean(prompt.instructions), input=clean(prompt.input))
        return await self._inner.write(key, shown, seconds)


def received(text: str, model: object) -> Written | Silent:
    """The text of an answer within its bounds, with the name of the model where it is one.

    The name is shown to people who approve, so nothing that could pass for more than a name is kept.
    """
    if not text.strip():
        return Silent("it answered without text")
    if len(text) > ANSWER_BYTES_MAX or len(text.encode("utf-8", "replace")) > ANSWER_BYTES_MAX:
        return Silent(f"its answer has more than {ANSWER_BYTES_MAX:,} bytes")
    return Written(text, model if isinstance(model, str) and _NAME.fullmatch(model) else None)


def read_json(text: str) -> tuple[Json, Fault | None]:
    """The JSON value of an answer, or the text itself and why it is none.

    An answer in one whole code fence is taken out of it; nothing else is mended: mended JSON hides a cut.
    """
    try:
        value: Json = json.loads(_unfenced(text), parse_constant=_refused, object_pairs_hook=unique_keys)
    except RecursionError:
        return text, Fault("", "is nested too deeply")
    except ValueError as error:
        return text, Fault("", f"is not JSON: {str(error)[:200]}", 'answer with {"steps": [...]} and nothing else')
    return value, None


def _unfenced(text: str) -> str:
    body = text.strip()
    first, newline, rest = body.partition("\n")
    return rest[:-3] if newline and first in ("```", "```json", "```JSON") and rest.endswith("```") else body


def _refused(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")
