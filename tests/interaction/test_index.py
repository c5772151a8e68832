"""The index proposes what a look through the whole folder would find, whoever changed the folder and however."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import shutil
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.scan_catalog import ScanCatalog
from chaoscore.adapters.files.interaction.sqlite_catalog import SqliteCatalog
from chaoscore.adapters.system import SystemClock
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from tests.interaction.steps import answer, ask, begin, prepared, text
from tests.interaction.support import Bench


def same(folder: Folder, indexed: SqliteCatalog) -> None:
    reference = ScanCatalog(folder)
    reference.refresh()
    indexed.prepare()
    indexed.refresh()
    indexed.refresh_unfinished()
    assert list(indexed.unfinished_runs()) == list(reference.unfinished_runs())
    assert list(indexed.pending_decisions()) == list(reference.pending_decisions())
    assert list(indexed.ready_runs()) == list(reference.ready_runs())
    assert list(indexed.waiting_decisions()) == list(reference.waiting_decisions())
    for run in reference.unfinished_runs():
        assert list(indexed.decisions_of(run)) == list(reference.decisions_of(run))
    filters = (SessionFilter(), SessionFilter(state="completed"), SessionFilter("c1"), SessionFilter(ready_only=True))
    for wanted in filters:
        assert indexed.find_sessions(wanted, 5, None) == reference.find_sessions(wanted, 5, None)
    cursor = reference.find_sessions(SessionFilter(), 3, None).next
    if cursor is not None:
        assert indexed.find_sessions(SessionFilter(), 3, cursor) == reference.find_sessions(SessionFilter(), 3, cursor)
    for change in (None, "c1"):
        assert list(indexed.find_capsules(change, 9)) == list(reference.find_capsules(change, 9))
    assert indexed.contents(10_000) == reference.contents(10_000)
    assert sorted(indexed.warnings("sessions")) == sorted(reference.warnings("sessions"))


class Ticking:
    """Monotonic time that runs fast, so that looks in the background come at once."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 100.0
        return self.now


