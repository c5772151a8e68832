"""From a unit's buffer to the disk: documents, derived files, audit lines, in an order that crashes can heal from.

Runs under the write lock. Before the first file is moved into place and after the last, the lock is looked at: a peer
may have taken it away, and then the work starts over, or what the peer overwrote is applied again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from chaoscore.adapters.files.interaction import audit_log, schemas
from chaoscore.adapters.files.interaction import facts as f
from chaoscore.adapters.files.interaction.commit import Commit, Put, Step
from chaoscore.adapters.files.interaction.encoding import pretty
from chaoscore.adapters.files.interaction.fileops import close_quietly, storage_error
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.lock_cache import LockCache
from chaoscore.adapters.files.interaction.settings import FolderSettings
from chaoscore.adapters.files.interaction.unit import FileUnit, Written
from chaoscore.adapters.files.interaction.write_lock import NAME as LOCK_NAME
from chaoscore.adapters.files.interaction.write_lock import WriteLock
from chaoscore.app.ports import Clock
from chaoscore.domain.errors import ChaosError, StorageError
from chaoscore.domain.interaction import names
from chaoscore.domain.interaction.capsule import Capsule
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.derived import contents, decision_entry, session_entry
from chaoscore.domain.interaction.event import Event
from chaoscore.domain.interaction.lock import LockTable
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json, JsonObject

_ENTRY_BYTES_LEAST = 150
_LATE_ENTRIES_MAX = 50_000
_REAPPLY_SECONDS = 10.0
_UNKNOWN = -1  # how much the audit log grew: whoever looks next reads it again
_REFRESH_SECONDS = 2.0  # peers break a lock that looks 15 seconds old


class LockLost(Exception):
    """A peer took the lock away before anything was written."""


class Writer:
    def __init__(
        self,
        settings: FolderSettings,
        folder: Folder,
        catalog: f.Catalog,
        locks: LockCache,
        rules: schemas.Schemas,
        lock: WriteLock,
        clock: Clock,
        hex_digits: Callable[[int], str],
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._catalog = catalog
        self._locks = locks
        self._schemas = rules
        self._lock = lock
        self._clock = clock
        self._hex = hex_digits
        self._locks_bytes_left = 0
        self._index_lags = False

    def make_root(self) -> None:
        """Create the folder, durably. Raises ``StorageError``."""
        missing, at = [], os.path.abspath(self._folder.root)
        while not os.path.isdir(at) and at != os.path.dirname(at):
            missing.append(at)
            at = os.path.dirname(at)
        try:
            for directory in reversed(missing):
                try:
                    self._folder.ops.mkdir(directory)
                except FileExistsError:
                    continue
                self._sync_directory(os.path.dirname(directory))
        except OSError as error:
            raise storage_error(error, os.path.basename(self._folder.root)) from error

    def write(self, unit: FileUnit) -> None:
        """Write what the unit put. Raises ``StorageError`` and ``Conflict`` when nothing happened, ``LockLost``."""
        if not unit.buffer.entries:
            self._point_again(unit)
            return
        documents = unit.buffer.documents()
        events = self._lines(unit, unit.buffer.events())
        steps = [*unit.buffer.steps(), *self._derived(unit)]
        self._seed()
        commit = Commit(self._folder, steps, self._temporary)
        commit.prepare()
        try:
            self._settle()
        except LockLost:
            commit.abandon()
            raise
        except OSError as error:
            commit.abandon()
            raise storage_error(error, LOCK_NAME) from error
        commit.apply()
        unit.warnings.extend(commit.warnings)
        answered = any(line.get("eventType") == "decision-answered" for line in events)
        troubles, grown = audit_log.append(self._folder, events, durable=answered)
        unit.warnings.extend(troubles)
        if unit.archived:
            unit.warnings.extend(self._archive(unit))
        failed = commit.failed
        if not self._lock.is_ours():
            failed = failed | self._reapply(unit, steps)
        self._remember([written for written in documents.values() if written.relative not in failed], grown)
        unit.settled(failed)

    def _remember(self, placed: Sequence[Written], grown: int) -> None:
        """What a catalog cannot be told now, although it happened, it finds by looking through the folder."""
        try:
            for written in placed:
                self._tell_catalog(written)
        except ChaosError:
            self._catalog.doubt()
            grown = _UNKNOWN
        try:
            self._catalog.settle(grown)
        except ChaosError:
            self._catalog.doubt()

    def _point_again(self, unit: FileUnit) -> None:
        """``active.json`` alone was wrong: nothing else depends on it, so that failing is a warning."""
        commit = Commit(self._folder, self._derived(unit), self._temporary)
        try:
            commit.prepare()
            commit.apply()
        except StorageError as error:
            unit.warnings.append(f"{names.ACTIVE_PATH} could not be brought up to date: {error.message}")
        unit.warnings.extend(commit.warnings)

    def _settle(self) -> None:
        """Give a peer that judged the lock a moment ago the time to take it away, then look."""
        rest = self._lock.published_at + self._settings.settle_seconds - self._clock.monotonic()
        if rest > 0:
            time.sleep(min(rest, self._settings.settle_seconds))
        if -rest > _REFRESH_SECONDS:
            self._lock.refresh()
        if not self._lock.is_ours():
            raise LockLost

    def _seed(self) -> None:
        absent = schemas.missing(self._settings.schema_dir)
        if absent:
            schemas.seed(self._settings.schema_dir, self._folder.ops, kinds=absent)

    def _lines(self, unit: FileUnit, events: Sequence[Event]) -> list[JsonObject]:
        """Audit lines; one that breaks a schema becomes a warning, never an error for a done thing."""
        out: list[JsonObject] = []
        for event in events:
            stamp = names.instant_text(int(self._clock.now() * 1000))
            line = event.to_json(names.event_id(stamp[:10], self._hex(16)), stamp)
            try:
                self._schemas.require("audit-event", f"audit-event {line['eventId']}", line)
            except ChaosError as error:
                unit.warnings.append(f"an audit line was not written: {error.message}")
                continue
            out.append(line)
        return out

    def _derived(self, unit: FileUnit) -> list[Step]:
        """``active.json`` always; ``index.json`` while it is small."""
        out: list[Step] = []
        pointer = unit.pointer()
        stands = unit.pointer_stands(pointer) and self._folder.stat(names.ACTIVE_PATH) is not None
        if not stands and self._allowed(unit, "active", names.ACTIVE_PATH, pointer):
            out.append(Put(names.ACTIVE_PATH, pretty(pointer), durable=False))
        table = self._contents(unit, self._settings.limits.index_bytes_max // _ENTRY_BYTES_LEAST)
        self._index_lags = table is None or len(table) > self._settings.limits.index_bytes_max
        if table is not None and not self._index_lags:
            out.append(Put(names.INDEX_PATH, table, durable=False))
        return out

    def write_lagging_index(self, unit: FileUnit) -> None:
        """``index.json`` of a large folder, late and outside the lock: nothing needs it to operate. Never raises."""
        table = self._contents(unit, _LATE_ENTRIES_MAX) if self._index_lags else None
        if table is not None:
            commit = Commit(self._folder, [Put(names.INDEX_PATH, table, durable=False)], self._temporary)
            with contextlib.suppress(ChaosError):
                commit.prepare()
                commit.apply()
                self._index_lags = False

    def _allowed(self, unit: FileUnit, kind: str, relative: str, document: JsonObject) -> bool:
        try:
            self._schemas.require(kind, kind, document)
        except ChaosError as error:
            unit.warnings.append(f"{relative} was not written: {error.message}")
            return False
        return True

    def _contents(self, unit: FileUnit, entries_max: int) -> bytes | None:
        """``index.json``, from pieces that are spelled once per state of a document."""
        known = self._catalog.contents(entries_max)
        if known is None:
            return None
        sessions = {facts.run: facts for facts in known[0]}
        decisions = {facts.decision: facts for facts in known[1]}
        for written in unit.buffer.documents().values():
            if isinstance(written.value, Session):
                sessions[written.value.command_run_id] = f.session_facts(written.value)
            elif isinstance(written.value, Decision):
                decisions[written.value.decision_id] = f.decision_facts(written.value)
        runs = sorted(sessions.values(), key=lambda facts: f.session_order(facts.run))
        asked = sorted(decisions.values(), key=lambda facts: f.decision_order(facts.decision))
        if self._schemas.has_own("index"):
            entries = [_session_entry(s) for s in runs], [_decision_entry(d) for d in asked]
            document = contents(*entries, unit.now)
            return pretty(document) if self._allowed(unit, "index", names.INDEX_PATH, document) else None
        frame = pretty(contents([], [], unit.now)).decode("utf-8")
        listings = {"sessions": [_session_text(s) for s in runs], "decisions": [_decision_text(d) for d in asked]}
        for key, pieces in listings.items():
            if pieces:
                listed = ",\n    ".join(pieces)
                frame = frame.replace(f'"{key}": []', f'"{key}": [\n    {listed}\n  ]', 1)
        return frame.encode("utf-8")

    def prune_locks(self, unit: FileUnit) -> None:
        """Once the table is large, let the unit write it without the released locks of finished sessions, and archive
        those. Pruning is safe for peers.

        The archive is written after the table: a crash in between loses history of locks that hold nothing. Which
        sessions are finished is the catalog's word: no lock that holds anything depends on it.
        """
        try:
            table = unit.locks()
        except ChaosError:
            return
        if self._locks.file_bytes <= max(self._settings.limits.locks_bytes_max, self._locks_bytes_left):
            return
        unsettled = set(self._catalog.unsettled_runs())
        gone = [lock for lock in table.locks if not lock.is_active and lock.run not in unsettled]
        kept = table.without(gone, unit.now)
        self._locks_bytes_left = len(self._locks.spelled(kept)) * 5 // 4
        if gone:
            unit.put_locks(kept)
            unit.archived = gone

    def _archive(self, unit: FileUnit) -> list[str]:
        gone, unit.archived = unit.archived, []
        return audit_log.archive(self._folder, "archive/locks.jsonl", (lock.to_json() for lock in gone))

    def _reapply(self, unit: FileUnit, steps: Sequence[Step]) -> set[str]:
        """A peer wrote while we did: put back what it overwrote, lock entries one by one. What could not be put back:
        the operation has happened, so that is a warning and never an error."""
        deadline = self._clock.monotonic() + _REAPPLY_SECONDS
        while self._clock.monotonic() < deadline:
            try:
                if not self._lock.is_ours() and self._lock.republish() is not None:
                    time.sleep(self._settings.settle_seconds)
                    continue
            except ChaosError as error:
                unit.warnings.append(f"another process took the write lock away and it cannot be had: {error.message}")
                return self._lost(steps)
            lost = [step for step in steps if isinstance(step, Put) and self._is_lost(step)]
            failed = self._put_back(unit, lost) if lost else set()
            if self._lock.is_ours():
                return failed
        unit.warnings.append("another process kept taking the write lock away; the next operation heals what was lost")
        return self._lost(steps)

    def _lost(self, steps: Sequence[Step]) -> set[str]:
        return {step.relative for step in steps if isinstance(step, Put) and self._is_lost(step)}

    def _put_back(self, unit: FileUnit, lost: Sequence[Put]) -> set[str]:
        try:
            commit = Commit(self._folder, [self._mended(unit, step) for step in lost], self._temporary)
            commit.prepare()
            commit.apply()
        except ChaosError as error:
            unit.warnings.append(f"what another process overwrote could not be put back: {error.message}")
            return {step.relative for step in lost}
        unit.warnings.extend(commit.warnings)
        return commit.failed

    def _is_lost(self, step: Put) -> bool:
        try:
            return self._folder.content(step.relative) != step.data
        except ChaosError:
            return True

    def _mended(self, unit: FileUnit, step: Put) -> Put:
        written = unit.buffer.documents().get(step.relative)
        if written is None or not isinstance(written.value, LockTable):
            return Put(step.relative, step.data, durable=step.durable)
        try:
            theirs = self._folder.load(names.LOCKS_PATH)
            table = LockTable.from_json(theirs) if theirs is not None else LockTable()
        except (ChaosError, ValueError):
            return Put(step.relative, step.data, durable=step.durable)
        before = {lock.lock_id: lock for lock in unit.locks_before().locks}
        for lock in written.value.locks:
            if before.get(lock.lock_id) != lock:
                table = table.put(lock, unit.now)
        return Put(step.relative, self._locks.spelled(table), durable=step.durable)

    def _tell_catalog(self, written: Written) -> None:
        value = written.value
        facts: f.Facts
        if isinstance(value, Session):
            facts = f.session_facts(value)
        elif isinstance(value, Decision):
            facts = f.decision_facts(value)
        elif isinstance(value, Capsule):
            facts = f.capsule_facts(value)
        else:
            return
        stat = self._folder.stat(written.relative)
        self._catalog.wrote(facts, f.Version.of(stat) if stat is not None else None)

    def _temporary(self, path: str) -> str:
        directory, name = os.path.split(path)
        return f"{directory}/.{name}.{os.getpid()}.{int(self._clock.now() * 1000)}.{self._hex(12)}.tmp"

    def _sync_directory(self, path: str) -> None:
        fd = self._folder.ops.open(path, os.O_RDONLY)
        try:
            self._folder.ops.fsync(fd)
        finally:
            close_quietly(self._folder.ops, fd)


def _session_entry(facts: f.SessionFacts) -> dict[str, Json]:
    return session_entry(facts.run, facts.state, facts.change_id, facts.source_command)


def _decision_entry(facts: f.DecisionFacts) -> dict[str, Json]:
    return decision_entry(facts.decision, facts.state, facts.run, facts.change_id)


@lru_cache(maxsize=1024)
def _session_text(facts: f.SessionFacts) -> str:
    return _piece(_session_entry(facts))


@lru_cache(maxsize=1024)
def _decision_text(facts: f.DecisionFacts) -> str:
    return _piece(_decision_entry(facts))


def _piece(entry: JsonObject) -> str:
    """One entry at its indentation, lone surrogates escaped."""
    return pretty([[entry]]).decode("utf-8")[len("[\n  [\n    ") : -len("\n  ]\n]\n")]
