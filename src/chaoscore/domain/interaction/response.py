"""A response: what a human chose. One rule says whether an answer fits its question, at every door and on adoption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.interaction import fields, states
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.marks import marks
from chaoscore.domain.interaction.names import OPTION_ID_CHARS_MAX, instant_ms
from chaoscore.domain.json import Json, JsonObject

_KEYS = (
    "schemaVersion", "decisionId", "commandRunId", "selectedOptionId", "selectedOptionIds", "freeformValue",
    "rationale", "selectedBy", "selectedAt", "source", "validatesAgainstDecisionHash", "metadata",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Response:
    decision_id: str
    command_run_id: str
    selected_option_id: str | None
    selected_option_ids: tuple[str, ...]
    freeform_value: str | None
    rationale: str | None
    selected_by: str
    selected_at: str
    source: str
    decision_hash: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> Response:
        """Raises ``fields.WrongShape``."""
        document = fields.required_object(value, "a response")
        return cls(
            decision_id=fields.text(document, "decisionId"),
            command_run_id=fields.text(document, "commandRunId"),
            selected_option_id=fields.optional_text(document, "selectedOptionId"),
            selected_option_ids=fields.texts(document, "selectedOptionIds"),
            freeform_value=fields.optional_text(document, "freeformValue"),
            rationale=fields.optional_text(document, "rationale"),
            selected_by=fields.text(document, "selectedBy"),
            selected_at=fields.text(document, "selectedAt"),
            source=fields.choice(document, "source", states.SOURCES),
            decision_hash=fields.optional_text(document, "validatesAgainstDecisionHash"),
            metadata=fields.mapping(document, "metadata"),
            extra=fields.rest(document, _KEYS),
        )

    def to_json(self) -> dict[str, Json]:
        return {
            "schemaVersion": 1,
            "decisionId": self.decision_id,
            "commandRunId": self.command_run_id,
            "selectedOptionId": self.selected_option_id,
            "selectedOptionIds": list(self.selected_option_ids),
            "freeformValue": self.freeform_value,
            "rationale": self.rationale,
            "selectedBy": self.selected_by,
            "selectedAt": self.selected_at,
            "source": self.source,
            "validatesAgainstDecisionHash": self.decision_hash,
            "metadata": dict(self.metadata),
            **self.extra,
        }

    @property
    def choice(self) -> Choice:
        return Choice(self.selected_option_id, self.selected_option_ids, self.freeform_value, self.rationale)


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen, without who and when."""

    option_id: str | None = None
    option_ids: tuple[str, ...] = ()
    freeform: str | None = None
    rationale: str | None = None

    def same_as(self, other: Choice) -> bool:
        """The same answer again; a missing rationale contradicts nothing."""
        mine, theirs = self.chosen, other.chosen
        if mine != theirs or (self.freeform or None) != (other.freeform or None):
            return False
        return self.rationale is None or self.rationale == other.rationale

    @property
    def chosen(self) -> frozenset[str]:
        """Every option chosen, however it is written down."""
        return frozenset((*self.option_ids, *((self.option_id,) if self.option_id is not None else ())))


def accepted(decision: Decision, given: Choice) -> Choice:
    """``given`` as it is stored, or ``InvalidInput`` naming the key: the rule of every door."""
    known = decision.option_ids
    if decision.interaction_type == "freeform-input":
        if given.freeform is None or not given.freeform.strip():
            raise InvalidInput(
                f"freeformValue: decision {decision.decision_id!r} asks for a written answer; it must not be blank",
                key="freeformValue",
            )
        kept = given.option_id if given.option_id in known else None
        choice = Choice(_short(kept), (), given.freeform, given.rationale)
    elif decision.interaction_type == "multi-choice-decision":
        wanted = given.option_ids or ((given.option_id,) if given.option_id is not None else ())
        if not wanted:
            raise InvalidInput("selectedOptionIds: choose at least one option", key="selectedOptionIds")
        for name in wanted:
            _require_option(name, known, "selectedOptionIds")
        if given.option_id is not None and given.option_ids and given.option_id not in given.option_ids:
            raise InvalidInput(
                f"selectedOptionId: {given.option_id[:80]!r} is not among selectedOptionIds; leave it out or add it",
                key="selectedOptionId",
            )
        unique = tuple(dict.fromkeys(wanted))
        choice = Choice(_short(unique[0]), unique, None, given.rationale)
    else:
        one = given.option_id if given.option_id is not None else next(iter(given.option_ids), None)
        if one is None:
            raise InvalidInput("selectedOptionId: choose one option", key="selectedOptionId")
        _require_option(one, known, "selectedOptionId")
        if any(other != one for other in given.option_ids):
            raise InvalidInput(
                f"selectedOptionIds: decision {decision.decision_id!r} takes exactly one option",
                key="selectedOptionIds",
            )
        # Ids of 121 to 160 characters do not fit selectedOptionId; peers read the list instead.
        choice = Choice(_short(one), () if _short(one) else (one,), None, given.rationale)
    if decision.requires_rationale and not (given.rationale or "").strip():
        raise InvalidInput(
            f"rationale: decision {decision.decision_id!r} requires a reason; it must not be blank", key="rationale"
        )
    return choice


def adoption_fault(decision: Decision, response: Response, now_ms: int) -> str | None:
    """Why a response that somebody left beside a waiting decision cannot be adopted; ``None`` when it can."""
    if response.decision_id != decision.decision_id:
        return "it names another decision"
    if response.command_run_id != decision.command_run_id:
        return "it names another command run"
    at, expiry = instant_ms(response.selected_at), instant_ms(decision.expires_at)
    if at is None:
        return "selectedAt is not an instant"
    if expiry is not None and at > expiry and expiry <= now_ms:
        return "it was selected after the decision had expired"
    fault = hash_fault(decision, response.decision_hash)
    if fault is not None:
        return fault
    try:
        accepted(decision, response.choice)
    except InvalidInput as error:
        return error.message
    return None


def hash_fault(decision: Decision, given: str | None) -> str | None:
    """Whether an answer was given to this very question. ``null`` fits a plain decision: the panel writes it."""
    if given is None:
        bound = marks(decision.metadata).get("requiresHash") is True
        return "it carries no decision hash, and this decision requires one" if bound else None
    if given.lower() != decision.digest():
        return "it was given to another version of the question (validatesAgainstDecisionHash differs)"
    return None


def _short(name: str | None) -> str | None:
    return name if name is not None and len(name) <= OPTION_ID_CHARS_MAX else None


def _require_option(name: str, known: Sequence[str], key: str) -> None:
    if name not in known:
        raise InvalidInput(f"{key}: {name[:80]!r} is none of the options: {', '.join(known)[:400]}", key=key)


def normal_source(given: str | None) -> str:
    """The stored word for a source as callers write it."""
    return _SOURCE_WORDS.get((given or "").lower(), "unknown")


_SOURCE_WORDS = {
    "vscode-decision-center": "vscode-decision-center",
    "vscode-webview": "vscode-decision-center",
    "vscode": "vscode-decision-center",
    "webview": "vscode-decision-center",
    "prompt-fallback": "prompt-fallback",
    "prompt": "prompt-fallback",
    "fallback": "prompt-fallback",
    "mcp-tool": "mcp-tool",
    "mcp": "mcp-tool",
    "manual-file": "manual-file",
    "manual": "manual-file",
    "cli": "manual-file",
    "file": "manual-file",
}
