"""A decision: a question to a human with everything needed to answer it, and the digest an answer is bound to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.interaction import fields, states
from chaoscore.domain.interaction.names import (
    ID_CHARS_MAX,
    OPTION_ID_CHARS_MAX,
    command_token,
    decision_path,
    is_id,
)
from chaoscore.domain.json import Json, JsonObject, digest, is_array, is_object

_KEYS = (
    "schemaVersion", "decisionId", "commandRunId", "changeId", "sourceCommand", "interactionType", "state", "title",
    "context", "recommendation", "recommendedOptionId", "options", "requiresRationale", "independent", "blocks",
    "unlocksOn", "createdAt", "expiresAt", "createdBy", "metadata",
)  # fmt: skip
_OPTION_KEYS = ("id", "label", "description", "consequence", "risk", "recommended")


@dataclass(frozen=True, slots=True)
class Option:
    id: str
    label: str
    description: str | None = None
    consequence: str | None = None
    risk: str | None = None
    recommended: bool = False
    extra: JsonObject = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> Option:
        document = fields.required_object(value, "an option")
        return cls(
            id=fields.text(document, "id"),
            label=fields.text(document, "label"),
            description=fields.optional_text(document, "description"),
            consequence=fields.optional_text(document, "consequence"),
            risk=fields.optional_text(document, "risk"),
            recommended=fields.flag(document, "recommended"),
            extra=fields.rest(document, _OPTION_KEYS),
        )

    def to_json(self) -> dict[str, Json]:
        return {
            "id": self.id,
            "label": self.label,
            "description": self.description,
            "consequence": self.consequence,
            "risk": self.risk,
            "recommended": self.recommended,
            **self.extra,
        }


FREEFORM_OPTION = Option("freeform-response", "Provide a written answer")


@dataclass(frozen=True, slots=True)
class Decision:
    decision_id: str
    command_run_id: str
    change_id: str | None
    source_command: str
    interaction_type: str
    state: str
    title: str
    context: str
    options: tuple[Option, ...]
    created_at: str
    recommendation: str | None = None
    recommended_option_id: str | None = None
    requires_rationale: bool = False
    independent: bool = False
    blocks: tuple[str, ...] = ()
    unlocks_on: JsonObject = field(default_factory=dict)
    expires_at: str | None = None
    created_by: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> Decision:
        """Raises ``fields.WrongShape``."""
        document = fields.required_object(value, "a decision")
        options = document.get("options")
        if not is_array(options) or not options:
            raise fields.WrongShape("'options' must be a list with at least one option")
        return cls(
            decision_id=fields.text(document, "decisionId"),
            command_run_id=fields.text(document, "commandRunId"),
            change_id=fields.optional_text(document, "changeId"),
            source_command=fields.text(document, "sourceCommand"),
            interaction_type=fields.choice(document, "interactionType", states.INTERACTION_TYPES),
            state=fields.choice(document, "state", states.DECISION),
            title=fields.text(document, "title"),
            context=fields.text(document, "context"),
            options=tuple(Option.from_json(option) for option in options),
            created_at=fields.text(document, "createdAt"),
            recommendation=fields.optional_text(document, "recommendation"),
            recommended_option_id=fields.optional_text(document, "recommendedOptionId"),
            requires_rationale=fields.flag(document, "requiresRationale"),
            independent=fields.flag(document, "independent"),
            blocks=fields.texts(document, "blocks"),
            unlocks_on=fields.mapping(document, "unlocksOn"),
            expires_at=fields.optional_text(document, "expiresAt"),
            created_by=fields.optional_text(document, "createdBy"),
            metadata=fields.mapping(document, "metadata"),
            extra=fields.rest(document, _KEYS),
        )

    def to_json(self) -> dict[str, Json]:
        return {
            "schemaVersion": 1,
            "decisionId": self.decision_id,
            "commandRunId": self.command_run_id,
            "changeId": self.change_id,
            "sourceCommand": self.source_command,
            "interactionType": self.interaction_type,
            "state": self.state,
            "title": self.title,
            "context": self.context,
            "recommendation": self.recommendation,
            "recommendedOptionId": self.recommended_option_id,
            "options": [option.to_json() for option in self.options],
            "requiresRationale": self.requires_rationale,
            "independent": self.independent,
            "blocks": list(self.blocks),
            "unlocksOn": dict(self.unlocks_on),
            "createdAt": self.created_at,
            "expiresAt": self.expires_at,
            "createdBy": self.created_by,
            "metadata": dict(self.metadata),
            **self.extra,
        }

    def question(self) -> dict[str, Json]:
        """The whole question, as whoever must put it to a human needs it."""
        full = self.to_json()
        keys = (
            "decisionId", "commandRunId", "changeId", "sourceCommand", "interactionType", "state", "title", "context",
            "recommendation", "recommendedOptionId", "requiresRationale", "independent", "options", "createdAt",
            "expiresAt", "createdBy",
        )  # fmt: skip
        out = {key: full[key] for key in keys}
        return {**out, "decisionPath": decision_path(self.decision_id), "decisionHash": self.digest()}

    @property
    def command(self) -> str:
        return command_token(self.source_command)

    @property
    def option_ids(self) -> tuple[str, ...]:
        return tuple(option.id for option in self.options)

    @property
    def next_step_hint(self) -> str | None:
        hints = self.metadata.get("resumeHints")
        hint = hints.get("nextStep") if is_object(hints) else None
        return hint if isinstance(hint, str) and hint else None

    def digest(self) -> str:
        """What was asked, whatever has become of it: an answer given to another question never fits."""
        document = self.to_json()
        keys = (
            "decisionId", "commandRunId", "changeId", "sourceCommand", "interactionType", "title", "context",
            "recommendation", "options", "requiresRationale", "independent", "expiresAt",
        )  # fmt: skip
        return digest({key: document[key] for key in keys})

    def becoming(self, state: str) -> Decision:
        """Raises ``IllegalTransition``."""
        states.require(states.DECISION, "decision", self.decision_id, self.state, state)
        return replace(self, state=state)

    def asks_the_same(self, other: Decision) -> bool:
        return (self.context, self.options, self.interaction_type) == (
            other.context, other.options, other.interaction_type,
        )  # fmt: skip


def chosen_options(
    interaction_type: str, options: Sequence[JsonObject] | None, recommended: str | None
) -> tuple[tuple[Option, ...], str | None]:
    """The options as they are stored, and the recommended one. Raises ``InvalidInput``."""
    if not options and interaction_type == "freeform-input":
        return (FREEFORM_OPTION,), _recommended((FREEFORM_OPTION,), recommended)
    if not options:
        raise InvalidInput("options: give at least one option {id, label}", key="options")
    built: list[Option] = []
    for position, raw in enumerate(options):
        at = f"options[{position}]"
        name, label = raw.get("id"), raw.get("label")
        if not isinstance(name, str) or not is_id(name):
            raise InvalidInput(
                f"{at}.id: {str(name)[:80]!r} is not an id; use letters, digits and . _ : - and begin with a letter or "
                f"digit",
                key=f"{at}.id",
            )
        if len(name) > OPTION_ID_CHARS_MAX:
            raise InvalidInput(f"{at}.id: at most {OPTION_ID_CHARS_MAX} characters", key=f"{at}.id")
        if any(other.id == name for other in built):
            raise InvalidInput(f"{at}.id: {name!r} is there twice; give each option its own id", key=f"{at}.id")
        if not isinstance(label, str) or not label.strip():
            raise InvalidInput(f"{at}.label: must not be blank", key=f"{at}.label")
        own = raw.get("recommended")
        built.append(
            Option(
                id=name,
                label=label,
                description=fields.optional_text(raw, "description"),
                consequence=fields.optional_text(raw, "consequence"),
                risk=fields.optional_text(raw, "risk"),
                recommended=own if isinstance(own, bool) else False,
            )
        )
    return tuple(built), _recommended(tuple(built), recommended)


def _recommended(options: tuple[Option, ...], given: str | None) -> str | None:
    if given is not None:
        if all(option.id != given for option in options):
            known = ", ".join(option.id for option in options)[:400]
            raise InvalidInput(
                f"recommendedOptionId: {given[:ID_CHARS_MAX]!r} is none of the options: {known}",
                key="recommendedOptionId",
            )
        return given
    return next((option.id for option in options if option.recommended), None)
