"""Change locks: who holds a change while a human decides about it, and the one file they all stand in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from chaoscore.domain.interaction import fields, states
from chaoscore.domain.interaction.names import EPOCH_TEXT, command_token
from chaoscore.domain.json import Json, JsonObject, is_array

_KEYS = (
    "schemaVersion", "lockId", "changeId", "lockedByCommandRunId", "lockedByCommand", "reason", "state",
    "blockingDecisionIds", "compatibleCommands", "createdAt", "expiresAt", "releasedAt", "metadata",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lock:
    lock_id: str
    change_id: str
    run: str
    command: str
    reason: str
    state: str
    created_at: str
    blocking_decision_ids: tuple[str, ...] = ()
    compatible_commands: tuple[str, ...] = states.COMPATIBLE_COMMANDS
    expires_at: str | None = None
    released_at: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> Lock:
        """Raises ``fields.WrongShape``."""
        document = fields.required_object(value, "a lock")
        return cls(
            lock_id=fields.text(document, "lockId"),
            change_id=fields.text(document, "changeId"),
            run=fields.text(document, "lockedByCommandRunId"),
            command=fields.text(document, "lockedByCommand"),
            reason=fields.choice(document, "reason", states.LOCK_REASONS),
            state=fields.choice(document, "state", states.LOCK),
            created_at=fields.text(document, "createdAt"),
            blocking_decision_ids=fields.texts(document, "blockingDecisionIds"),
            compatible_commands=fields.texts(document, "compatibleCommands"),
            expires_at=fields.optional_text(document, "expiresAt"),
            released_at=fields.optional_text(document, "releasedAt"),
            metadata=fields.mapping(document, "metadata"),
            extra=fields.rest(document, _KEYS),
        )

    def to_json(self) -> dict[str, Json]:
        return {
            "schemaVersion": 1,
            "lockId": self.lock_id,
            "changeId": self.change_id,
            "lockedByCommandRunId": self.run,
            "lockedByCommand": self.command,
            "reason": self.reason,
            "state": self.state,
            "blockingDecisionIds": list(self.blocking_decision_ids),
            "compatibleCommands": list(self.compatible_commands),
            "createdAt": self.created_at,
            "expiresAt": self.expires_at,
            "releasedAt": self.released_at,
            "metadata": dict(self.metadata),
            **self.extra,
        }

    @property
    def is_active(self) -> bool:
        return self.state == "active"

    def admits(self, command: str) -> bool:
        """Whether ``command`` may begin on the change while this lock stands."""
        return command_token(command) in {command_token(other) for other in self.compatible_commands}

    def blocking(self, decision: str, instead_of: str | None = None) -> Lock:
        ids = tuple(other for other in self.blocking_decision_ids if other != instead_of)
        named = ids if decision in ids else (*ids, decision)
        return replace(self, blocking_decision_ids=named, reason="waiting-for-user-decision")

    def released(self, now: str, state: str = "released") -> Lock:
        states.require(states.LOCK, "lock", self.lock_id, self.state, state)
        return replace(self, state=state, released_at=now)


@dataclass(frozen=True, slots=True)
class LockTable:
    """All locks in file order. A table that is not understood is never treated as empty."""

    locks: tuple[Lock, ...] = ()
    updated_at: str = EPOCH_TEXT
    extra: JsonObject = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> LockTable:
        document = fields.required_object(value, "the lock table")
        raw = document.get("locks")
        if not is_array(raw):
            raise fields.WrongShape("'locks' must be a list")
        updated = fields.optional_text(document, "updatedAt") or EPOCH_TEXT
        known = ("schemaVersion", "locks", "updatedAt")
        return cls(tuple(Lock.from_json(item) for item in raw), updated, fields.rest(document, known))

    def to_json(self) -> dict[str, Json]:
        return {
            "schemaVersion": 1,
            "locks": [lock.to_json() for lock in self.locks],
            "updatedAt": self.updated_at,
            **self.extra,
        }

    @property
    def active(self) -> tuple[Lock, ...]:
        return tuple(lock for lock in self.locks if lock.is_active)

    def on_change(self, change: str | None) -> tuple[Lock, ...]:
        """Active locks on the change, first made first. A peer may have made more than one."""
        return tuple(lock for lock in self.active if change and lock.change_id == change)

    def of_run(self, run: str) -> tuple[Lock, ...]:
        return tuple(lock for lock in self.active if lock.run == run)

    def names_decision(self, decision: str) -> bool:
        """In any state: a lock that a human released is not made again."""
        return any(decision in lock.blocking_decision_ids for lock in self.locks)

    def put(self, lock: Lock, now: str) -> LockTable:
        known = any(other.lock_id == lock.lock_id for other in self.locks)
        locks = (
            tuple(lock if other.lock_id == lock.lock_id else other for other in self.locks)
            if known
            else (*self.locks, lock)
        )
        return replace(self, locks=locks, updated_at=now)

    def release(self, run: str, now: str) -> tuple[LockTable, tuple[Lock, ...]]:
        """Release every active lock of the run; which ones they were, as they were."""
        mine = self.of_run(run)
        table = self
        for lock in mine:
            table = table.put(lock.released(now), now)
        return table, mine

    def ready(self, run: str, now: str) -> LockTable:
        """The first active lock of the run waits for the run to go on."""
        mine = self.of_run(run)
        if not mine or mine[0].reason == "ready-to-resume":
            return self
        return self.put(replace(mine[0], reason="ready-to-resume"), now)

    def without(self, gone: Iterable[Lock], now: str) -> LockTable:
        names = {lock.lock_id for lock in gone}
        kept = tuple(lock for lock in self.locks if lock.lock_id not in names)
        return replace(self, locks=kept, updated_at=now)


def stale_reason(
    lock: Lock, session_state: Callable[[str], str | None], decision_exists: Callable[[str], bool]
) -> str | None:
    """Why an active lock holds nothing any more; ``None`` when it does, or when it is not active."""
    if not lock.is_active:
        return None
    state = session_state(lock.run)
    if state is None:
        return f"the session {lock.run!r} that holds it is missing"
    if state in states.SESSION_TERMINAL:
        return f"the session {lock.run!r} that holds it is {state}"
    missing = next((name for name in lock.blocking_decision_ids if not decision_exists(name)), None)
    return f"the decision {missing!r} it waits for is missing" if missing is not None else None
