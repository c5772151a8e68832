"""A session: one run of a command, from begin to its end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from chaoscore.domain.interaction import fields, states
from chaoscore.domain.interaction.names import command_token, session_path
from chaoscore.domain.json import Json, JsonObject

_KEYS = (
    "schemaVersion", "commandRunId", "sourceCommand", "changeId", "adapter", "state", "requestedMode",
    "activeDecisionIds", "answeredDecisionIds", "consumedDecisionIds", "lastCompletedStep", "nextStep", "lockIds",
    "resumeCapsulePath", "createdAt", "lastSeenAt", "expiresAt", "metadata",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Session:
    """Instants are the texts that stand in the file."""

    command_run_id: str
    source_command: str
    change_id: str | None
    adapter: str
    state: str
    created_at: str
    last_seen_at: str
    requested_mode: str | None = None
    active_decision_ids: tuple[str, ...] = ()
    answered_decision_ids: tuple[str, ...] = ()
    consumed_decision_ids: tuple[str, ...] = ()
    last_completed_step: str | None = None
    next_step: str | None = None
    lock_ids: tuple[str, ...] = ()
    resume_capsule_path: str | None = None
    expires_at: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> Session:
        """Raises ``fields.WrongShape``."""
        document = fields.required_object(value, "a session")
        return cls(
            command_run_id=fields.text(document, "commandRunId"),
            source_command=fields.text(document, "sourceCommand"),
            change_id=fields.optional_text(document, "changeId"),
            adapter=fields.choice(document, "adapter", states.ADAPTERS),
            state=fields.choice(document, "state", states.SESSION),
            created_at=fields.text(document, "createdAt"),
            last_seen_at=fields.text(document, "lastSeenAt"),
            requested_mode=fields.optional_text(document, "requestedMode"),
            active_decision_ids=fields.texts(document, "activeDecisionIds"),
            answered_decision_ids=fields.texts(document, "answeredDecisionIds"),
            consumed_decision_ids=fields.texts(document, "consumedDecisionIds"),
            last_completed_step=fields.optional_text(document, "lastCompletedStep"),
            next_step=fields.optional_text(document, "nextStep"),
            lock_ids=fields.texts(document, "lockIds"),
            resume_capsule_path=fields.optional_text(document, "resumeCapsulePath"),
            expires_at=fields.optional_text(document, "expiresAt"),
            metadata=fields.mapping(document, "metadata"),
            extra=fields.rest(document, _KEYS),
        )

    def to_json(self) -> dict[str, Json]:
        return {
            "schemaVersion": 1,
            "commandRunId": self.command_run_id,
            "sourceCommand": self.source_command,
            "changeId": self.change_id,
            "adapter": self.adapter,
            "state": self.state,
            "requestedMode": self.requested_mode,
            "activeDecisionIds": list(self.active_decision_ids),
            "answeredDecisionIds": list(self.answered_decision_ids),
            "consumedDecisionIds": list(self.consumed_decision_ids),
            "lastCompletedStep": self.last_completed_step,
            "nextStep": self.next_step,
            "lockIds": list(self.lock_ids),
            "resumeCapsulePath": self.resume_capsule_path,
            "createdAt": self.created_at,
            "lastSeenAt": self.last_seen_at,
            "expiresAt": self.expires_at,
            "metadata": dict(self.metadata),
            **self.extra,
        }

    def summary(self) -> dict[str, Json]:
        """What lists show of a session."""
        full = self.to_json()
        keys = (
            "commandRunId", "sourceCommand", "changeId", "adapter", "state", "requestedMode", "activeDecisionIds",
            "answeredDecisionIds", "consumedDecisionIds", "lockIds", "lastCompletedStep", "nextStep",
            "resumeCapsulePath", "createdAt", "lastSeenAt",
        )  # fmt: skip
        return {**{key: full[key] for key in keys}, "sessionPath": session_path(self.command_run_id)}

    @property
    def is_terminal(self) -> bool:
        return self.state in states.SESSION_TERMINAL

    @property
    def command(self) -> str:
        """The command as it is compared."""
        return command_token(self.source_command)

    def can_become(self, state: str) -> bool:
        return states.allows(states.SESSION, self.state, state)

    def becoming(self, state: str, now: str) -> Session:
        """Raises ``IllegalTransition``."""
        states.require(states.SESSION, "session", self.command_run_id, self.state, state)
        return replace(self, state=state, last_seen_at=now)

    def resumed(self, now: str) -> Session:
        """ready-to-resume → resumed → running, as one write."""
        return self.becoming("resumed", now).becoming("running", now)

    def asking(self, decision: str, lock: str | None, now: str) -> Session:
        """The session waits for one more decision."""
        waiting = self.becoming("waiting-for-decision", now)
        return replace(
            waiting,
            active_decision_ids=_with(self.active_decision_ids, decision),
            lock_ids=_with(self.lock_ids, lock) if lock is not None else self.lock_ids,
        )

    def without_active(self, decision: str, now: str) -> Session:
        return replace(self, active_decision_ids=_without(self.active_decision_ids, decision), last_seen_at=now)

    def answered(self, decision: str, now: str) -> Session:
        """The id moves to the answered ones; the state is the caller's business."""
        return replace(
            self,
            active_decision_ids=_without(self.active_decision_ids, decision),
            answered_decision_ids=_with(self.answered_decision_ids, decision),
            last_seen_at=now,
        )

    def consumed(self, decision: str, now: str) -> Session:
        return replace(
            self,
            answered_decision_ids=_without(self.answered_decision_ids, decision),
            consumed_decision_ids=_with(self.consumed_decision_ids, decision),
            last_seen_at=now,
        )


def _with(ids: tuple[str, ...], name: str) -> tuple[str, ...]:
    return ids if name in ids else (*ids, name)


def _without(ids: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(other for other in ids if other != name)
