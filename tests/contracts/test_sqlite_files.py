"""The files of a data directory: who may read them, when they are written, and which ones are refused."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaoscore.adapters.sqlite import open_stores
from chaoscore.adapters.sqlite.chain import Chain
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.adapters.sqlite.opening import Opening
from chaoscore.adapters.sqlite.schema import MIGRATIONS
from chaoscore.adapters.sqlite.turnstile import Turnstile
from chaoscore.domain.errors import ConfigurationInvalid, StorageError
from chaoscore.domain.memory import NewMemory, RecallQuery
from chaoscore.testing.contracts.base import LOCAL, World
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses
from tests.contracts.sqlite_support import FILE, behind_the_back, look, sqlite_world, tell


def contents(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every file that is state, with its times; ``-shm`` and ``-wal`` come and go with the connections."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in directory.iterdir()
        if not path.name.endswith(("-shm", "-wal"))
    }


def test_a_new_data_directory_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:

        async def story(world: World) -> None:
            await world.claimed_run()
            for path in world.directory.iterdir():
                assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
            assert stat.S_IMODE(world.directory.stat().st_mode) == 0o700

        tell(tmp_path / "deep" / "data", story)
    finally:
        os.umask(old)


def test_opening_and_reading_write_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "data"

    async def begin(world: World) -> None:
        await world.claimed_run()
        await world.stores.memory.put("shared", NewMemory("k", "some words", ("t",)), world.clock.now(), ())

    async def read(world: World) -> None:
        now = world.clock.now()
        await world.stores.plans.find_plan("plan_x", LOCAL)
        await world.loaded()
        await world.stores.runs.list_runs(LOCAL, 10, None)
        for query in (RecallQuery(key="k"), RecallQuery(text="ome wor"), RecallQuery(tags=("t",)), RecallQuery()):
            await world.stores.memory.recall("shared", query, now)
        await world.stores.memory.history("shared", "k", 10)
        assert await world.stores.memory.sweep(now, 10) == 0
        await world.stores.audit.tail(None, None, 10, None)
        assert (await world.stores.audit.verify()).fault is None
        assert look(directory, "PRAGMA data_version")

    tell(directory, begin)
    before = contents(directory)
    tell(directory, read)
    assert contents(directory) == before


def test_health_tells_what_was_found(tmp_path: Path) -> None:
    async def story() -> None:
        stores = await open_stores(tmp_path / "data", FakeClock(), CountingIds(), FakeProcesses())
        health = stores.health()
        await stores.close()
        assert health["schema"] == len(MIGRATIONS)
        assert (health["journal_mode"], health["audit"]) == ("wal", "ok")
        assert health["fts5"] in (True, False)

    asyncio.run(story())


def refused_open(directory: Path) -> Exception:
    before = contents(directory)
    with pytest.raises((ConfigurationInvalid, StorageError)) as caught:
        asyncio.run(sqlite_world(directory))
    assert contents(directory) == before, "what was refused was changed"
    return caught.value


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    tell(directory, World.claimed_run)  # type: ignore[arg-type]
    behind_the_back(directory, "PRAGMA user_version = 99")
    error = refused_open(directory)
    assert isinstance(error, ConfigurationInvalid)
    assert "99" in str(error) and "update chaos-core" in str(error)


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    behind_the_back(directory, "CREATE TABLE theirs (x)")
    assert isinstance(refused_open(directory), ConfigurationInvalid)


@pytest.mark.parametrize("junk", [b"this is no database at all" * 100, os.urandom(5_000), b"SQLite format 3\x00" * 64])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, junk: bytes) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / FILE).write_bytes(junk)
    error = refused_open(directory)
    assert getattr(error, "code", "") in ("STORE_CORRUPT", "CONFIG_INVALID"), error
    assert str(directory / FILE) in str(error)


def test_an_empty_file_where_the_database_belongs_becomes_one(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / FILE).touch()
    tell(directory, World.claimed_run)  # type: ignore[arg-type]


def test_a_database_made_by_somebody_else_between_any_two_statements_of_opening_is_used(tmp_path: Path) -> None:
    """Another process is half way: the file is there and switched to WAL, its schema comes at the worst moment."""

    class Interrupted(Disk):
        __slots__ = ("before", "came", "directory", "said")

        def __init__(self, directory: Path, before: int) -> None:
            self.directory, self.before, self.said, self.came = directory, before, 0, False

        def connect(self, path: Path, *, busy_seconds: float) -> sqlite3.Connection:
            connection = super().connect(path, busy_seconds=busy_seconds)
            connection.set_trace_callback(self.step)
            return connection

        def step(self, _: str) -> None:
            self.said += 1
            if self.said == self.before:
                self.came = True
                tell(self.directory, World.claimed_run)  # type: ignore[arg-type]

        def lock(self, file: int, *, wait: bool = True) -> bool:
            self.before = 0  # from here on nobody else gets in
            return super().lock(file, wait=wait)

    places, came, before = 0, True, 0
    while came:
        before += 1
        directory = tmp_path / str(before)
        directory.mkdir()
        behind_the_back(directory, "PRAGMA journal_mode = WAL")
        disk = Interrupted(directory, before)
        opening = Opening(disk, directory, Turnstile(disk, directory), lambda: None, lambda _: None, 0.2, MIGRATIONS)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(opening.prepare).result().close()
        came = disk.came
        assert look(directory, "SELECT count(*) FROM plans") == [(1,) if came else (0,)]
        places += came
    assert places


def test_an_older_schema_is_brought_up_to_date_with_its_rows(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    tell(directory, World.claimed_run)  # type: ignore[arg-type]
    disk = Disk()

    def second(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE plans ADD COLUMN more TEXT NOT NULL DEFAULT 'kept'")

    def never() -> None:
        raise AssertionError("an existing database was begun anew")

    def opening(*more: object) -> Opening:
        steps = (*MIGRATIONS, *more)
        return Opening(disk, directory, Turnstile(disk, directory), never, lambda _: never(), 5.0, steps)  # type: ignore[arg-type]

    opening(second).prepare().close()
    assert look(directory, "SELECT label, more FROM plans") == [("p-1", "kept")]
    assert look(directory, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TABLE plans")
        raise sqlite3.OperationalError("half way")

    with pytest.raises(sqlite3.OperationalError):
        opening(second, broken).prepare()
    assert look(directory, "SELECT label FROM plans") == [("p-1",)]
    assert look(directory, "PRAGMA user_version") == [(len(MIGRATIONS) + 1,)]


def test_a_database_of_the_first_version_keeps_its_runs_and_can_ask_people(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    disk = Disk()
    chain = Chain(disk, directory, CountingIds())
    turnstile = Turnstile(disk, directory)
    Opening(disk, directory, turnstile, chain.prelude, chain.first_rows, 5.0, MIGRATIONS[:1]).prepare().close()
    behind_the_back(
        directory,
        "INSERT INTO runs (label, credential, plan, owner, status, created_at, updated_at)"
        " VALUES ('r-old', x'00', 'p-old', 'local:1', 'waiting-for-decision', 1, 1)",
    )

    async def story(world: World) -> None:
        run = await world.stores.runs.load_run("r-old")
        assert run is not None and (run.decisions, run.root, run.wish) == ((), None, None)

    tell(directory, story)
    assert look(directory, "PRAGMA user_version") == [(len(MIGRATIONS),)]


def test_a_deleted_database_is_noticed_by_whoever_writes_next(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.add_plan("p-1")
        for path in world.directory.glob(f"{FILE}*"):
            path.unlink()
        for _ in range(2):
            with pytest.raises(StorageError, match="moved, deleted or replaced") as caught:
                await world.add_plan("p-2")
            assert caught.value.code == "IO_ERROR"
        assert not (world.directory / FILE).exists()

    tell(tmp_path / "data", story)


def test_a_replaced_database_is_used_from_the_next_call_on(tmp_path: Path) -> None:
    directory = tmp_path / "data"

    async def story(world: World) -> None:
        await world.add_plan("p-1")
        backup = sqlite3.connect(tmp_path / "backup.db")
        source = sqlite3.connect(directory / FILE)
        source.backup(backup)
        backup.close()
        source.close()
        await world.add_plan("p-2")
        for path in directory.glob(f"{FILE}-*"):
            path.unlink()
        (tmp_path / "backup.db").replace(directory / FILE)
        with pytest.raises(StorageError, match="moved, deleted or replaced"):
            await world.add_plan("p-3")
        assert await world.stores.plans.plan_by_label("p-1") is not None
        assert await world.stores.plans.plan_by_label("p-2") is None

    tell(directory, story)
