"""What the decision runtime needs from a store: units of work over sessions, decisions, responses, capsules, locks.

``app.interactions`` stands above; the folder of JSON files (``adapters.files.interaction``) is the first adapter. Every
adapter must pass ``chaoscore.testing.interaction_store``. A unit is plain synchronous code that the store runs outside
the event loop, so that an operation reads as one page and never interleaves with another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from chaoscore.domain.interaction.capsule import Capsule
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.event import Event
from chaoscore.domain.interaction.lock import LockTable
from chaoscore.domain.interaction.response import Response
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json

T = TypeVar("T")
DocumentKind = Literal["session", "decision", "response", "capsule", "active"]


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """``None`` means any. ``command`` is compared by its first word."""

    change_id: str | None = None
    state: str | None = None
    command: str | None = None
    ready_only: bool = False


@dataclass(frozen=True, slots=True)
class SessionPage:
    """``sessions`` of one page in enumeration order (by file name); pages go from the newest to the oldest.

    ``total`` counts all that match, ``next`` is the cursor of the following page.
    """

    sessions: tuple[Session, ...]
    total: int
    next: str | None


class InteractionUnit(Protocol):
    """Reads and buffered writes of one operation; reads see the unit's own writes.

    Direct reads raise ``MalformedState`` for a file that is there and cannot be understood; lists skip such a file and
    name it in ``warnings``. ``put_*`` raise ``SchemaViolation`` and ``TooLarge`` at once, before anything is written.
    Writes happen in the order of the calls, after the work returned; the first one decides whether the operation
    happened.
    """

    now: str
    now_ms: int
    warnings: list[str]

    def hex(self, digits: int) -> str:
        """Lower-case hex randomness."""
        ...

    def session(self, run: str) -> Session | None: ...

    def decision(self, decision: str) -> Decision | None: ...

    def response(self, decision: str) -> Response | None: ...

    def capsule(self, run: str) -> Capsule | None: ...

    def locks(self) -> LockTable: ...

    def document(self, kind: DocumentKind, name: str) -> Json | None:
        """The stored document as it stands, for showing."""
        ...

    def unfinished_sessions(self) -> tuple[Session, ...]:
        """In enumeration order."""
        ...

    def waiting_decisions(self) -> tuple[Decision, ...]:
        """In enumeration order, of whatever session."""
        ...

    def decisions_of(self, run: str) -> tuple[Decision, ...]:
        """All of the run, in enumeration order."""
        ...

    def unfinished_runs(self) -> tuple[str, ...]:
        """Of ``unfinished_sessions``, by what is known of them: no document need be read for it."""
        ...

    def has_decision(self, decision: str) -> bool:
        """Whether something stands where the decision belongs, readable or not."""
        ...

    def has_response(self, decision: str) -> bool:
        """Whether something stands where the response belongs, readable or not."""
        ...

    def find_sessions(self, wanted: SessionFilter, limit: int, cursor: str | None) -> SessionPage:
        """Raises ``InvalidInput`` for a cursor that is not ours."""
        ...

    def find_capsules(self, change_id: str | None, limit: int) -> tuple[Capsule, ...]:
        """Newest ``updatedAt`` first; equal ones in reverse enumeration order."""
        ...

    def artifact_exists(self, path: str) -> bool:
        """Whether a repository-relative path leads to something inside the repository."""
        ...

    def put_session(self, session: Session, new: bool = False) -> None:
        """``new`` creates exclusively: an id that is taken is never written over."""
        ...

    def put_decision(self, decision: Decision, new: bool = False) -> None: ...

    def put_response(self, response: Response) -> None:
        """Created exclusively; durable before the decision that it answers is written."""
        ...

    def put_capsule(self, capsule: Capsule) -> None: ...

    def put_locks(self, table: LockTable) -> None: ...

    def set_response_aside(self, decision: str) -> None:
        """Move what stands where the response belongs into the archive; nothing is deleted."""
        ...

    def record(self, event: Event) -> None:
        """An audit line, appended after the documents. One that cannot be written becomes a warning."""
        ...

    @property
    def is_dirty(self) -> bool:
        """Whether anything would be written."""
        ...

    def savepoint(self) -> int: ...

    def rollback(self, savepoint: int) -> None:
        """Forget the writes and events since the savepoint."""
        ...


Work = Callable[[InteractionUnit], T]


class InteractionStore(Protocol):
    async def read(self, work: Work[T]) -> T:
        """Run ``work`` without any lock; whatever it puts is seen by it and then forgotten. Creates nothing."""
        ...

    async def change(self, work: Work[T], before: Work[None] | None = None) -> T:
        """Run ``work`` under the write lock and write what it put; calls take effect in order of arrival.

        ``before`` runs first under the same lock and is written on its own: it stands even when ``work`` refuses.
        ``work`` may run more than once and must have no other effect. Raises ``RuntimeBusy`` when the lock cannot be
        had, ``StorageError`` (NO_SPACE, READ_ONLY, PERMISSION, IO_ERROR) when nothing happened.
        """
        ...

    async def change_token(self) -> str:
        """Differs whenever anybody changed the store; cheap enough to be asked every second."""
        ...

    async def health(self) -> tuple[str, ...]:
        """Standing restrictions of this folder (no hard links, no flock, read-only, …), as sentences."""
        ...

    async def close(self) -> None: ...
