"""The catalog without an index: look through the folder each time, and parse only files that changed.

It is the reference that the SQLite catalog is compared with, and what serves when no cache directory can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from chaoscore.adapters.files.interaction import facts as f
from chaoscore.adapters.files.interaction.folder import Folder, malformed
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.errors import MalformedState
from chaoscore.domain.interaction.fields import WrongShape
from chaoscore.domain.interaction.names import command_token, is_id
from chaoscore.domain.interaction.states import UNFINISHED_SESSIONS
from chaoscore.domain.json import Json

T = TypeVar("T", f.SessionFacts, f.DecisionFacts, f.CapsuleFacts)


def load_facts(
    folder: Folder, relative: str, name: str, parse: Callable[[str, Json], T]
) -> tuple[T | None, str | None]:
    """Facts of one document and, when it cannot be understood, why. A file holding ``null`` counts as absent."""
    try:
        value = folder.load(relative)
        return (None, None) if not value and not isinstance(value, dict | list) else (parse(name, value), None)
    except WrongShape as error:
        return None, malformed(relative, str(error)).message
    except ChaosError as error:
        return None, error.message


def read_session(name: str, value: Json) -> f.SessionFacts:
    return f.session_facts(f.parse_session(name, value))


def read_decision(name: str, value: Json) -> f.DecisionFacts:
    return f.decision_facts(f.parse_decision(name, value))


def read_capsule(name: str, value: Json) -> f.CapsuleFacts:
    return f.capsule_facts(f.parse_capsule(name, value))


def document_names(folder: Folder, directory: str) -> list[str]:
    """Names of the documents in ``sessions`` or ``capsules``, ascending: what ends in ``.json`` and can be an id."""
    return sorted(name[:-5] for name, _ in _entries(folder, directory) if name.endswith(".json") and is_id(name[:-5]))


def decision_names(folder: Folder) -> list[str]:
    """Real directories only, as every peer lists them. Ascending."""
    return sorted(name for name, is_directory in _entries(folder, "decisions") if is_directory and is_id(name))


def _entries(folder: Folder, directory: str) -> list[tuple[str, bool]]:
    """A directory that leads out of the folder lists nothing; ``directory_faults`` says why."""
    try:
        return folder.listed(directory)
    except MalformedState:
        return []


def directory_faults(folder: Folder, kind: f.Kind) -> list[str]:
    try:
        folder.require_inside(kind)
    except MalformedState as error:
        return [error.message]
    except OSError:
        return []
    return []


class ScanCatalog:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._sessions: dict[str, tuple[f.Version, f.SessionFacts | None, str | None]] = {}
        self._decisions: dict[str, tuple[f.Version, f.DecisionFacts | None, str | None]] = {}
        self._capsules: dict[str, tuple[f.Version, f.CapsuleFacts | None, str | None]] = {}

    def prepare(self) -> None:
        """Nothing takes long here."""

    def refresh(self) -> None:
        folder = self._folder
        self._sessions = self._looked(
            document_names(folder, "sessions"), "sessions/{}.json", self._sessions, read_session
        )
        self._decisions = self._looked(
            decision_names(folder), "decisions/{}/decision.json", self._decisions, read_decision
        )
        self._capsules = self._looked(
            document_names(folder, "capsules"), "capsules/{}.json", self._capsules, read_capsule
        )

    def refresh_unfinished(self) -> None:
        """Everything was looked at."""

    def warnings(self, kind: f.Kind) -> Sequence[str]:
        if kind == "sessions":
            found = _faults(self._sessions)
        else:
            found = _faults(self._decisions) if kind == "decisions" else _faults(self._capsules)
        return [*directory_faults(self._folder, kind), *found]

    def _looked(
        self,
        names: Sequence[str],
        form: str,
        before: dict[str, tuple[f.Version, T | None, str | None]],
        parse: Callable[[str, Json], T],
    ) -> dict[str, tuple[f.Version, T | None, str | None]]:
        out: dict[str, tuple[f.Version, T | None, str | None]] = {}
        for name in names:
            relative = form.format(name)
            stat = self._folder.stat(relative)
            if stat is None:
                continue
            version = f.Version.of(stat)
            known = before.get(name)
            if known is not None and known[0] == version:
                out[name] = known
                continue
            facts, why = load_facts(self._folder, relative, name, parse)
            out[name] = (version, facts, why)
        return out

    def unfinished_runs(self) -> Sequence[str]:
        found = [run for run, (_, facts, _) in self._sessions.items() if facts and facts.state in UNFINISHED_SESSIONS]
        return sorted(found, key=f.session_order)

    def unsettled_runs(self) -> Sequence[str]:
        faulty = [run for run, (_, facts, _) in self._sessions.items() if facts is None]
        return [*self.unfinished_runs(), *faulty]

    def waiting_decisions(self) -> Sequence[str]:
        found = [name for name, (_, facts, _) in self._decisions.items() if facts and facts.state == "waiting"]
        return sorted(found, key=f.decision_order)

    def pending_decisions(self) -> Sequence[str]:
        return self.waiting_decisions()

    def ready_runs(self) -> Sequence[str]:
        found = [run for run, (_, facts, _) in self._sessions.items() if facts and facts.state == "ready-to-resume"]
        return sorted(found, key=f.session_order)

    def decisions_of(self, run: str) -> Sequence[str]:
        found = [name for name, (_, facts, _) in self._decisions.items() if facts and facts.run == run]
        return sorted(found, key=f.decision_order)

    def find_sessions(self, wanted: SessionFilter, limit: int, cursor: str | None) -> f.Found:
        found = [facts for _, facts, _ in self._sessions.values() if facts is not None and fits(facts, wanted)]
        found.sort(key=lambda facts: (facts.last_seen_at, facts.run), reverse=True)
        total = len(found)
        if cursor is not None:
            after = f.cursor_parts(cursor)
            found = [facts for facts in found if (facts.last_seen_at, facts.run) < after]
        page = found[:limit]
        more = f.cursor_of(page[-1].last_seen_at, page[-1].run) if len(found) > limit else None
        return f.Found(tuple(facts.run for facts in page), total, more)

    def find_capsules(self, change_id: str | None, limit: int) -> Sequence[str]:
        found = [
            facts
            for _, facts, _ in self._capsules.values()
            if facts is not None and (not change_id or facts.change_id == change_id)
        ]
        found.sort(key=lambda facts: (facts.updated_at, f.session_order(facts.run)), reverse=True)
        return [facts.run for facts in found[:limit]]

    def contents(self, entries_max: int) -> tuple[Sequence[f.SessionFacts], Sequence[f.DecisionFacts]] | None:
        sessions = [facts for _, facts, _ in self._sessions.values() if facts is not None]
        decisions = [facts for _, facts, _ in self._decisions.values() if facts is not None]
        if len(sessions) + len(decisions) > entries_max:
            return None
        sessions.sort(key=lambda facts: f.session_order(facts.run))
        decisions.sort(key=lambda facts: f.decision_order(facts.decision))
        return sessions, decisions

    def wrote(self, facts: f.Facts, version: f.Version | None) -> None:
        """Seen by the next ``refresh`` anyway."""

    def settle(self, appended_bytes: int) -> None:
        """Seen by the next ``refresh`` anyway."""

    def doubt(self) -> None:
        """Everything is looked at each time."""

    def close(self) -> None:
        """Holds nothing."""


def _faults(table: Mapping[str, tuple[f.Version, T | None, str | None]]) -> list[str]:
    return [why for _, _, why in table.values() if why is not None]


def fits(facts: f.SessionFacts, wanted: SessionFilter) -> bool:
    return (
        (not wanted.change_id or facts.change_id == wanted.change_id)
        and (not wanted.state or facts.state == wanted.state)
        and (not wanted.command or facts.command == command_token(wanted.command))
        and (not wanted.ready_only or facts.state == "ready-to-resume")
    )
