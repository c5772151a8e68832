"""The catalog with an index: the cost of a call does not grow with finished work.

Signals (``signals``) say what changed; only the documents they name are read again. What signals cannot tell is found
by looking through the folder: at once where it is small or the signals are broken, in the background otherwise.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from chaoscore.adapters.files.interaction import facts as f
from chaoscore.adapters.files.interaction import signals
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.index_db import IndexDb, index_path, remove_index
from chaoscore.adapters.files.interaction.scan_catalog import (
    decision_names,
    directory_faults,
    document_names,
    load_facts,
    read_capsule,
    read_decision,
    read_session,
)
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.domain.errors import StorageError

_SMALL_ROWS = 600
_YOUNG_NS = 20_000_000
_BACKGROUND_SECONDS = 5.0
_VERIFY_SECONDS = 60.0
_LISTED_ROWS = 5_000  # listing as many takes a few milliseconds
_REST_FACTOR = 20
_NO_ROW: tuple[None, None] = (None, None)
_KINDS: tuple[f.Kind, ...] = ("sessions", "decisions", "capsules")
_UNFINISHED_KINDS: tuple[f.Kind, ...] = ("sessions", "decisions")
Look = Callable[[IndexDb], Iterable[tuple[f.Kind, str]]]


class SqliteCatalog:
    """Raises ``StorageError`` when there can be no cache; ``store`` then looks through the folder each time."""

    def __init__(
        self,
        folder: Folder,
        cache_dir: Path,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._folder = folder
        self._cache_dir = cache_dir
        self._monotonic = monotonic
        self._wall_ns = wall_ns
        self._db: IndexDb | None = None
        self._pending: list[tuple[f.Kind, str, f.Facts, f.Version]] = []
        self._seen = signals.Token()
        self._suspects: list[tuple[f.Kind, str]] = []
        self._suspects_lock = threading.Lock()
        self._looking: threading.Thread | None = None
        self._looked_at = monotonic()
        self._distrust = False
        self._listed_at = monotonic()
        self._unlisted = False
        self._rest_until = 0.0
        self._young_decisions = (0, 0, 0)

    # ------------------------------------------------------------------------------------ catching up

    def prepare(self) -> None:
        """Build the index when there is none yet; done before the write lock is taken."""
        if self._folder.exists():
            self._guarded(lambda db: self._build(db) if db.token() is None else None)

    def refresh(self) -> None:
        if self._folder.exists():
            self._guarded(self._catch_up)

    def refresh_unfinished(self) -> None:
        if self._folder.exists():
            self._guarded(self._catch_up_unfinished)

    def _guarded(self, work: Callable[[IndexDb], None]) -> None:
        """A broken cache is made anew once; one that cannot be made is a ``StorageError``."""
        for attempt in (1, 2):
            try:
                work(self._open())
                return
            except (sqlite3.Error, OSError) as error:
                self.close()
                remove_index(self._cache_dir, self._folder.root)
                if attempt == 2:
                    raise StorageError(f"the index cannot be kept in {str(self._cache_dir)!r}: {error}") from error

    def _open(self) -> IndexDb:
        if self._db is None:
            self._db = IndexDb(index_path(self._cache_dir, self._folder.root))
        return self._db

    def _build(self, db: IndexDb) -> None:
        news = signals.look(self._folder, signals.Token(), self._wall_ns() - _YOUNG_NS)
        with db.transaction():
            self._verify(db, _KINDS)
            db.set_token(news.token)
        self._seen = news.token

    def _catch_up(self, db: IndexDb) -> None:
        seen = db.token()
        if seen is None:
            self._build(db)
            return
        news = signals.look(self._folder, seen, self._wall_ns() - _YOUNG_NS)
        suspects = self._take_suspects()
        if news.nothing and not suspects and not self._distrust and news.token == seen:
            self._seen = seen
            self._look_sometimes(db)
            return
        with db.transaction():
            for kind in self._to_verify(db, news):
                self._verify(db, (kind,))
            silent = self._made_in_silence(db, news)
            for kind, name in [*suspects, *_named(news.names), *silent]:
                self._reread(db, kind, name)
            db.set_token(news.token)
        self._seen = news.token
        self._young_decisions = news.directory("decisions")
        self._distrust = False
        self._look_sometimes(db, soon=bool(news.changed) and not news.names)

    def _catch_up_unfinished(self, db: IndexDb) -> None:
        if db.token() is None:
            self._build(db)
            return
        stale = self._stale_unfinished(db)
        if stale:
            with db.transaction():
                for kind, name in stale:
                    self._reread(db, kind, name)

    def _made_in_silence(self, db: IndexDb, news: signals.News) -> list[tuple[f.Kind, str]]:
        """Decisions that came without their audit line, behind lines that tell of other things."""
        if not news.names or "decisions" not in news.changed:
            return []
        told = sum(db.version("decisions", name) is None for name in news.names.decisions)
        there = self._folder.ops.subdirectories(self._folder.path("decisions"))
        if there == db.count("decisions") + told:
            return []
        if there is None and db.count("decisions") > _LISTED_ROWS:
            self._unlisted = True
            return []
        return [("decisions", name) for name, is_there in self._differences(db, "decisions") if is_there]

    def _to_verify(self, db: IndexDb, news: signals.News) -> Sequence[f.Kind]:
        if news.names is None or self._distrust:
            return _KINDS
        if news.names:
            return ()
        small = db.count(*_KINDS) <= _SMALL_ROWS
        return [
            kind
            for kind in _KINDS
            if kind in news.changed and (small or (kind == "decisions" and not self._known_young(db, news)))
        ]

    def _known_young(self, db: IndexDb, news: signals.News) -> bool:
        """Whether ``decisions/`` only counts as changed because it was young when it was looked at, with as many in it
        as there are rows: it is as old as it was, and nothing came or went."""
        there = self._folder.ops.subdirectories(self._folder.path("decisions"))
        return news.directory("decisions") == self._young_decisions and there == db.count("decisions")

    def _verify(self, db: IndexDb, kinds: Iterable[f.Kind]) -> None:
        """Compare every file with its row; read what differs, forget what is gone."""
        for kind in kinds:
            for name, is_there in list(self._differences(db, kind)):
                if is_there:
                    self._reread(db, kind, name)
                else:
                    db.drop(kind, name)

    def _differences(self, db: IndexDb, kind: f.Kind) -> Iterator[tuple[str, bool]]:
        """Names whose file is another one than their row says, and whether there is a file: files and rows are walked
        side by side, so that neither has to be held in memory."""
        rows = db.versions(kind)
        known, version = next(rows, _NO_ROW)
        for name in self._names(kind):
            while known is not None and known < name:
                yield known, False
                known, version = next(rows, _NO_ROW)
            stat = self._folder.stat(_relative(kind, name))
            before = version if known == name else None
            if before != (f.Version.of(stat) if stat is not None else None):
                yield name, stat is not None
            if known == name:
                known, version = next(rows, _NO_ROW)
        while known is not None:
            yield known, False
            known, version = next(rows, _NO_ROW)

    def _names(self, kind: f.Kind) -> list[str]:
        return decision_names(self._folder) if kind == "decisions" else document_names(self._folder, kind)

    def _stale_unfinished(self, db: IndexDb) -> list[tuple[f.Kind, str]]:
        """Unfinished documents whose file is another one than the row says: edited by hand, or by a silent peer."""
        out: list[tuple[f.Kind, str]] = []
        for kind in _UNFINISHED_KINDS:
            for name, *version in db.unfinished_versions(kind):
                stat = self._folder.stat(_relative(kind, name))
                if stat is None or version != [stat.inode, stat.size, stat.mtime]:
                    out.append((kind, name))
        return out

    def _reread(self, db: IndexDb, kind: f.Kind, name: str) -> None:
        relative = _relative(kind, name)
        stat = self._folder.stat(relative)
        if stat is None:
            db.drop(kind, name)
            return
        facts: f.Facts | None
        if kind == "sessions":
            facts, fault = load_facts(self._folder, relative, name, read_session)
        elif kind == "decisions":
            facts, fault = load_facts(self._folder, relative, name, read_decision)
        else:
            facts, fault = load_facts(self._folder, relative, name, read_capsule)
        db.put(kind, name, (facts, f.Version.of(stat), fault))

    # ------------------------------------------------------------------------------- in the background

    def _look_sometimes(self, db: IndexDb, soon: bool = False) -> None:
        """A finished document edited in place gives no signal: look through the folder now and then."""
        now = self._monotonic()
        if self._unlisted and now - self._listed_at >= _BACKGROUND_SECONDS and self._may_start():
            self._unlisted, self._listed_at = False, now  # before the look, which says so when it failed
            self._start(db, self._new_decisions)
        if now - self._looked_at < (_BACKGROUND_SECONDS if soon else _VERIFY_SECONDS):
            return
        if db.count(*_KINDS) <= _SMALL_ROWS:
            self._looked_at = now
            with db.transaction():
                self._verify(db, _KINDS)
        elif self._may_start():
            self._looked_at = now
            self._start(db, self._all_differences)

    def _may_start(self) -> bool:
        """No while a thread looks, or must rest so that looking stays below a twentieth of a core."""
        if self._looking is not None and self._looking.is_alive():
            return False
        return self._monotonic() >= self._rest_until

    def _start(self, db: IndexDb, look: Look) -> None:
        self._looking = threading.Thread(
            target=self._look_apart, args=(db.path, look), name="interactions-look", daemon=True
        )
        self._looking.start()

    def _look_apart(self, path: Path, look: Look) -> None:
        began = self._monotonic()
        found: list[tuple[f.Kind, str]] = []
        try:
            db = IndexDb(path)
            try:
                found.extend(look(db))
            finally:
                db.close()
        except (sqlite3.Error, OSError, StorageError):
            self._unlisted = True
            return
        finally:
            now = self._monotonic()
            self._rest_until = now + _REST_FACTOR * (now - began)
        with self._suspects_lock:
            self._suspects.extend(found)

    def _all_differences(self, db: IndexDb) -> Iterator[tuple[f.Kind, str]]:
        for kind in _KINDS:
            for name, _ in self._differences(db, kind):
                yield kind, name

    def _new_decisions(self, db: IndexDb) -> Iterator[tuple[f.Kind, str]]:
        """Names alone: a decision that was made without a word is one without a row."""
        rows = (name for name, _ in db.versions("decisions"))
        known = next(rows, None)
        for name in self._names("decisions"):
            while known is not None and known < name:
                known = next(rows, None)
            if known != name:
                yield "decisions", name

    def _take_suspects(self) -> list[tuple[f.Kind, str]]:
        with self._suspects_lock:
            taken, self._suspects = self._suspects, []
        return taken

    # ----------------------------------------------------------------------------------------- asking

    def warnings(self, kind: f.Kind) -> Sequence[str]:
        found = directory_faults(self._folder, kind)
        return [*found, *self._db.faults(kind)] if self._db is not None else found

    def unfinished_runs(self) -> Sequence[str]:
        return sorted(self._db.unfinished_runs(), key=f.session_order) if self._db is not None else ()

    def unsettled_runs(self) -> Sequence[str]:
        return self._db.unsettled_runs() if self._db is not None else ()

    def waiting_decisions(self) -> Sequence[str]:
        return sorted(self._db.waiting_decisions(), key=f.decision_order) if self._db is not None else ()

    def pending_decisions(self) -> Sequence[str]:
        found = self._db.in_state("decisions", "waiting") if self._db is not None else ()
        return sorted(found, key=f.decision_order)

    def ready_runs(self) -> Sequence[str]:
        found = self._db.in_state("sessions", "ready-to-resume") if self._db is not None else ()
        return sorted(found, key=f.session_order)

    def decisions_of(self, run: str) -> Sequence[str]:
        return sorted(self._db.decisions_of(run), key=f.decision_order) if self._db is not None else ()

    def find_sessions(self, wanted: SessionFilter, limit: int, cursor: str | None) -> f.Found:
        if cursor is not None:
            f.cursor_parts(cursor)
        if self._db is None:
            return f.Found((), 0, None)
        return self._db.find_sessions(wanted, limit, cursor)

    def find_capsules(self, change_id: str | None, limit: int) -> Sequence[str]:
        return self._db.find_capsules(change_id, limit) if self._db is not None else ()

    def contents(self, entries_max: int) -> tuple[Sequence[f.SessionFacts], Sequence[f.DecisionFacts]] | None:
        if self._db is None:
            return (), ()
        if self._db.count("sessions", "decisions") > entries_max:
            return None
        return self._db.contents()

    # ------------------------------------------------------------------------------- our own writes

    def wrote(self, facts: f.Facts, version: f.Version | None) -> None:
        if version is not None:
            kind, name = _key(facts)
            self._pending.append((kind, name, facts, version))

    def settle(self, appended_bytes: int) -> None:
        """After a write of ours, under the lock: nobody else wrote since ``refresh`` unless the log says so."""
        pending, self._pending = self._pending, []
        self._guarded(lambda db: self._settle(db, pending, appended_bytes))

    def _settle(
        self, db: IndexDb, pending: Sequence[tuple[f.Kind, str, f.Facts, f.Version]], appended_bytes: int
    ) -> None:
        news = signals.look(self._folder, self._seen)
        alone = db.token() == self._seen and news.names is not None
        grown = news.token.offset - self._seen.offset
        with db.transaction():
            for kind, name, facts, version in pending:
                db.put(kind, name, (facts, version, None))
            if alone and grown == appended_bytes:
                db.set_token(news.token)
                self._seen = news.token

    def doubt(self) -> None:
        self._distrust = True

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def _named(names: signals.Names | None) -> list[tuple[f.Kind, str]]:
    if names is None:
        return []
    out: list[tuple[f.Kind, str]] = [("sessions", run) for run in names.runs]
    out += [("capsules", run) for run in names.runs]
    return out + [("decisions", decision) for decision in names.decisions]


def _key(facts: f.Facts) -> tuple[f.Kind, str]:
    if isinstance(facts, f.SessionFacts):
        return "sessions", facts.run
    if isinstance(facts, f.DecisionFacts):
        return "decisions", facts.decision
    return "capsules", facts.run


def _relative(kind: f.Kind, name: str) -> str:
    return f"decisions/{name}/decision.json" if kind == "decisions" else f"{kind}/{name}.json"
