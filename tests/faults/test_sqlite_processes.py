"""Real processes on one directory: killed at any moment, opening it for the first time at once, writing all at once."""

from __future__ import annotations

import asyncio
import fcntl
import random
import select
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from chaoscore.adapters.sqlite import Stores, open_stores
from chaoscore.adapters.system import LinuxProcesses, RandomIds, SystemClock
from chaoscore.domain.errors import StorageError
from chaoscore.domain.memory import NewMemory, RecallQuery
from chaoscore.testing.contracts.base import LOCAL, World
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses
from tests.faults.sqlite_points import FILE

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0


@contextmanager
def child(role: str, directory: Path, *rest: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.faults.sqlite_child", role, str(directory), *map(str, rest)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
    assert ready, "the child said nothing"
    return process.stdout.readline().strip()


def told(process: subprocess.Popen[str], text: str = "go") -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


# -- killed ------------------------------------------------------------------------------------------------------


def kill_while_working(directory: Path, name: str, after_lines: int, after_seconds: float) -> list[tuple[str, str]]:
    """What a worker said before it was killed at some moment behind its Nth line."""
    said: list[tuple[str, str]] = []
    with child("work", directory, name) as process:
        assert line(process) == "ready"
        for _ in range(after_lines):
            kind, label = line(process).split()
            said.append((kind, label))
        timer = threading.Timer(after_seconds, process.send_signal, (signal.SIGKILL,))
        timer.start()
        assert process.stdout is not None
        for text in process.stdout:
            if text.endswith("\n"):
                kind, label = text.split()
                said.append((kind, label))
        timer.join()
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    return said


async def check_said(directory: Path, said: list[tuple[str, str]]) -> None:
    """All that was said is there, together with its event; what was half done is not there at all."""
    stores = await open_stores(directory, SystemClock(), RandomIds(), LinuxProcesses())
    try:
        report = await stores.audit.verify()
        assert report.fault is None, report
        connection = sqlite3.connect(directory / FILE)
        recorded = {row[0] for row in connection.execute("SELECT json_extract(body, '$.kind') FROM audit")}
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
        for kind, label in said:
            assert f"{kind} {label}" in recorded, (kind, label)
            await check_one(stores, kind, label)
        for text in recorded:
            kind, label = text.split()
            if kind in ("plan", "grant", "intent", "result", "memory"):
                await check_one(stores, kind, label)
    finally:
        await stores.close()


async def check_one(stores: Stores, kind: str, label: str) -> None:
    if kind == "plan":
        found = await stores.plans.find_plan(f"plan_{label}", LOCAL)
        assert found is not None and found.plan.label == f"p-{label}"
    elif kind == "memory":
        page = await stores.memory.recall("shared", RecallQuery(key=f"m-{label}"), SystemClock().now())
        assert [memory.value for memory in page.memories] == [f"what {label} remembers"]
    else:
        run = await stores.runs.load_run(f"r-{label}")
        assert run is not None
        assert [grant.id for grant in run.grants] == [f"g-{label}"]
        if kind == "intent":
            assert run.grants[0].used_at is not None and len(run.actions) == 1
        if kind == "result":
            assert run.status == "completed" and run.actions[0].state == "succeeded"


def killing(directory: Path, times: int, seed: int) -> None:
    """As many processes as ``times``, each of them killed."""
    choice = random.Random(seed)
    said: list[tuple[str, str]] = []
    for number in range(times):
        new = kill_while_working(directory, f"w{number}", choice.randrange(12), choice.uniform(0, 0.03))
        said += new
        asyncio.run(check_said(directory, new))
    asyncio.run(check_said(directory, said))
    print(f"\nseed {seed}: {times} processes killed, {len(said)} acknowledged writes all there")


def test_nothing_that_was_said_is_lost_when_a_writer_is_killed(tmp_path: Path) -> None:
    killing(tmp_path / "data", times=6, seed=1)


@pytest.mark.campaign
def test_nothing_that_was_said_is_lost_in_two_hundred_kills(tmp_path: Path) -> None:
    killing(tmp_path / "data", times=200, seed=random.SystemRandom().randrange(2**32))


def test_a_run_whose_owner_was_killed_is_taken_over_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with child("work", directory, "w") as process:
        assert line(process) == "ready"
        while not line(process).startswith("intent"):
            pass
        process.kill()
        process.wait()

    async def taking_over() -> None:
        processes = LinuxProcesses()
        stores = await open_stores(directory, SystemClock(), RandomIds(), processes)
        try:
            runs, _ = await stores.runs.list_runs(LOCAL, 10, None)
            unfinished = [run for run in runs if run.status == "running"]
            for run in unfinished:
                await stores.runs.claim(run.label, processes.current(), SystemClock().now(), 30.0)
        finally:
            await stores.close()

    asyncio.run(taking_over())


# -- at once -----------------------------------------------------------------------------------------------------


def test_processes_that_make_a_directory_at_once_make_one(tmp_path: Path) -> None:
    count, rounds = 4, 12
    with ExitStack() as stack:
        children = [stack.enter_context(child("open", tmp_path)) for _ in range(count)]
        assert [line(process) for process in children] == ["ready"] * count
        for _ in range(rounds):
            for process in children:
                told(process)
            assert [line(process) for process in children] == ["opened"] * count

    async def verifying(directory: Path) -> None:
        stores = await open_stores(directory, SystemClock(), RandomIds(), LinuxProcesses())
        report = await stores.audit.verify()
        await stores.close()
        assert (report.events, report.fault) == (count, None)

    for number in range(rounds):
        asyncio.run(verifying(tmp_path / str(number)))


def test_eight_processes_lose_no_update_and_meet_no_lock_error(tmp_path: Path) -> None:
    times, count = 15, 8
    directory = tmp_path / "data"
    command = [sys.executable, "-m", "tests.faults.sqlite_child", "count", str(directory)]
    children = [
        subprocess.Popen(
            [*command, f"w{number}", str(times)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        assert [line(process) for process in children] == ["ready"] * count
        for process in children:
            told(process)
        ends = [process.communicate(timeout=PATIENCE_SECONDS) for process in children]
    finally:
        for process in children:
            process.kill()
            process.wait()
    assert [out.split()[0] for out, _ in ends] == ["done"] * count, ends

    async def verifying() -> None:
        stores = await open_stores(directory, SystemClock(), RandomIds(), LinuxProcesses())
        try:
            now = SystemClock().now()
            (counter,) = (await stores.memory.recall("shared", RecallQuery(key="counter"), now)).memories
            assert (counter.value, counter.version) == (times * count, times * count)
            report = await stores.audit.verify()
            assert (report.events, report.fault) == (2 * times * count, None)
        finally:
            await stores.close()

    asyncio.run(verifying())


@contextmanager
def somebody_writing(directory: Path) -> Iterator[None]:
    """Another process is in the middle of a write: what it holds is the gate."""
    with open(directory / "write.gate", "rb") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


# -- bounded waits -----------------------------------------------------------------------------------------------


async def impatient(directory: Path) -> World:
    clock, ids, processes = FakeClock(), CountingIds(), FakeProcesses()
    stores = await open_stores(directory, clock, ids, processes, wait_seconds=0.3)
    return World(directory, open_stores, stores, clock, ids, processes, [stores])


def test_a_writer_waits_a_bounded_time_for_another_process_and_reading_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        world = await impatient(tmp_path / "data")
        await world.add_plan("p-1")
        with somebody_writing(world.directory):
            waiting = [asyncio.ensure_future(world.add_plan(f"p-{number}")) for number in (2, 3)]
            for answer in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(answer, StorageError) and answer.code == "STORE_BUSY", answer
            assert await world.stores.plans.plan_by_label("p-1") is not None
        await world.add_plan("p-4")
        # what its caller was told could not be done is not done later
        assert await world.kinds() == ["plan-stored", "plan-stored"]
        await world.stores.close()

    asyncio.run(story())


def test_a_program_that_locks_the_file_itself_is_waited_for_a_bounded_time(tmp_path: Path) -> None:
    async def story() -> None:
        world = await impatient(tmp_path / "data")
        await world.add_plan("p-1")
        shell = sqlite3.connect(world.directory / FILE, isolation_level=None)
        shell.execute("BEGIN IMMEDIATE")
        answers = await asyncio.gather(world.add_plan("p-2"), world.add_plan("p-3"), return_exceptions=True)
        assert [getattr(answer, "code", None) for answer in answers] == ["STORE_BUSY"] * 2
        assert await world.stores.plans.plan_by_label("p-1") is not None
        shell.execute("ROLLBACK")
        shell.close()
        await world.add_plan("p-2")
        await world.stores.close()

    asyncio.run(story())


def test_a_cancelled_call_is_not_done_unless_it_had_begun(tmp_path: Path) -> None:
    async def story() -> None:
        world = await impatient(tmp_path / "data")
        with somebody_writing(world.directory):
            call = asyncio.ensure_future(world.add_plan("p-1"))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait({call})
        await world.add_plan("p-2")
        assert await world.stores.plans.plan_by_label("p-1") is None
        await world.stores.close()

    asyncio.run(story())


def test_the_event_loop_goes_on_while_a_write_waits(tmp_path: Path) -> None:
    async def story() -> None:
        world = await impatient(tmp_path / "data")
        turns = 0
        with somebody_writing(world.directory):
            call = asyncio.ensure_future(world.add_plan("p-1"))
            while not call.done():
                await asyncio.sleep(0)
                turns += 1
        assert turns > 100
        assert isinstance(call.exception(), StorageError)
        await world.stores.close()

    asyncio.run(story())


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async def story() -> None:
        world = await impatient(tmp_path / "data")
        await world.stores.close()
        with pytest.raises(StorageError, match="closed"):
            await world.add_plan("p-1")
        with pytest.raises(StorageError, match="closed"):
            await world.stores.memory.recall("shared", RecallQuery(), world.clock.now())

    asyncio.run(story())


def test_closing_finishes_what_was_handed_over(tmp_path: Path) -> None:
    async def story() -> None:
        world = await impatient(tmp_path / "data")
        put = world.stores.memory.put("shared", NewMemory("k", 1), world.clock.now(), ())
        call = asyncio.ensure_future(put)
        await asyncio.sleep(0)
        await world.stores.close()
        assert (await call).version == 1
        threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("chaoscore")]
        assert threads == []

    asyncio.run(story())
    assert not (tmp_path / "data" / f"{FILE}-wal").exists(), "the last one out puts everything into the database"
