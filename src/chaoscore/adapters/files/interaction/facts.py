"""What the catalog knows of a document: enough to find candidates, never enough to act on.

Every document that is used is read from its own file; facts that are out of date cost a read, not a wrong answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from chaoscore.adapters.files.interaction.fileops import Stat
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.interaction import fields
from chaoscore.domain.interaction.capsule import Capsule
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json


@dataclass(frozen=True, slots=True)
class Version:
    """Which version of a file the facts come from."""

    inode: int
    size: int
    mtime: int

    @classmethod
    def of(cls, stat: Stat) -> Version:
        return cls(stat.inode, stat.size, stat.mtime)


@dataclass(frozen=True, slots=True)
class SessionFacts:
    run: str
    state: str
    change_id: str | None
    source_command: str
    command: str
    last_seen_at: str


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    decision: str
    state: str
    run: str
    change_id: str | None


@dataclass(frozen=True, slots=True)
class CapsuleFacts:
    run: str
    change_id: str | None
    updated_at: str


Kind = Literal["sessions", "decisions", "capsules"]
Facts = SessionFacts | DecisionFacts | CapsuleFacts


def session_facts(session: Session) -> SessionFacts:
    return SessionFacts(
        session.command_run_id, session.state, session.change_id, session.source_command, session.command,
        session.last_seen_at,
    )  # fmt: skip


def decision_facts(decision: Decision) -> DecisionFacts:
    return DecisionFacts(decision.decision_id, decision.state, decision.command_run_id, decision.change_id)


def capsule_facts(capsule: Capsule) -> CapsuleFacts:
    return CapsuleFacts(capsule.run, capsule.change_id, capsule.updated_at)


def parse_session(name: str, value: Json) -> Session:
    """Raises ``fields.WrongShape``, also when the document names another run than its file."""
    session = Session.from_json(value)
    if session.command_run_id != name:
        raise fields.WrongShape("'commandRunId' differs from the file's name")
    return session


def parse_decision(name: str, value: Json) -> Decision:
    decision = Decision.from_json(value)
    if decision.decision_id != name:
        raise fields.WrongShape("'decisionId' differs from the folder's name")
    return decision


def parse_capsule(name: str, value: Json) -> Capsule:
    capsule = Capsule.from_json(value)
    if capsule.run != name:
        raise fields.WrongShape("'commandRunId' differs from the file's name")
    return capsule


def session_order(run: str) -> bytes:
    """Enumeration order of sessions and capsules: by file name, byte-wise."""
    return f"{run}.json".encode("utf-8", "surrogateescape")


def decision_order(decision: str) -> bytes:
    return decision.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Found:
    """One page of runs, newest first."""

    runs: tuple[str, ...]
    total: int
    next: str | None


def cursor_of(last_seen_at: str, run: str) -> str:
    return f"{last_seen_at}~{run}"


def cursor_parts(cursor: str) -> tuple[str, str]:
    """Raises ``InvalidInput``."""
    seen, tilde, run = cursor.partition("~")
    if not tilde or not run or len(cursor) > 400:
        raise InvalidInput(f"cursor: {cursor[:80]!r} is none of ours; use the value of 'next'", key="cursor")
    return seen, run


class Catalog(Protocol):
    """Candidates, always caught up with the folder by ``refresh``."""

    def prepare(self) -> None:
        """What must be done once and takes long; called without the write lock."""
        ...

    def refresh(self) -> None:
        """Notice what anybody changed who left a sign of it."""
        ...

    def refresh_unfinished(self) -> None:
        """Notice also what was done to unfinished documents without a sign: each of them is looked at."""
        ...

    def warnings(self, kind: Kind) -> Sequence[str]:
        """Sentences naming the files of a kind that cannot be understood."""
        ...

    def unfinished_runs(self) -> Sequence[str]: ...

    def unsettled_runs(self) -> Sequence[str]:
        """Unfinished, or not understood. In no order."""
        ...

    def waiting_decisions(self) -> Sequence[str]: ...

    def pending_decisions(self) -> Sequence[str]:
        """Those in the state ``waiting``, in enumeration order; no document need be read for it."""
        ...

    def ready_runs(self) -> Sequence[str]:
        """Those in the state ``ready-to-resume``, in enumeration order."""
        ...

    def decisions_of(self, run: str) -> Sequence[str]: ...

    def find_sessions(self, wanted: SessionFilter, limit: int, cursor: str | None) -> Found: ...

    def find_capsules(self, change_id: str | None, limit: int) -> Sequence[str]:
        """Newest first; equal instants in reverse enumeration order."""
        ...

    def contents(self, entries_max: int) -> tuple[Sequence[SessionFacts], Sequence[DecisionFacts]] | None:
        """Everything in enumeration order, ``None`` when it is more than ``entries_max``."""
        ...

    def wrote(self, facts: Facts, version: Version | None) -> None:
        """Our own write, known without looking."""
        ...

    def settle(self, appended_bytes: int) -> None:
        """The writes reported by ``wrote`` are done, with so many bytes of audit lines."""
        ...

    def doubt(self) -> None:
        """A process died while it wrote: look at everything once."""
        ...

    def close(self) -> None: ...
