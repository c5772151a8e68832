"""Whatever is done to the audit behind the store's back, ``verify`` says what and where; writing on hides nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoscore.domain.audit import GENESIS, ChainReport, chain_mac
from chaoscore.domain.errors import StorageError
from chaoscore.testing.contracts.base import World
from tests.contracts.sqlite_support import FILE, behind_the_back, look, sqlite_world, tell

EVENTS = 20
FREE_HANDS = ("DROP TRIGGER audit_is_never_changed", "DROP TRIGGER audit_is_never_deleted")


async def record(world: World, count: int = EVENTS, text: str = "words") -> None:
    for number in range(count):
        await world.stores.audit.append((world.event(f"e{number}", run=f"r-{number % 3}", text=text),))


def verify(directory: Path) -> ChainReport:
    async def verifying() -> ChainReport:
        world = await sqlite_world(directory)
        try:
            return await world.stores.audit.verify()
        finally:
            await world.stores.close()

    return asyncio.run(verifying())


def recomputed(directory: Path, key: bytes, from_seq: int) -> None:
    """Links made anew over what the rows say now, with a key that may or may not be the right one."""
    rows = look(directory, "SELECT seq, body, mac FROM audit ORDER BY seq")
    previous, updates = GENESIS, []
    for seq, body, mac in rows:
        assert isinstance(seq, int) and isinstance(body, str) and isinstance(mac, str)
        if seq >= from_seq:
            mac = chain_mac(key, seq, previous, body)
            updates.append(f"UPDATE audit SET mac = '{mac}' WHERE seq = {seq}")
        previous = mac
    behind_the_back(directory, *updates)


def sql(*statements: str) -> Callable[[Path], None]:
    return lambda directory: behind_the_back(directory, *FREE_HANDS, *statements)


def altered_and_recomputed(directory: Path) -> None:
    sql("UPDATE audit SET body = replace(body, 'words', 'Words') WHERE seq = 5")(directory)
    recomputed(directory, b"k" * 32, 5)


def replaced_key(directory: Path) -> None:
    (directory / "audit.key").write_bytes(b"k" * 32)


def own_chain(directory: Path) -> None:
    """Key replaced, its fingerprint too, everything recomputed: only the head outside still knows."""
    import hmac

    key = b"k" * 32
    replaced_key(directory)
    fingerprint = hmac.new(key, b"chaoscore audit key", "sha256").hexdigest()
    sql(f"UPDATE facts SET value = '{fingerprint}' WHERE name = 'audit_key'")(directory)
    recomputed(directory, key, 1)


def deleted_database(directory: Path) -> None:
    for path in directory.glob(f"{FILE}*"):
        path.unlink()


def overwritten(name: str, content: bytes) -> Callable[[Path], None]:
    def tamper(directory: Path) -> None:
        (directory / name).write_bytes(content)

    return tamper


TAMPERINGS: dict[str, tuple[Callable[[Path], None], str]] = {
    "an altered body": (sql("UPDATE audit SET body = replace(body, 'words', 'Words') WHERE seq = 5"), "event 5 was"),
    "a body that is no event": (sql("UPDATE audit SET body = 'x' WHERE seq = 5"), "event 5 was"),
    "a body that is no text": (sql("UPDATE audit SET body = x'ff00' WHERE seq = 5"), "event 5 was"),
    "text that is not UTF-8": (sql("UPDATE audit SET body = CAST(x'ff00' AS TEXT) WHERE seq = 5"), "event 5 was"),
    "an altered link": (
        sql("UPDATE audit SET mac = replace(mac, substr(mac, 1, 1), 'g') WHERE seq = 5"),
        "event 5 was",
    ),
    "another principal": (sql("UPDATE audit SET principal = 'somebody' WHERE seq = 5"), "event 5 was"),
    "another run": (sql("UPDATE audit SET run = NULL WHERE seq = 5"), "event 5 was"),
    "a missing event": (sql("DELETE FROM audit WHERE seq = 5"), "event 5 is missing"),
    "a missing first event": (sql("DELETE FROM audit WHERE seq = 1"), "event 1 is missing"),
    "two that changed places": (
        sql(
            "UPDATE audit SET seq = 1000 WHERE seq = 5",
            "UPDATE audit SET seq = 5 WHERE seq = 6",
            "UPDATE audit SET seq = 6 WHERE seq = 1000",
        ),
        "event 5 was",
    ),
    "a gap that was closed": (
        sql("DELETE FROM audit WHERE seq = 5", "UPDATE audit SET seq = seq - 1 WHERE seq > 5"),
        "event 5 was",
    ),
    "links recomputed without the key": (altered_and_recomputed, "event 5 was"),
    "an event put in front": (sql("INSERT INTO audit VALUES (0, 'p', NULL, '{}', 'm')"), "event 1 is missing"),
    "a cut-off end": (sql(f"DELETE FROM audit WHERE seq > {EVENTS - 3}"), "was cut off"),
    "everything cut off": (sql("DELETE FROM audit"), "was cut off"),
    "a deleted database": (deleted_database, "was cut off"),
    "a replaced key": (replaced_key, "not the key that the audit was begun with"),
    "a key cut short": (overwritten("audit.key", b"k"), "not a key"),
    "a missing key": (lambda d: (d / "audit.key").unlink(), "audit.key"),
    "a chain of somebody's own": (own_chain, "differs from the checkpoint"),
    "a missing head": (lambda d: (d / "audit.head").unlink(), "audit.head"),
    "a head that is none": (overwritten("audit.head", b"nothing"), "audit.head"),
    "a head of something else": (overwritten("audit.head", b"%020d %s\n" % (7, b"ab" * 32)), "event 7 differs"),
}


@pytest.mark.parametrize("name", list(TAMPERINGS))
def test_tampering_is_found_and_not_hidden_by_writing_on(tmp_path: Path, name: str) -> None:
    tamper, fault = TAMPERINGS[name]
    directory = tmp_path / "data"
    tell(directory, record)
    assert verify(directory).fault is None
    tamper(directory)
    report = verify(directory)
    assert report.fault is not None and fault in report.fault, report

    async def write_on(world: World) -> None:
        if "key" in name and name != "links recomputed without the key":
            with pytest.raises(StorageError, match=r"audit\.key"):
                await record(world, 2 * EVENTS, "later")
        else:
            await record(world, 2 * EVENTS, "later")

    tell(directory, write_on)
    report = verify(directory)
    assert report.fault is not None, "writing on hid it"


def test_cutting_off_while_a_process_writes_is_found(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await record(world)
        behind_the_back(world.directory, *FREE_HANDS, "DELETE FROM audit WHERE seq > 10")
        assert "was cut off" in str((await world.stores.audit.verify()).fault)
        await record(world, text="later")
        assert (await world.stores.audit.verify()).fault is not None

    tell(tmp_path / "data", story)


def test_the_table_refuses_to_be_changed_by_mistake(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    tell(directory, record)
    for statement in ("UPDATE audit SET run = NULL", "DELETE FROM audit WHERE seq = 3"):
        with pytest.raises(Exception, match="append-only"):
            behind_the_back(directory, statement)
    assert verify(directory).fault is None


def test_without_its_key_nothing_is_done_unrecorded_and_reading_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    tell(directory, World.claimed_run)  # type: ignore[arg-type]
    key = (directory / "audit.key").read_bytes()
    (directory / "audit.key").unlink()

    async def without(world: World) -> None:
        assert (await world.loaded()).label == "r-1"
        assert len(await world.stores.audit.tail(None, None, 10, None)) == 2
        with pytest.raises(StorageError, match=r"audit\.key") as caught:
            await world.add_plan("p-2")
        assert caught.value.code == "STORE_CORRUPT"
        with pytest.raises(StorageError, match=r"audit\.key"):
            world.stores.audit.redact("x")
        assert await world.stores.plans.plan_by_label("p-2") is None
        assert not (world.directory / "audit.key").exists(), "a key was made up"

    tell(directory, without)
    (directory / "audit.key").write_bytes(key)
    tell(directory, lambda world: world.add_plan("p-2"))  # type: ignore[arg-type, return-value]
    assert verify(directory).fault is None


def test_a_head_that_fell_behind_in_a_crash_catches_up(tmp_path: Path) -> None:
    directory = tmp_path / "data"

    async def story(world: World) -> None:
        await record(world, 5)
        shutil.copy(directory / "audit.head", tmp_path / "behind")
        await record(world, 5)

    tell(directory, story)
    shutil.copy(tmp_path / "behind", directory / "audit.head")
    assert verify(directory).fault is None
    tell(directory, lambda world: record(world, 1))
    assert (directory / "audit.head").read_bytes().startswith(b"%020d " % 11)
    assert verify(directory).fault is None


def test_events_are_found_the_same_whether_they_are_listed_yet_or_not(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await record(world, 600)
        everything = await world.stores.audit.tail(None, None, 1_000, None)
        mine = [(seq, event) for seq, event in everything if event["run"] == "r-1"]
        principal = str(mine[0][1]["principal"])
        assert list(await world.stores.audit.tail(None, "r-1", 1_000, None)) == mine
        pages: list[int] = []
        before: int | None = None
        while page := await world.stores.audit.tail(None, "r-1", 37, before):
            pages += [seq for seq, _ in page]
            before = page[-1][0]
        assert pages == [seq for seq, _ in mine]
        assert principal == "local:1000"

    tell(tmp_path / "data", story)
    assert look(tmp_path / "data", "SELECT value FROM facts WHERE name = 'audit_listed'") == [("512",)]


def test_verifying_a_long_chain_takes_constant_memory(tmp_path: Path) -> None:
    import tracemalloc

    async def story(world: World) -> None:
        event = world.event("e", text="x" * 2_000)
        for _ in range(12):
            await world.stores.audit.append([event] * 500)
        tracemalloc.start()
        report = await world.stores.audit.verify()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (report.events, report.fault) == (6_000, None)
        assert peak < 6_000_000, peak  # the chain has 13 MB

    tell(tmp_path / "data", story)
