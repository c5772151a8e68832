"""A resume capsule: what the next agent needs to go on where a run stopped, sealed with a content hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaoscore.domain.interaction import fields
from chaoscore.domain.interaction.digest import content_hash
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json, JsonObject, is_array, is_object

_LISTS = ("approvedScope", "constraints", "assumptions", "openRisks", "confidenceCaps", "forbiddenActions")


@dataclass(frozen=True, slots=True)
class CapsuleOverrides:
    """What a caller says about the capsule; ``None`` means nothing was said."""

    last_completed_step: str | None = None
    next_step: str | None = None
    intent: str | None = None
    approved_scope: Sequence[str] | None = None
    constraints: Sequence[str] | None = None
    required_artifacts: Sequence[str] | None = None
    selected_path: str | None = None
    open_risks: Sequence[str] | None = None
    metadata: JsonObject | None = None


NOTHING = CapsuleOverrides()


@dataclass(frozen=True, slots=True)
class Capsule:
    """The document as it stands in the file, with the few fields that rules look at."""

    document: JsonObject

    @classmethod
    def from_json(cls, value: Json) -> Capsule:
        """Raises ``fields.WrongShape``."""
        document = fields.required_object(value, "a capsule")
        fields.text(document, "commandRunId")
        fields.text(document, "sourceCommand")
        fields.text(document, "state")
        fields.optional_text(document, "changeId")
        fields.mapping(document, "contextCapsule")
        fields.texts(document, "requiredArtifacts")
        return cls(document)

    def to_json(self) -> JsonObject:
        return self.document

    @property
    def run(self) -> str:
        return fields.text(self.document, "commandRunId")

    @property
    def change_id(self) -> str | None:
        return fields.optional_text(self.document, "changeId")

    @property
    def next_step(self) -> str | None:
        value = self.document.get("nextStep")
        return value if isinstance(value, str) else None

    @property
    def updated_at(self) -> str:
        value = self.document.get("updatedAt")
        return value if isinstance(value, str) else ""

    @property
    def required_artifacts(self) -> tuple[str, ...]:
        return fields.texts(self.document, "requiredArtifacts")

    def pick(self, *keys: str) -> dict[str, Json]:
        return {key: self.document.get(key) for key in keys}


def built(
    session: Session, now: str, overrides: CapsuleOverrides = NOTHING, existing: Capsule | None = None
) -> Capsule:
    """The capsule of the session: each field from the override, else the session, else what stood there before."""
    old = existing.document if existing is not None else {}
    old_context = old.get("contextCapsule")
    context = old_context if is_object(old_context) else {}
    given: dict[str, Sequence[str] | None] = {
        "approvedScope": overrides.approved_scope,
        "constraints": overrides.constraints,
        "openRisks": overrides.open_risks,
    }
    where = f" for {session.change_id}" if session.change_id else ""
    lists = {key: _list(given.get(key), context.get(key)) for key in _LISTS}
    state = "waiting-for-decision" if session.state in ("created", "running") else session.state
    metadata = overrides.metadata if overrides.metadata is not None else old.get("metadata")
    bare = {k: v for k, v in metadata.items() if k != "contentHash"} if is_object(metadata) else {}
    document: dict[str, Json] = {
        "schemaVersion": 1,
        "commandRunId": session.command_run_id,
        "sourceCommand": session.source_command,
        "changeId": session.change_id,
        "state": state,
        "lastCompletedStep": _first(
            overrides.last_completed_step, session.last_completed_step, old.get("lastCompletedStep")
        ),
        "nextStep": _first(overrides.next_step, session.next_step, old.get("nextStep"), "resume-command"),
        "answeredDecisionIds": list(session.answered_decision_ids),
        "consumedDecisionIds": list(session.consumed_decision_ids),
        "requiredArtifacts": _list(overrides.required_artifacts, old.get("requiredArtifacts")),
        "contextCapsule": {
            "intent": _first(overrides.intent, context.get("intent"), f"Resume {session.source_command}{where}."),
            "approvedScope": lists["approvedScope"],
            "selectedPath": _first(overrides.selected_path, context.get("selectedPath")),
            "constraints": lists["constraints"],
            "assumptions": lists["assumptions"],
            "openRisks": lists["openRisks"],
            "confidenceCaps": lists["confidenceCaps"],
            "forbiddenActions": lists["forbiddenActions"],
        },
        "confidence": _first(old.get("confidence"), "MEDIUM"),
        "knowledgeType": _first(old.get("knowledgeType"), "INFERENCE"),
        "createdAt": _first(old.get("createdAt"), now),
        "updatedAt": now,
        "metadata": bare,
    }
    return Capsule({**document, "metadata": {**bare, "contentHash": content_hash(document)}})


def following(capsule: Capsule, session: Session, now: str) -> Capsule | None:
    """The capsule after its session moved on, ``None`` when nothing in it changes."""
    moved = built(session, now, NOTHING, capsule)
    same = all(
        moved.document.get(key) == capsule.document.get(key)
        for key in ("state", "answeredDecisionIds", "consumedDecisionIds", "nextStep", "lastCompletedStep")
    )
    return None if same else moved


def _first(*values: Json) -> Json:
    return next((value for value in values if value is not None), None)


def _list(given: Sequence[str] | None, before: Json) -> list[Json]:
    if given is not None:
        return list(given)
    return list(before) if is_array(before) else []
