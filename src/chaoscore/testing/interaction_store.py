"""What an ``InteractionStore`` must do, whatever it is made of. Adapter authors inherit ``InteractionStoreContract``
and say how a store is opened; ``reopen`` opens the same data once more, as another process would.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from chaoscore.app.interaction_ports import InteractionStore, InteractionUnit, SessionFilter
from chaoscore.domain.errors import ChaosError, Conflict
from chaoscore.domain.interaction.capsule import built
from chaoscore.domain.interaction.decision import Decision, Option
from chaoscore.domain.interaction.errors import SchemaViolation
from chaoscore.domain.interaction.event import Event
from chaoscore.domain.interaction.lock import Lock
from chaoscore.domain.interaction.response import Response
from chaoscore.domain.interaction.session import Session

T = TypeVar("T")


def session(run: str, unit: InteractionUnit, state: str = "running", change: str | None = None) -> Session:
    return Session(run, "chaos:run", change, "unknown", state, unit.now, unit.now)


def decision(name: str, run: str, unit: InteractionUnit, state: str = "waiting") -> Decision:
    options = (Option("a", "A"), Option("b", "B"))
    return Decision(name, run, None, "chaos:run", "single-choice-decision", state, "t", "c", options, unit.now)


def response(name: str, run: str, unit: InteractionUnit) -> Response:
    return Response(name, run, "a", (), None, None, "alice", unit.now, "mcp-tool")


class InteractionStoreContract(ABC):
    @abstractmethod
    def open(self, directory: Path) -> InteractionStore:
        """A store over ``directory``; called again for the same data as another process would."""

    def run(self, directory: Path, story: Callable[[InteractionStore], Coroutine[Any, Any, T]]) -> T:
        async def told() -> T:
            store = self.open(directory)
            try:
                return await story(store)
            finally:
                await store.close()

        return asyncio.run(told())

    def put(self, directory: Path, work: Callable[[InteractionUnit], T]) -> T:
        return self.run(directory, lambda store: store.change(work))

    def look(self, directory: Path, work: Callable[[InteractionUnit], T]) -> T:
        return self.run(directory, lambda store: store.read(work))

    def test_documents_read_back_as_they_were_put(self, tmp_path: Path) -> None:
        made: dict[str, Any] = {}

        def work(unit: InteractionUnit) -> None:
            made["s"] = replace(session("R", unit, change="c"), metadata={"half": "\ud800", "big": 2**70, "f": 0.1})
            made["d"], made["r"] = decision("D", "R", unit, "answered"), response("D", "R", unit)
            made["c"] = built(made["s"], unit.now)
            made["l"] = Lock("L", "c", "R", "chaos:run", "command-running", "active", unit.now)
            unit.put_session(made["s"], new=True)
            unit.put_decision(made["d"], new=True)
            unit.put_response(made["r"])
            unit.put_capsule(made["c"])
            unit.put_locks(unit.locks().put(made["l"], unit.now))

        self.put(tmp_path, work)
        assert self.look(tmp_path, lambda u: u.session("R")) == made["s"]
        assert self.look(tmp_path, lambda u: u.decision("D")) == made["d"]
        assert self.look(tmp_path, lambda u: u.response("D")) == made["r"]
        assert self.look(tmp_path, lambda u: u.capsule("R")) == made["c"]
        assert self.look(tmp_path, lambda u: u.locks().locks) == (made["l"],)

    def test_what_was_never_put_is_not_there(self, tmp_path: Path) -> None:
        def work(unit: InteractionUnit) -> None:
            assert unit.session("R") is None and unit.decision("D") is None and unit.response("D") is None
            assert unit.capsule("R") is None and unit.locks().locks == () and not unit.has_response("D")
            assert unit.unfinished_sessions() == () and unit.waiting_decisions() == () and unit.decisions_of("R") == ()
            assert unit.find_sessions(SessionFilter(), 5, None).total == 0 and unit.find_capsules(None, 5) == ()

        self.look(tmp_path, work)

    def test_reading_creates_nothing(self, tmp_path: Path) -> None:
        self.look(tmp_path, lambda unit: unit.unfinished_sessions())
        self.put(tmp_path, lambda unit: unit.session("R"))
        assert [path for path in tmp_path.rglob("*") if "cache" not in path.parts] == []

    def test_a_unit_sees_its_own_writes_and_a_read_forgets_them(self, tmp_path: Path) -> None:
        def work(unit: InteractionUnit) -> None:
            unit.put_session(session("R", unit), new=True)
            unit.put_decision(decision("D", "R", unit), new=True)
            assert unit.session("R") is not None and unit.is_dirty
            assert [s.command_run_id for s in unit.unfinished_sessions()] == ["R"]
            assert [d.decision_id for d in unit.waiting_decisions()] == ["D"]
            assert [d.decision_id for d in unit.decisions_of("R")] == ["D"]

        self.look(tmp_path, work)
        assert self.look(tmp_path, lambda unit: unit.session("R")) is None

    def test_work_that_raises_writes_nothing(self, tmp_path: Path) -> None:
        def work(unit: InteractionUnit) -> None:
            unit.put_session(session("R", unit), new=True)
            raise ChaosError("no")

        with pytest.raises(ChaosError):
            self.put(tmp_path, work)
        assert self.look(tmp_path, lambda unit: unit.session("R")) is None

    def test_what_is_done_before_stands_even_when_the_work_refuses(self, tmp_path: Path) -> None:
        def refuse(unit: InteractionUnit) -> None:
            raise ChaosError("no")

        async def story(store: InteractionStore) -> None:
            await store.change(refuse, before=lambda unit: unit.put_session(session("R", unit), new=True))

        with pytest.raises(ChaosError):
            self.run(tmp_path, story)
        assert self.look(tmp_path, lambda unit: unit.session("R")) is not None

    @pytest.mark.parametrize("kind", ["session", "decision", "response"])
    def test_an_id_that_is_taken_is_never_written_over(self, tmp_path: Path, kind: str) -> None:
        def work(unit: InteractionUnit, note: str) -> None:
            if kind == "session":
                unit.put_session(replace(session("R", unit), metadata={"by": note}), new=True)
            elif kind == "decision":
                unit.put_decision(replace(decision("D", "R", unit), title=note), new=True)
            else:
                unit.put_response(replace(response("D", "R", unit), selected_by=note))

        if kind == "response":
            self.put(tmp_path, lambda unit: unit.put_decision(decision("D", "R", unit), new=True))
        self.put(tmp_path, lambda unit: work(unit, "first"))
        with pytest.raises(Conflict):
            self.put(tmp_path, lambda unit: work(unit, "second"))
        found = self.look(tmp_path, lambda unit: (unit.session("R"), unit.decision("D"), unit.response("D")))
        assert "first" in str(found) and "second" not in str(found)

    def test_a_savepoint_forgets_what_came_after_it(self, tmp_path: Path) -> None:
        def work(unit: InteractionUnit) -> None:
            unit.put_session(session("R", unit), new=True)
            mark = unit.savepoint()
            unit.put_session(session("S", unit), new=True)
            unit.record(Event("command-started", "S"))
            unit.rollback(mark)
            assert unit.session("S") is None and unit.session("R") is not None

        self.put(tmp_path, work)
        found = self.look(tmp_path, lambda unit: [s.command_run_id for s in unit.unfinished_sessions()])
        assert found == ["R"]

    def test_a_document_that_breaks_the_schema_is_refused_at_once(self, tmp_path: Path) -> None:
        with pytest.raises(SchemaViolation) as caught:
            self.put(tmp_path, lambda unit: unit.put_session(session("R", unit, change="x" * 161), new=True))
        assert [violation.path for violation in caught.value.violations] == ["changeId"]

    def test_lists_are_in_enumeration_order(self, tmp_path: Path) -> None:
        def work(unit: InteractionUnit) -> None:
            for name in ("b", "a", "a.b", "a-b", "B"):
                unit.put_session(session(name, unit), new=True)
                unit.put_decision(decision(name, "b", unit), new=True)

        self.put(tmp_path, work)
        runs = self.look(tmp_path, lambda unit: [s.command_run_id for s in unit.unfinished_sessions()])
        assert runs == ["B", "a-b", "a.b", "a", "b"]
        names = self.look(tmp_path, lambda unit: [d.decision_id for d in unit.decisions_of("b")])
        assert names == ["B", "a", "a-b", "a.b", "b"]

    def test_pages_go_from_new_to_old_and_count_what_matches(self, tmp_path: Path) -> None:
        def work(unit: InteractionUnit) -> None:
            for number in range(7):
                made = session(f"R{number}", unit, "completed" if number % 2 else "running", f"c{number % 2}")
                unit.put_session(replace(made, last_seen_at=f"2026-01-0{number + 1}T00:00:00.000Z"), new=True)

        self.put(tmp_path, work)

        def page(wanted: SessionFilter, cursor: str | None) -> tuple[list[str], int, str | None]:
            found = self.look(tmp_path, lambda unit: unit.find_sessions(wanted, 3, cursor))
            return [s.command_run_id for s in found.sessions], found.total, found.next

        first, total, after = page(SessionFilter(), None)
        assert (first, total) == (["R4", "R5", "R6"], 7)
        second, _, after = page(SessionFilter(), after)
        assert second == ["R1", "R2", "R3"]
        assert page(SessionFilter(), after) == (["R0"], 7, None)
        assert page(SessionFilter(state="completed"), None) == (["R1", "R3", "R5"], 3, None)
        assert page(SessionFilter(change_id="c1", command="CHAOS:run x"), None)[1] == 3
        assert page(SessionFilter(ready_only=True), None) == ([], 0, None)

    def test_a_change_is_seen_by_whoever_had_the_store_open_before(self, tmp_path: Path) -> None:
        async def story(store: InteractionStore) -> None:
            before = await store.change_token()
            assert await store.read(lambda unit: unit.session("R")) is None
            other = self.open(tmp_path)
            await other.change(lambda unit: unit.put_session(session("R", unit), new=True))
            await other.close()
            found = await store.read(lambda unit: [s.command_run_id for s in unit.unfinished_sessions()])
            assert found == ["R"]
            assert await store.change_token() != before

        self.run(tmp_path, story)

    def test_two_openings_exclude_each_other(self, tmp_path: Path) -> None:
        def count_up(unit: InteractionUnit) -> None:
            found = unit.session("R")
            assert found is not None
            count = found.metadata["n"]
            assert isinstance(count, int)
            unit.put_session(replace(found, metadata={"n": count + 1}))

        async def story(store: InteractionStore) -> None:
            await store.change(lambda unit: unit.put_session(replace(session("R", unit), metadata={"n": 0}), new=True))
            other = self.open(tmp_path)
            await asyncio.gather(*(each.change(count_up) for each in (store, other) for _ in range(20)))
            await other.close()
            found = await store.read(lambda unit: unit.session("R"))
            assert found is not None and found.metadata == {"n": 40}

        self.run(tmp_path, story)
