"""One operation's view of the folder: documents read once, writes buffered and seen by later reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from chaoscore.adapters.files.interaction import facts as f
from chaoscore.adapters.files.interaction.commit import Move, Put, Step
from chaoscore.adapters.files.interaction.encoding import pretty
from chaoscore.adapters.files.interaction.folder import TABLE_BYTES_MAX, Folder, malformed
from chaoscore.adapters.files.interaction.lock_cache import LockCache
from chaoscore.adapters.files.interaction.schemas import Schemas
from chaoscore.app.interaction_ports import DocumentKind, SessionFilter, SessionPage
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction import names
from chaoscore.domain.interaction.capsule import Capsule
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.derived import NO_ACTIVE, active_pointer
from chaoscore.domain.interaction.errors import MalformedState, TooLarge
from chaoscore.domain.interaction.event import Event
from chaoscore.domain.interaction.fields import WrongShape
from chaoscore.domain.interaction.lock import Lock, LockTable
from chaoscore.domain.interaction.response import Response
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.interaction.states import UNFINISHED_SESSIONS
from chaoscore.domain.json import Json, JsonObject, is_object

Document = Session | Decision | Response | Capsule | LockTable
T = TypeVar("T", Session, Decision, Response, Capsule)
_CHANGING = ("updatedAt", "metadata")
_PATHS: dict[DocumentKind, Callable[[str], str]] = {
    "session": names.session_path,
    "decision": names.decision_path,
    "response": names.response_path,
    "capsule": names.capsule_path,
    "active": lambda _: names.ACTIVE_PATH,
}


@dataclass(frozen=True, slots=True)
class Written:
    """A buffered write, already valid. ``value`` is what reads of the unit see from now on."""

    relative: str
    value: Document
    data: bytes
    exclusive: bool


@dataclass(slots=True)
class Buffer:
    """What the operation wants written, in order."""

    entries: list[Written | Move | Event] = field(default_factory=list)

    def steps(self) -> list[Step]:
        """Each file once, at the place of its first write, with its last content."""
        out: dict[str, Step] = {}
        for entry in self.entries:
            if isinstance(entry, Written):
                first = out.get(entry.relative)
                exclusive = first.exclusive if isinstance(first, Put) else entry.exclusive
                out[entry.relative] = Put(entry.relative, entry.data, exclusive)
            elif isinstance(entry, Move):
                out[f"move {entry.source}"] = entry
        return list(out.values())

    def events(self) -> list[Event]:
        return [entry for entry in self.entries if isinstance(entry, Event)]

    def documents(self) -> dict[str, Written]:
        return {entry.relative: entry for entry in self.entries if isinstance(entry, Written)}


class FileUnit:
    """Implements ``InteractionUnit``.

    The catalog is caught up with what was done without a sign when the unit lists for the first time. One that names
    the documents it works on is spared that: it costs a look at each unfinished document.
    """

    def __init__(
        self,
        folder: Folder,
        catalog: f.Catalog,
        locks: LockCache,
        schemas: Schemas,
        repository: str,
        now_ms: int,
        hex_digits: Callable[[int], str],
        document_bytes_max: int,
    ) -> None:
        self._folder = folder
        self._catalog = catalog
        self._locks = locks
        self._schemas = schemas
        self._repository = repository
        self._hex = hex_digits
        self._bytes_max = document_bytes_max
        self._read: dict[str, Document | MalformedState | None] = {}
        self._moved: set[str] = set()
        self._over: dict[str, Document] = {}
        self.buffer = Buffer()
        self.now_ms = now_ms
        self.now = names.instant_text(now_ms)
        self.warnings: list[str] = []
        self._listed: set[f.Kind] = set()
        self._is_caught_up = False
        self._has_looked = False
        self.archived: list[Lock] = []
        """Locks that the table written by this unit no longer holds."""

    def catch_up(self) -> None:
        """Let the catalog notice what left a sign, once per unit."""
        if not self._is_caught_up:
            self._is_caught_up = True
            self._catalog.refresh()

    def hex(self, digits: int) -> str:
        return self._hex(digits)

    # ------------------------------------------------------------------------------------- reading

    def session(self, run: str) -> Session | None:
        return self._one(Session, names.session_path(run), run, f.parse_session)

    def decision(self, decision: str) -> Decision | None:
        return self._one(Decision, names.decision_path(decision), decision, f.parse_decision)

    def response(self, decision: str) -> Response | None:
        return self._one(Response, names.response_path(decision), decision, lambda _, v: Response.from_json(v))

    def capsule(self, run: str) -> Capsule | None:
        return self._one(Capsule, names.capsule_path(run), run, f.parse_capsule)

    def locks(self) -> LockTable:
        over = self._over.get(names.LOCKS_PATH)
        if isinstance(over, LockTable):
            return over
        known = self._read.get(names.LOCKS_PATH)
        if isinstance(known, MalformedState):
            raise known
        if isinstance(known, LockTable):
            return known
        try:
            table = self._locks.table()
        except MalformedState as error:
            self._read[names.LOCKS_PATH] = error
            raise
        self._read[names.LOCKS_PATH] = table
        return table

    def locks_before(self) -> LockTable:
        """The table as it was read, without the unit's own writes."""
        known = self._read.get(names.LOCKS_PATH)
        return known if isinstance(known, LockTable) else LockTable()

    def document(self, kind: DocumentKind, name: str) -> Json | None:
        relative = _PATHS[kind](name)
        over = self._over.get(relative)
        if over is not None:
            return over.to_json()
        return self._folder.load(relative)

    def has_decision(self, decision: str) -> bool:
        relative = names.decision_path(decision)
        return relative in self._over or self._folder.stat(relative) is not None

    def has_response(self, decision: str) -> bool:
        relative = names.response_path(decision)
        return relative in self._over or (relative not in self._moved and self._folder.stat(relative) is not None)

    def unfinished_sessions(self) -> tuple[Session, ...]:
        self._note_listed("sessions")
        mine = {value.command_run_id for value in self._over.values() if isinstance(value, Session)}
        runs = sorted({*self._catalog.unfinished_runs(), *mine}, key=f.session_order)
        return tuple(s for s in self._listed_all(runs, self.session) if s.state in UNFINISHED_SESSIONS)

    def unfinished_runs(self) -> tuple[str, ...]:
        self._note_listed("sessions")
        mine = {value.command_run_id: value.is_terminal for value in self._over.values() if isinstance(value, Session)}
        theirs = [run for run in self._catalog.unfinished_runs() if run not in mine]
        ours = [run for run, is_terminal in mine.items() if not is_terminal]
        return tuple(sorted([*theirs, *ours], key=f.session_order))

    def waiting_decisions(self) -> tuple[Decision, ...]:
        self._note_listed("decisions")
        mine = {value.decision_id for value in self._over.values() if isinstance(value, Decision)}
        found = sorted({*self._catalog.waiting_decisions(), *mine}, key=f.decision_order)
        return tuple(d for d in self._listed_all(found, self.decision) if d.state == "waiting")

    def decisions_of(self, run: str) -> tuple[Decision, ...]:
        self._note_listed("decisions")
        mine = {value.decision_id for value in self._over.values() if isinstance(value, Decision)}
        found = sorted({*self._catalog.decisions_of(run), *mine}, key=f.decision_order)
        return tuple(d for d in self._listed_all(found, self.decision) if d.command_run_id == run)

    def find_sessions(self, wanted: SessionFilter, limit: int, cursor: str | None) -> SessionPage:
        self._note_listed("sessions")
        found = self._catalog.find_sessions(wanted, limit, cursor)
        runs = sorted(found.runs, key=f.session_order)
        return SessionPage(tuple(self._listed_all(runs, self.session)), found.total, found.next)

    def find_capsules(self, change_id: str | None, limit: int) -> tuple[Capsule, ...]:
        self._note_listed("capsules")
        mine = [value for value in self._over.values() if isinstance(value, Capsule)]
        found = dict.fromkeys([*self._catalog.find_capsules(change_id, limit), *(capsule.run for capsule in mine)])
        read = [c for c in self._listed_all(list(found), self.capsule) if not change_id or c.change_id == change_id]
        read.sort(key=lambda capsule: (capsule.updated_at, f.session_order(capsule.run)), reverse=True)
        return tuple(read[:limit])

    def artifact_exists(self, path: str) -> bool:
        base = os.path.realpath(self._repository)
        try:
            real = os.path.realpath(os.path.join(base, path))
            return (real == base or real.startswith(base.rstrip("/") + "/")) and os.path.exists(real)
        except (OSError, ValueError):
            return False

    def _one(self, kind: type[T], relative: str, name: str, parse: Callable[[str, Json], T]) -> T | None:
        over = self._over.get(relative)
        if isinstance(over, kind):
            return over
        if relative in self._moved:
            return None
        if relative not in self._read:
            self._read[relative] = self._load(relative, name, parse)
        known = self._read[relative]
        if isinstance(known, MalformedState):
            raise known
        return known if isinstance(known, kind) else None

    def _load(self, relative: str, name: str, parse: Callable[[str, Json], T]) -> T | MalformedState | None:
        try:
            value = self._folder.load(relative)
            # A file holding ``null`` is skipped by every peer; an empty object is a document that says nothing.
            return None if value is None else parse(name, value)
        except WrongShape as error:
            return malformed(relative, str(error))
        except MalformedState as error:
            return error

    def _listed_all(self, found: Sequence[str], read: Callable[[str], T | None]) -> list[T]:
        out = []
        for name in found:
            try:
                document = read(name)
            except MalformedState as error:
                self.warnings.append(error.message)
                continue
            if document is not None:
                out.append(document)
        return out

    def _note_listed(self, kind: f.Kind) -> None:
        self.catch_up()
        if not self._has_looked:
            self._has_looked = True
            self._catalog.refresh_unfinished()
        if kind not in self._listed:
            self._listed.add(kind)
            self.warnings.extend(self._catalog.warnings(kind))

    # ------------------------------------------------------------------------------------- writing

    def put_session(self, session: Session, new: bool = False) -> None:
        self._put("session", names.session_path(session.command_run_id), session, session.command_run_id, new)

    def put_decision(self, decision: Decision, new: bool = False) -> None:
        self._put("decision", names.decision_path(decision.decision_id), decision, decision.decision_id, new)

    def put_response(self, response: Response) -> None:
        self._put("response", names.response_path(response.decision_id), response, response.decision_id, True)

    def put_capsule(self, capsule: Capsule) -> None:
        self._put("resume-capsule", names.capsule_path(capsule.run), capsule, capsule.run, False)

    def put_locks(self, table: LockTable) -> None:
        before = {lock.lock_id: lock for lock in self.locks_before().locks}
        for lock in table.locks:
            other = before.get(lock.lock_id)
            if other is not lock and other != lock:
                self._schemas.require("lock", f"lock {lock.lock_id}", lock.to_json())
        self._buffer(names.LOCKS_PATH, table, False)

    def set_response_aside(self, decision: str) -> None:
        relative = names.response_path(decision)
        self.buffer.entries.append(Move(relative, f"archive/{decision}.{self.now_ms}.response.json"))
        self._moved.add(relative)

    def record(self, event: Event) -> None:
        self.buffer.entries.append(event)

    @property
    def is_dirty(self) -> bool:
        """Also when ``active.json`` does not say what is: a writer died before it came to that."""
        return bool(self.buffer.entries) or not self.pointer_stands()

    def pointer(self) -> dict[str, Json]:
        """What ``active.json`` must say: by the catalog, and by the documents that this unit has read or put."""
        self.catch_up()
        pending, ready = dict.fromkeys(self._catalog.pending_decisions()), dict.fromkeys(self._catalog.ready_runs())
        is_new = False
        for relative, value in (*self._read.items(), *self._over.items()):
            directory, _, name = relative.removesuffix("/decision.json").removesuffix(".json").partition("/")
            found, state = (pending, "waiting") if directory == "decisions" else (ready, "ready-to-resume")
            if directory == "sessions" or relative.endswith("/decision.json"):
                if isinstance(value, Decision | Session) and value.state == state:
                    is_new = is_new or name not in found
                    found[name] = None
                else:
                    found.pop(name, None)
        waiting = sorted(pending, key=f.decision_order) if is_new else list(pending)
        runs = sorted(ready, key=f.session_order) if is_new else list(ready)
        while waiting and self._waiting(waiting[0]) is None:
            del waiting[0]
        first = self._waiting(waiting[0]) if waiting else None
        return {**active_pointer([first] if first else [], runs, self.now), "pendingDecisionIds": [*waiting]}

    def _waiting(self, name: str) -> Decision | None:
        """Read from its file, as whatever is used."""
        try:
            decision = self.decision(name)
        except MalformedState:
            return None
        return decision if decision is not None and decision.state == "waiting" else None

    def pointer_stands(self, wanted: dict[str, Json] | None = None) -> bool:
        """Whether ``active.json`` says it; a peer's metadata in it stays, and none at all says that nothing waits."""
        wanted = wanted or self.pointer()
        try:
            there = self._folder.load(names.ACTIVE_PATH, TABLE_BYTES_MAX)
        except ChaosError:
            return False
        if there is None:
            there = NO_ACTIVE
        return is_object(there) and all(there.get(k) == v for k, v in wanted.items() if k not in _CHANGING)

    def savepoint(self) -> int:
        return len(self.buffer.entries)

    def rollback(self, savepoint: int) -> None:
        del self.buffer.entries[savepoint:]
        self._over = {relative: written.value for relative, written in self.buffer.documents().items()}
        self._moved = {entry.source for entry in self.buffer.entries if isinstance(entry, Move)}

    def settled(self, failed: Collection[str] = ()) -> None:
        """The buffer was written: what was buffered is what stands in the files, but for those that ``failed``."""
        self._read.update(self._over)
        for relative in failed:
            self._read.pop(relative, None)
        self._over.clear()
        self._moved.clear()
        self.buffer = Buffer()

    def _put(self, kind: str, relative: str, value: Document, name: str, new: bool) -> None:
        document = value.to_json()
        self._schemas.require(kind, f"{kind} {name}", document)
        self._buffer(relative, value, new, document)

    def _buffer(self, relative: str, value: Document, exclusive: bool, document: JsonObject | None = None) -> None:
        try:
            data = self._locks.spelled(value) if isinstance(value, LockTable) else pretty(document or value.to_json())
        except (RecursionError, ValueError):
            raise ChaosError(f"{relative} is nested too deeply to be written", code="VALIDATION_ERROR") from None
        if relative != names.LOCKS_PATH and len(data) > self._bytes_max:
            raise TooLarge(f"{relative} would have {len(data)} bytes, more than the {self._bytes_max} allowed")
        self.buffer.entries.append(Written(relative, value, data, exclusive))
        self._over[relative] = value
