"""A disk that is full, cannot be written, or returns something else: the old state stays whole, the error says which
it is, and the next call works once the fault is over.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from chaoscore.adapters.sqlite import open_stores
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.domain.errors import StorageError
from chaoscore.domain.memory import NewMemory, RecallQuery
from chaoscore.testing.contracts.base import LOCAL, World, refused
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses
from tests.faults.sqlite_points import FILE, heal_and_go_on, open_world, prepare, state

ROOT = Path(__file__).resolve().parents[2]
CHILD = [sys.executable, "-m", "tests.faults.sqlite_child"]


def run_child(*arguments: object, around: Sequence[str] = ()) -> list[list[str]]:
    """Lines of a child process, as words; ``around`` is a command that runs it."""
    done = subprocess.run(
        [*around, *CHILD, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env=_environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [line.split(" ", 2) for line in done.stdout.splitlines()]


def mounted(shell: str) -> list[str]:
    """Runs a command in a mount namespace of its own, in which ``shell`` was run; ``"$@"`` is the command."""
    return ["unshare", "--map-root-user", "--mount", "sh", "-ec", shell, "sh"]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def may_mount() -> bool:
    try:
        probe = mounted("mount -t tmpfs none /mnt")
        return subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode == 0
    except OSError:
        return False


needs_mount = pytest.mark.skipif(not may_mount(), reason="mounting needs user namespaces")


class SmallDisk(Disk):
    """A disk with room for so many pages of the database; SQLite itself says that it is full."""

    pages_max = 60

    def connect(self, path: Path, *, busy_seconds: float) -> sqlite3.Connection:
        connection = super().connect(path, busy_seconds=busy_seconds)
        connection.execute(f"PRAGMA max_page_count = {self.pages_max}")
        return connection


def test_a_database_without_room_keeps_what_it_has_and_goes_on_once_there_is_some(tmp_path: Path) -> None:
    async def story() -> None:
        disk = SmallDisk()
        clock = FakeClock()
        stores = await open_stores(tmp_path / "data", clock, CountingIds(), FakeProcesses(), disk=disk)
        world = World(tmp_path / "data", open_stores, stores, clock)
        claim = await world.claimed_run()
        kept = 0
        assert stores.health()["writes"] == "ok"
        with refused(StorageError, "NO_SPACE") as refusal:
            for kept in range(1_000):
                memory = NewMemory(f"k{kept}", "x" * 20_000)
                await stores.memory.put("shared", memory, clock.now(), (world.event("memory-written"),))
        assert "free some space" in str(refusal.error)
        assert str(stores.health()["writes"]).startswith("NO_SPACE: ")
        assert len((await stores.memory.recall("shared", RecallQuery(limit=100), clock.now())).memories) == kept
        assert (await world.kinds()).count("memory-written") == kept
        disk.pages_max = 10_000
        await stores.memory.forget("shared", "nobody knows this one", clock.now(), ())
        assert stores.health()["writes"] != "ok", "a transaction that changes nothing proves nothing"
        await stores.memory.put("shared", NewMemory("after", "x" * 20_000), clock.now(), ())
        assert stores.health()["writes"] == "ok"
        await stores.runs.renew(claim, clock.now() + 99)
        await stores.close()

    asyncio.run(story())


def kept_and_after(lines: list[list[str]], directory: Path) -> None:
    """Everything said to be kept is there, the failed write is not, the one after it is."""
    *kept, full, after = lines
    assert [words[0] for words in kept] == ["kept"] * len(kept) and kept
    assert full[0] == "full" and full[1] in ("NO_SPACE", "IO_ERROR"), full
    assert str(directory) in full[2]
    assert after == ["after", "ok"]


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    asyncio.run(prepare(directory))
    lines = run_child("limit", directory, 400_000)
    kept_and_after(lines, directory)
    keys = {str(row[2]) for row in state(directory)["memories"]}
    assert {f"k{words[1]}" for words in lines[:-2]} <= keys and "after" in keys
    assert f"k{len(lines) - 2}" not in keys
    asyncio.run(heal_and_go_on(directory))


@needs_mount
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    disk, backup = tmp_path / "disk", tmp_path / "backup"
    disk.mkdir()
    shell = (
        f"mount -t tmpfs -o size=2m none {disk}; head -c 400000 /dev/zero > {disk}/ballast;"
        f' "$@"; cp -r {disk}/data {backup}'
    )
    lines = run_child("fill", disk / "data", disk / "ballast", around=mounted(shell))
    kept_and_after(lines, disk / "data")
    assert lines[-2][1] == "NO_SPACE"
    keys = {str(row[2]) for row in state(backup)["memories"]}
    assert keys == {f"k{words[1]}" for words in lines[:-2]} | {"after"}
    asyncio.run(heal_and_go_on(backup))


@needs_mount
def test_a_file_system_that_can_only_be_read(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    asyncio.run(prepare(directory))
    before = state(directory)
    shell = f'mount --bind {directory} {directory}; mount -o remount,bind,ro {directory}; "$@"'
    (write, code, message), _ = run_child("try", directory, around=mounted(shell))
    assert (write, code) == ("write", "READ_ONLY") and str(directory) in message
    assert state(directory) == before
    (_, code, _), read = run_child("try", directory)
    assert code == "ok" and read[:2] == ["read", "ok"]


@needs_mount
def test_health_names_a_file_system_that_became_read_only_although_nobody_writes(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    asyncio.run(prepare(directory))
    before, (_, code, message) = run_child("health", directory, around=mounted('"$@"'))
    assert before == ["before", "ok"]
    assert code == "READ_ONLY:" and str(directory) in message


WITHOUT_POWERS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
"""Root without its capabilities is a user like any other, and file modes mean something again."""


@pytest.mark.skipif(os.getuid() == 0 and shutil.which(WITHOUT_POWERS[0]) is None, reason="root may write everything")
def test_a_directory_that_this_user_may_only_read(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    asyncio.run(prepare(directory))
    before = state(directory)
    directory.chmod(0o500)
    for path in directory.iterdir():
        path.chmod(0o400)
    try:
        (write, code, message), _ = run_child("try", directory, around=WITHOUT_POWERS if os.getuid() == 0 else ())
    finally:
        directory.chmod(0o700)
        for path in directory.iterdir():
            path.chmod(0o600)
    assert (write, code) == ("write", "PERMISSION"), message
    assert str(directory) in message and "may not use" in message
    assert state(directory) == before
    assert run_child("try", directory)[0][1] == "ok"


# -- damage ------------------------------------------------------------------------------------------------------


def damaged(directory: Path, table: str) -> None:
    """The first page of a table becomes noise."""
    connection = sqlite3.connect(directory / FILE)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with open(directory / FILE, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(range(256)) * (size // 256))


CALLS: dict[str, Callable[[World], Awaitable[object]]] = {
    "plans": lambda world: world.stores.plans.plan_by_label("p-1"),
    "runs": lambda world: world.stores.runs.load_run("r-1"),
    "memories": lambda world: world.stores.memory.recall("shared", RecallQuery(key="kept"), world.clock.now()),
    "audit": lambda world: world.stores.audit.tail(None, None, 10, None),
}


@pytest.mark.parametrize("table", list(CALLS))
def test_a_damaged_page_is_told_and_what_does_not_touch_it_goes_on(tmp_path: Path, table: str) -> None:
    directory = tmp_path / "data"
    asyncio.run(prepare(directory))
    damaged(directory, table)
    noise = (directory / FILE).read_bytes()

    async def story() -> None:
        world = await open_world(directory)
        try:
            for name, call in CALLS.items():
                if name != table:
                    await call(world)
                    continue
                with refused(StorageError, "STORE_CORRUPT") as refusal:
                    await call(world)
                assert "put a backup in its place" in str(refusal.error)
            assert await world.stores.runs.list_runs(LOCAL, 10, None) if table not in ("plans", "runs") else True
        finally:
            await world.stores.close()

    asyncio.run(story())
    assert (directory / FILE).read_bytes() == noise, "what was damaged was written to"


def test_a_database_cut_short_is_told_and_kept(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    asyncio.run(prepare(directory))
    whole = (directory / FILE).read_bytes()
    for length in (100, 4_096, len(whole) // 2):
        shutil.copytree(directory, tmp_path / str(length))
        cut = tmp_path / str(length) / FILE
        cut.write_bytes(whole[:length])

        async def story(where: Path = cut.parent) -> None:
            with refused(StorageError, "STORE_CORRUPT"):
                world = await open_world(where)
                try:
                    for call in CALLS.values():
                        await call(world)
                    await world.add_plan("p-8")
                finally:
                    await world.stores.close()

        asyncio.run(story())
        assert cut.read_bytes() == whole[:length]