class Hurrying:
    """Monotonic time, thrice as fast until it stops just before a look through everything comes due."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self) -> float:
        return min(3 * (time.monotonic() - self._began), 59.0)


def names(root: Path) -> tuple[list[str], list[str]]:
    sessions = [path.stem for path in root.glob("sessions/*.json")]
    return sorted(sessions), sorted(path.name for path in root.glob("decisions/*"))


async def random_step(service: InteractionService, root: Path, dice: random.Random) -> None:
    runs, decisions = names(root)
    kind = dice.randrange(10)
    if kind < 3 or not runs:
        await service.begin(BeginRequest(dice.choice(["chaos:run", "chaos:x y"]), dice.choice([None, "c1", "c2"])))
    elif kind == 3:
        await ask(service, dice.choice(runs), f"t{dice.random()}")
    elif kind == 4 and decisions:
        await answer(service, dice.choice(decisions))
    elif kind == 5:
        await service.resume(dice.choice(runs))
    elif kind == 6:
        await service.complete(EndRequest(dice.choice(runs)))
    elif kind == 7:
        await service.cancel(EndRequest(dice.choice(runs)))
    elif kind == 8 and decisions:
        await service.mark_consumed(dice.choice(decisions))
    else:
        by_hand(root, dice, runs)


def by_hand(root: Path, dice: random.Random, runs: list[str]) -> None:
    """What people and other programs do to a folder."""
    path = root / f"sessions/{dice.choice(runs)}.json"
    trick = dice.randrange(5)
    if trick == 0:
        path.unlink()
    elif trick == 1:
        path.write_text("{half")
    elif trick == 2:
        (root / f"sessions/by-hand-{dice.randrange(99)}.json").write_text(
            json.dumps({**json.loads(path.read_text()), "commandRunId": "x"}) if path.read_text() != "{half" else "[]"
        )
    elif trick == 3 and (root / "audit.jsonl").exists():
        (root / "audit.jsonl").write_text("")
    elif trick == 4:
        os.utime(path)


@pytest.mark.parametrize("seed", range(4))
def test_after_any_history_the_index_says_what_a_look_through_the_folder_says(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    bench = Bench(tmp_path / "repo", clock=SystemClock(), cache_dir=tmp_path / "cache-a")
    folder = Folder(bench.root, FileOps(), 1 << 23)
    other = SqliteCatalog(folder, tmp_path / "cache-b", monotonic=Ticking())
    shared_cache = SqliteCatalog(folder, tmp_path / "cache-a", monotonic=Ticking())
    (tmp_path / "repo").mkdir()

    async def story() -> None:
        service = bench.service()
        await begin(service, "RUN-0")
        for _ in range(40):
            await random_step(service, bench.root, dice)
            same(folder, other)
            same(folder, shared_cache)
        await service.close()

    asyncio.run(story())
    other.close()
    shared_cache.close()


def test_a_broken_cache_is_made_anew_and_a_forbidden_one_done_without(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    bench = Bench(tmp_path / "repo", clock=SystemClock(), cache_dir=cache)
    bench.repository.mkdir()

    async def story(expected: int) -> tuple[str, ...]:
        service = bench.service()
        await service.begin(BeginRequest("chaos:run"))
        assert (await service.list_sessions()).data["sessions"] and expected
        found = await service.list_sessions()
        assert len(found.data["sessions"]) == expected  # type: ignore[arg-type]
        notes = await service.health()
        await service.close()
        return notes

    assert asyncio.run(story(1)) == ()
    for path in cache.iterdir():
        path.write_bytes(b"this is no database at all" * 100)
    assert asyncio.run(story(2)) == ()
    shutil.rmtree(cache)
    cache.write_text("a file in its place")
    assert "without an index" in asyncio.run(story(3))[0]


def test_another_folder_in_the_same_place_gets_an_index_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "repo", clock=SystemClock(), cache_dir=tmp_path / "cache")
    bench.repository.mkdir()

    async def story() -> int:
        service = bench.service()
        await begin(service)
        found = (await service.list_sessions()).data["sessions"]
        await service.close()
        return len(found)  # type: ignore[arg-type]

    assert asyncio.run(story()) == 1
    (bench.root).rename(tmp_path / "away")
    assert asyncio.run(story()) == 1


def test_the_index_keeps_its_cost_when_finished_work_grows(tmp_path: Path) -> None:
    """Counted, not timed: statements of the index and files opened per call do not grow with finished sessions."""
    opened: list[int] = []

    class Counting(FileOps):
        count = 0

        def open(self, path: str, flags: int, mode: int = 0o666) -> int:
            self.count += 1
            return super().open(path, flags, mode)

        def lstat(self, path: str):  # type: ignore[no-untyped-def]
            self.count += 1
            return super().lstat(path)

    ops = Counting()
    bench = Bench(tmp_path, clock=SystemClock(), ops=ops, cache_dir=tmp_path / "cache")

    async def story() -> None:
        service = bench.service()
        for number in range(45):
            before = ops.count
            decision = await ask_and_answer(service, number)
            await service.mark_consumed(decision)
            await service.complete(EndRequest(f"RUN-{number}"))
            await service.active_decision()
            opened.append(ops.count - before)
        await service.close()

    asyncio.run(story())
    assert max(opened[-5:]) <= max(opened[5:10]) + 5, opened


async def ask_and_answer(service: InteractionService, number: int) -> str:
    await begin(service, f"RUN-{number}", f"c{number}")
    decision = text((await ask(service, f"RUN-{number}")).data["decisionId"])
    assert (await answer(service, decision)).ok
    assert (await service.resume(f"RUN-{number}")).ok
    return decision


def test_the_index_is_nothing_but_a_cache(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "repo", clock=SystemClock(), cache_dir=tmp_path / "cache")
    bench.repository.mkdir()

    async def story() -> None:
        service = bench.service()
        await prepared(service, "begin", "ask", "answer")
        await service.close()
        (database,) = (tmp_path / "cache").glob("*.sqlite")
        with sqlite3.connect(database) as db:
            db.execute("UPDATE sessions SET state = 'completed', change_id = 'forged'")
        db.close()
        again = bench.service()
        body = await again.read_resource("chaos://interactions/sessions/RUN-1")
        assert body is not None and (body["state"], body["changeId"]) == ("ready-to-resume", "c1")
        await again.close()

    asyncio.run(story())


class LinksUncounted(FileOps):
    """A file system whose directories do not say how many others are in them."""

    def subdirectories(self, path: str) -> int | None:
        return None


def a_large_folder(tmp_path: Path, decisions: int) -> Bench:
    """So many decisions, in which nothing waits."""
    bench = Bench(tmp_path / "repository")
    asyncio.run(prepared(bench.service(), "begin", "ask"))
    only = next(bench.root.glob("decisions/*/decision.json")).read_text()
    one = json.loads(only)["decisionId"]
    for number in range(decisions):
        place = bench.root / f"decisions/DEC-{number}"
        place.mkdir()
        (place / "decision.json").write_text(only.replace(one, place.name).replace('"waiting"', '"consumed"'))
    return bench


def make_in_silence(root: Path, name: str) -> None:
    """A decision whose writer died before its audit line."""
    waiting = next(path for path in root.glob("decisions/DEC-2030-*/decision.json"))
    (root / f"decisions/{name}").mkdir()
    (root / f"decisions/{name}/decision.json").write_text(waiting.read_text().replace(waiting.parent.name, name))


def record(root: Path, run: str) -> None:
    """A peer's audit line."""
    with (root / "audit.jsonl").open("a") as file:
        file.write(json.dumps({"commandRunId": run, "decisionId": None}) + "\n")


