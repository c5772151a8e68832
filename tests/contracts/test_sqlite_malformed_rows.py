"""A row that cannot be read is reported by its key, kept as it is, and takes nothing else down (law 11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaoscore.domain.errors import StorageError
from chaoscore.domain.memory import NewMemory, RecallQuery
from chaoscore.domain.records import Changes
from chaoscore.testing.contracts.base import LOCAL, World, refused
from tests.contracts.sqlite_support import behind_the_back, look, tell

PLANS = ["body = 'x'", "body = '[]'", "body = x'00'", "body = replace(body, 'p-1', 'p-9')", "body = NULL || ''"]
RUNS = ["status = 'odd'", "process = 'x'", "process = '[1]'", "fence = 'x'", "evaluation = '{}'", "created_at = 'x'"]


@pytest.mark.parametrize("damage", [*PLANS[:4], 'body = \'{"label": "p-1"}\''])
def test_a_malformed_plan(tmp_path: Path, damage: str) -> None:
    async def story(world: World) -> None:
        credential = await world.add_plan("p-1")
        other = await world.add_plan("p-2")
        behind_the_back(world.directory, f"UPDATE plans SET {damage} WHERE label = 'p-1'")
        kept = look(world.directory, "SELECT * FROM plans WHERE label = 'p-1'")
        with refused(StorageError, "STORE_CORRUPT") as refusal:
            await world.stores.plans.find_plan(credential, LOCAL)
        assert refusal.error.details["key"] == "p-1"
        with refused(StorageError, "STORE_CORRUPT"):
            await world.stores.plans.plan_by_label("p-1")
        assert await world.stores.plans.find_plan(other, LOCAL) is not None
        await world.add_plan("p-3")
        assert look(world.directory, "SELECT * FROM plans WHERE label = 'p-1'") == kept

    tell(tmp_path / "data", story)


@pytest.mark.parametrize("damage", RUNS)
def test_a_malformed_run(tmp_path: Path, damage: str) -> None:
    async def story(world: World) -> None:
        await world.add_plan("p-1")
        await world.open_run("r-1", "p-1")
        await world.add_plan("p-2")
        await world.open_run("r-2", "p-2")
        behind_the_back(world.directory, f"UPDATE runs SET {damage} WHERE label = 'r-1'")
        kept = look(world.directory, "SELECT * FROM runs WHERE label = 'r-1'")
        for call in (
            world.stores.runs.load_run("r-1"),
            world.stores.runs.run_of_plan("p-1"),
            world.claim("r-1"),
            world.open_run("r-9", "p-1"),
            world.stores.runs.record_outside("r-1", Changes(status="cancelled"), ()),
        ):
            with refused(StorageError, "STORE_CORRUPT") as refusal:
                await call
            assert refusal.error.details["key"] == "r-1"
        runs, _ = await world.stores.runs.list_runs(LOCAL, 10, None)
        assert "r-2" in [run.label for run in runs]
        await world.stores.runs.commit(await world.claim("r-2"), Changes(actions=(world.action(),)), ())
        assert look(world.directory, "SELECT * FROM runs WHERE label = 'r-1'") == kept

    tell(tmp_path / "data", story)


def test_a_malformed_action_is_never_overwritten(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        claim = await world.claimed_run()
        await world.stores.runs.commit(claim, Changes(actions=(world.action("s1"), world.action("s2"))), ())
        behind_the_back(world.directory, "UPDATE actions SET body = '{\"half' WHERE step = 's1'")
        with refused(StorageError, "STORE_CORRUPT") as refusal:
            await world.loaded()
        assert "r-1/s1" in str(refusal.error.details["key"])
        with refused(StorageError, "STORE_CORRUPT"):
            changes = Changes(actions=(world.action("s3"), world.action("s1", state="failed")))
            await world.stores.runs.commit(claim, changes, (world.event("never"),))
        assert look(world.directory, "SELECT body FROM actions WHERE step = 's1'") == [('{"half',)]
        assert look(world.directory, "SELECT count(*) FROM actions") == [(2,)]
        await world.stores.runs.commit(claim, Changes(actions=(world.action("s2", state="failed"),)), ())
        assert "never" not in await world.kinds()

    tell(tmp_path / "data", story)


MEMORIES = ["value = 'x'", "value = x'00'", "tags = 'x'", "tags = '{}'", "kind = 'odd'", "created_at = 'x'"]


@pytest.mark.parametrize("damage", MEMORIES)
def test_a_malformed_memory(tmp_path: Path, damage: str) -> None:
    async def story(world: World) -> None:
        memory, now = world.stores.memory, world.clock.now()
        await memory.put("shared", NewMemory("bad", "some words"), now, ())
        await memory.put("shared", NewMemory("good", "other words"), now, ())
        behind_the_back(world.directory, f"UPDATE memories SET {damage} WHERE key = 'bad'")
        kept = look(world.directory, "SELECT * FROM memories WHERE key = 'bad'")
        with refused(StorageError, "STORE_CORRUPT") as refusal:
            await memory.recall("shared", RecallQuery(key="bad"), now)
        assert refusal.error.details["key"] == "bad"
        with refused(StorageError, "STORE_CORRUPT"):
            await memory.put("shared", NewMemory("bad", "new"), now, (world.event("never"),))
        for query in (RecallQuery(text="words"), RecallQuery(text="ord"), RecallQuery()):
            found = await memory.recall("shared", query, now)
            assert [m.key for m in found.memories] == ["good"], query
        await memory.put("shared", NewMemory("good", "newer words"), now, ())
        assert look(world.directory, "SELECT * FROM memories WHERE key = 'bad'") == kept
        assert await world.kinds() == []
        assert await memory.forget("shared", "bad", now, ()), "whoever asks for it may have it gone"

    tell(tmp_path / "data", story)
