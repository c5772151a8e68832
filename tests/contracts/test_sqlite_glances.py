"""A memory read by its key on the event loop's thread: when that happens, and that it answers as the thread would."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chaoscore.adapters.sqlite import open_stores
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.adapters.sqlite.glance import (
    GLANCES_MAX,
    PAUSE_SECONDS,
    ROW_CHARS_MAX,
    SLOW_SECONDS,
    WARM_ROWS_MAX,
    WARM_SECONDS,
)
from chaoscore.domain.errors import StorageError
from chaoscore.domain.memory import NewMemory, RecallQuery
from chaoscore.testing.contracts.base import World
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses
from chaoscore.testing.faults import FaultInjector, fault_points
from tests.contracts.sqlite_support import FILE, behind_the_back, sqlite_world

LOOKED_UP = "FROM memories WHERE namespace ="
AS_LONG_AS_IT_TAKES = 30.0


class Watched(Disk):
    """Tells of every look-up of a memory by its key, in the thread that does it, before SQLite begins."""

    __slots__ = ("looked_up", "when")

    def __init__(self, when: Callable[[], None] = lambda: None) -> None:
        self.when = when
        self.looked_up: list[bool] = []  # on the loop's thread?

    @property
    def on_the_loop(self) -> int:
        return sum(self.looked_up)

    def connect(self, path: Path, *, busy_seconds: float) -> sqlite3.Connection:
        connection = super().connect(path, busy_seconds=busy_seconds)
        connection.set_trace_callback(self.see)
        return connection

    def see(self, statement: str) -> None:
        if LOOKED_UP in statement and "memory_history" not in statement and statement.startswith("SELECT"):
            self.looked_up.append(threading.current_thread() is threading.main_thread())
            self.when()


def tell(directory: Path, disk: Disk, story: Callable[[World], Awaitable[None]]) -> None:
    async def telling() -> None:
        world = await sqlite_world(directory, disk)
        try:
            await story(world)
        finally:
            await world.stores.close()

    asyncio.run(telling())


async def put(world: World, key: str, value: str) -> None:
    await world.stores.memory.put("shared", NewMemory(key, value), world.clock.now(), ())


async def get(world: World, key: str) -> object:
    found = (await world.stores.memory.recall("shared", RecallQuery(key=key), world.clock.now())).memories
    return found[0].value if found else None


def test_a_row_that_was_just_read_or_written_is_read_on_the_loops_own_thread(tmp_path: Path) -> None:
    disk = Watched()

    async def write(world: World) -> None:
        for key in ("a", "b"):
            await put(world, key, f"of {key}")

    async def read(world: World) -> None:
        disk.looked_up.clear()
        assert [await get(world, key) for key in ("a", "a", "b", "b", "a")] == ["of a", "of a", "of b", "of b", "of a"]
        assert disk.looked_up == [False, True, False, True, True]
        await put(world, "c", "of c")
        disk.looked_up.clear()
        assert await get(world, "c") == "of c"
        assert await get(world, "none") is None and await get(world, "none") is None
        assert disk.looked_up == [True, False, True]

    tell(tmp_path / "data", disk, write)
    tell(tmp_path / "data", disk, read)


def test_every_write_that_was_told_is_seen_whoever_made_it(tmp_path: Path) -> None:
    disk = Watched()

    async def story(world: World) -> None:
        await put(world, "k", "0")
        await get(world, "k")
        other = await sqlite_world(world.directory)
        disk.looked_up.clear()
        for number in range(1, 10):
            await put(world if number % 2 else other, "k", str(number))
            assert await get(world, "k") == str(number)
        assert await other.stores.memory.forget("shared", "k", world.clock.now(), ())
        assert await get(world, "k") is None
        assert disk.on_the_loop == 10
        await other.stores.close()

    tell(tmp_path / "data", disk, story)


def test_what_expired_is_gone_and_what_is_malformed_is_told_at_a_glance_too(tmp_path: Path) -> None:
    disk = Watched()

    async def story(world: World) -> None:
        now = world.clock.now()
        await world.stores.memory.put("shared", NewMemory("short-lived", 1, ttl_seconds=5.0), now, ())
        await put(world, "k", "whole")
        await get(world, "k")
        assert await get(world, "short-lived") == 1
        world.clock.advance(6)
        behind_the_back(world.directory, "UPDATE memories SET value = '{' WHERE key = 'k'")
        disk.looked_up.clear()
        assert await get(world, "short-lived") is None
        with pytest.raises(StorageError) as caught:
            await get(world, "k")
        assert caught.value.code == "STORE_CORRUPT" and "'k'" in str(caught.value)
        assert disk.looked_up == [True, True]

    tell(tmp_path / "data", disk, story)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_that_is_gone_or_replaced_is_noticed(tmp_path: Path, replaced: bool) -> None:
    async def story(world: World) -> None:
        await put(world, "k", "old")
        assert [await get(world, "k") for _ in range(3)] == ["old"] * 3
        for path in world.directory.glob(f"{FILE}*"):
            path.rename(world.directory / f"old-{path.name}")
        if replaced:
            await asyncio.to_thread(tell, world.directory, Disk(), lambda other: put(other, "k", "new"))
            assert [await get(world, "k") for _ in range(3)] == ["new"] * 3
            return
        for _ in range(3):
            with pytest.raises(StorageError) as caught:
                await get(world, "k")
            assert str(world.directory / FILE) in str(caught.value)

    tell(tmp_path / "data", Disk(), story)


def test_a_row_that_is_not_in_memory_keeps_the_thread_waiting_and_not_the_loop(tmp_path: Path) -> None:
    """The disk hangs until somebody does something else on the loop."""
    came = threading.Event()
    disk = Watched()

    async def story(world: World) -> None:
        await put(world, "warm", "w")
        behind_the_back(
            world.directory,
            "INSERT INTO memories SELECT id + 100, namespace, 'cold', version, created_at, updated_at, expires_at,"
            " kind, source, trust, episode, valid_from, valid_to, indexed, tags, value FROM memories",
        )
        await get(world, "warm")
        disk.looked_up.clear()
        disk.when = lambda: None if disk.looked_up[-1] else _hang(came)
        cold = asyncio.ensure_future(get(world, "cold"))
        await asyncio.sleep(0)
        assert await get(world, "warm") == "w" and not cold.done()
        came.set()
        assert await cold == "w"
        assert disk.on_the_loop == 1 and len(disk.looked_up) == 2

    tell(tmp_path / "data", disk, story)


def _hang(event: threading.Event) -> None:
    assert event.wait(AS_LONG_AS_IT_TAKES), "the loop waited for the disk"


def test_a_disk_that_turns_out_to_be_slow_holds_the_loop_up_once(tmp_path: Path) -> None:
    disk = Watched()

    async def story(world: World) -> None:
        await put(world, "k", "v")
        await get(world, "k")
        disk.looked_up.clear()
        disk.when = lambda: world.clock.advance(2 * SLOW_SECONDS) if disk.looked_up[-1] else None
        assert [await get(world, "k") for _ in range(50)] == ["v"] * 50
        assert disk.on_the_loop == 1
        world.clock.advance(PAUSE_SECONDS)
        assert [await get(world, "k") for _ in range(50)] == ["v"] * 50
        assert disk.on_the_loop == 2

    tell(tmp_path / "data", disk, story)


def test_a_row_that_nobody_wanted_for_long_is_read_by_the_thread_first(tmp_path: Path) -> None:
    disk = Watched()

    async def story(world: World) -> None:
        await put(world, "k", "v")
        await get(world, "k")
        world.clock.advance(WARM_SECONDS)
        disk.looked_up.clear()
        assert [await get(world, "k") for _ in range(2)] == ["v"] * 2
        assert disk.looked_up == [False, True]

    tell(tmp_path / "data", disk, story)


def test_a_long_row_is_the_threads_work(tmp_path: Path) -> None:
    disk = Watched()

    async def story(world: World) -> None:
        await put(world, "k", "short")
        await get(world, "k")
        await put(world, "k", "x" * ROW_CHARS_MAX)
        disk.looked_up.clear()
        for _ in range(3):
            assert await get(world, "k") == "x" * ROW_CHARS_MAX
        assert disk.looked_up[:2] == [True, False], "looked at on the loop, made a value in the thread"

    tell(tmp_path / "data", disk, story)


def test_whoever_only_reads_lets_others_go_on(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await put(world, "k", "v")
        await get(world, "k")
        went_on: list[bool] = []
        for _ in range(20):
            asyncio.get_running_loop().call_soon(went_on.append, True)
            for _ in range(GLANCES_MAX):
                await get(world, "k")
        assert len(went_on) == 20

    tell(tmp_path / "data", Disk(), story)


def test_many_rows_are_remembered_as_warm_and_not_without_end(tmp_path: Path) -> None:
    disk = Watched()

    async def story(world: World) -> None:
        await put(world, "first", "v")
        await get(world, "first")
        await asyncio.gather(*(get(world, f"none {number}") for number in range(WARM_ROWS_MAX)))
        disk.looked_up.clear()
        assert await get(world, "first") == "v"
        assert disk.looked_up == [False]

    tell(tmp_path / "data", disk, story)


def busy(name: str) -> Exception:
    if name.startswith("connect."):
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_BUSY, "SQLITE_BUSY"
        return error
    return OSError(errno.EIO, "Input/output error")


def broken(name: str) -> Exception:
    if name.startswith("connect"):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_READ, "SQLITE_IOERR_READ"
        return error
    return OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("fault", [busy, broken])
def test_a_glance_that_fails_at_any_call_is_made_good_by_the_thread(
    tmp_path: Path, fault: Callable[[str], Exception]
) -> None:
    async def story() -> None:
        for number in fault_points():
            injector = FaultInjector(number, fault=fault)
            injector.armed = False
            disk = injector.wrap(Disk(), inner=("connect",))
            stores = await open_stores(tmp_path / "data", FakeClock(), CountingIds(), FakeProcesses(), disk=disk)
            world = World(tmp_path / "data", open_stores, stores)
            await put(world, "k", "v")
            assert await get(world, "k") == "v"
            injector.armed = True
            assert await get(world, "k") == "v"
            injector.armed = False
            assert [await get(world, "k") for _ in range(3)] == ["v"] * 3
            await stores.close()
            if not injector.fired:
                assert number > 2, "nothing was read at a glance"
                return

    asyncio.run(story())


def test_an_error_that_stays_is_told_as_the_thread_tells_it(tmp_path: Path) -> None:
    async def story() -> None:
        injector = FaultInjector(1, fault=broken, lasting=True)
        injector.armed = False
        disk = injector.wrap(Disk(), inner=("connect",))
        stores = await open_stores(tmp_path / "data", FakeClock(), CountingIds(), FakeProcesses(), disk=disk)
        world = World(tmp_path / "data", open_stores, stores)
        await put(world, "k", "v")
        await get(world, "k")
        injector.armed = True
        with pytest.raises(StorageError) as caught:
            await get(world, "k")
        assert caught.value.code == "IO_ERROR" and str(tmp_path / "data" / FILE) in str(caught.value)
        injector.armed = False
        assert await get(world, "k") == "v"
        await stores.close()

    asyncio.run(story())