def found_among_thousands(place: Path, ops: FileOps) -> None:
    bench = a_large_folder(place, 5_100)
    catalog = SqliteCatalog(Folder(bench.root, ops, 1 << 20), place / "cache", Hurrying())
    catalog.prepare()
    catalog.refresh()
    make_in_silence(bench.root, "DEC-silent")
    deadline = time.monotonic() + 60
    while "DEC-silent" not in catalog.waiting_decisions():
        assert time.monotonic() < deadline
        record(bench.root, "RUN-1")
        catalog.refresh()
    catalog.close()


def test_a_decision_made_in_silence_among_thousands_is_found_where_links_are_not_counted(tmp_path: Path) -> None:
    found_among_thousands(tmp_path, LinksUncounted())


class FirstLookFails(LinksUncounted):
    """The first time that a thread goes through the decisions, the disk refuses."""

    refused = False

    def scan(self, path: str) -> list[tuple[str, bool]]:
        if not self.refused and threading.current_thread() is not threading.main_thread():
            self.refused = True
            raise OSError(errno.EIO, "input/output error")
        return super().scan(path)


def test_a_look_in_the_background_that_fails_is_made_again(tmp_path: Path) -> None:
    ops = FirstLookFails()
    found_among_thousands(tmp_path, ops)
    assert ops.refused


class CountedReads(FileOps):
    """Counts the directories gone through."""

    scans = 0

    def scan(self, path: str) -> list[tuple[str, bool]]:
        self.scans += 1
        return super().scan(path)


def test_a_decision_by_a_peer_does_not_cost_a_look_through_all_of_them(tmp_path: Path) -> None:
    bench = a_large_folder(tmp_path, 700)
    ops = CountedReads()
    folder = Folder(bench.root, ops, 1 << 20)
    catalog = SqliteCatalog(folder, tmp_path / "cache")
    catalog.prepare()
    catalog.refresh()
    ops.scans = 0
    asyncio.run(begin(bench.service(), "RUN-2", "another"))
    asyncio.run(ask(bench.service(), "RUN-2"))
    for _ in range(3):
        catalog.refresh()  # at once, while the directory is young, and again
    assert len(catalog.waiting_decisions()) == 2
    assert ops.scans == 0
    catalog.close()
