"""One write of every kind on a prepared directory, and what the directory then says: the material of the campaigns.

``Mortal`` is a disk whose process can die: everything it opened is closed behind the store's back, as the kernel does.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

from chaoscore.adapters.sqlite import Stores, open_stores
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.domain.memory import NewMemory
from chaoscore.domain.records import Changes, Claim
from chaoscore.testing.contracts.base import LOCAL, World
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses
from chaoscore.testing.faults import FaultInjector

FILE = "chaoscore.db"
STATE_TABLES = ("plans", "runs", "actions", "evidence", "grants", "audit", "memories", "memory_history")
CLAIM = Claim("r-1", 1)


class Mortal(Disk):
    """The real disk; remembers what it opened."""

    def __init__(self) -> None:
        self._files: set[int] = set()
        self._connections: list[sqlite3.Connection] = []

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> int:
        file = super().open(path, create=create, write=write)
        self._files.add(file)
        return file

    def close(self, file: int) -> None:
        self._files.discard(file)
        super().close(file)

    def connect(self, path: Path, *, busy_seconds: float) -> sqlite3.Connection:
        connection = super().connect(path, busy_seconds=busy_seconds)
        self._connections.append(connection)
        return connection

    def die(self) -> None:
        """What the kernel does for a process that is gone: locks are let go, what was not committed is not there."""
        for connection in self._connections:
            with contextlib.suppress(sqlite3.ProgrammingError):  # closed already
                if connection.in_transaction:
                    connection.rollback()
                connection.close()
        for file in self._files:
            with contextlib.suppress(OSError):
                os.close(file)
        self._connections, self._files = [], set()


async def open_world(directory: Path, injector: FaultInjector | None = None, mortal: Mortal | None = None) -> World:
    """A world on ``directory``, every call to the disk going through ``injector``."""
    mortal = mortal or Mortal()
    disk = injector.wrap(mortal, inner=("connect",)) if injector is not None else mortal
    clock, ids, processes = FakeClock(), CountingIds(1_000), FakeProcesses()
    clock.advance(500)

    async def opener(where: Path, *rest: object) -> Stores:
        return await open_stores(where, *rest, disk=disk, wait_seconds=1.0)  # type: ignore[arg-type]

    stores = await opener(directory, clock, ids, processes)
    return World(directory, opener, stores, clock, ids, processes, [stores])


async def prepare(directory: Path) -> None:
    """Something of every kind, so that every operation has something to change."""
    stores = await open_stores(directory, FakeClock(), CountingIds(), FakeProcesses())
    world = World(directory, open_stores, stores)
    try:
        claim = await world.claimed_run()
        assert claim == CLAIM
        changes = Changes(actions=(world.action("s1", state="outcome-unknown"),), grants=(world.grant(),))
        await stores.runs.commit(claim, changes, (world.event("granted"),))
        await world.add_plan("p-2")
        await world.open_run("r-2", "p-2")
        for key, ttl in (("kept", None), ("over", 10.0), ("over too", 10.0), ("gone", 10.0), ("last", 10.0)):
            memory = NewMemory(key, f"some words about {key} 部署", ("t",), ttl)
            await stores.memory.put("shared", memory, world.clock.now(), ())
    finally:
        await stores.close()


def _put(key: str) -> Callable[[World], Awaitable[object]]:
    def put(world: World) -> Awaitable[object]:
        memory = NewMemory(key, "other words now", ("u",))
        return world.stores.memory.put("shared", memory, world.clock.now(), (world.event("memory-written"),))

    return put


def _commit(world: World) -> Awaitable[object]:
    changes = Changes(
        actions=(world.action("s1", state="pending", attempt=2), world.action("s2", 0)),
        grants=(world.grant("g-2"),),
        used_grants=("g-1",),
        status="needs-attention",
    )
    return world.stores.runs.commit(CLAIM, changes, (world.event("one"), world.event("two")))


OPERATIONS: dict[str, Callable[[World], Awaitable[object]]] = {
    "add_plan": lambda world: world.stores.plans.add_plan(
        world.plan("p-9"), "plan_new", None, (world.event("plan-stored"),)
    ),
    "open_run": lambda world: world.stores.runs.open_run(
        world.run("r-9", "p-9"), "run_new", False, (world.event("opened"),)
    ),
    "claim": lambda world: world.claim("r-2"),
    "renew": lambda world: world.stores.runs.renew(CLAIM, world.clock.now() + 99),
    "commit": _commit,
    "release": lambda world: world.stores.runs.release(CLAIM, Changes(status="completed"), (world.event("ended"),)),
    "record_outside": lambda world: world.stores.runs.record_outside(
        "r-2", Changes(grants=(world.grant("g-3", "r-2"),), status="cancelled"), (world.event("cancelled"),)
    ),
    "add_evidence": lambda world: world.stores.runs.add_evidence(
        "r-1", "s1", None, 1, {"event": "result"}, (world.event("late"),)
    ),
    "put": _put("new"),
    "put over": _put("kept"),
    "put over an expired one": _put("gone"),
    "forget": lambda world: world.stores.memory.forget("shared", "kept", world.clock.now(), (world.event("forgot"),)),
    "sweep": lambda world: world.stores.memory.sweep(world.clock.now(), 3),
    "append": lambda world: world.stores.audit.append((world.event("one", LOCAL, "r-1"), world.event("two"))),
}


def state(directory: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything the tables say."""
    connection = sqlite3.connect(directory / FILE)
    try:
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in STATE_TABLES}
    finally:
        connection.close()


async def heal_and_go_on(directory: Path) -> None:
    """A fresh process finds a whole chain and a sound file, and can write and find."""
    world = await open_world(directory)
    try:
        report = await world.stores.audit.verify()
        assert report.fault is None, report
        await world.stores.plans.add_plan(world.plan("p-after"), "plan_after", None, (world.event("after"),))
        await world.stores.memory.put("shared", NewMemory("after", "words after"), world.clock.now(), ())
        assert await world.stores.plans.plan_by_label("p-after") is not None
        assert (await world.stores.audit.verify()).fault is None
    finally:
        await world.stores.close()
    connection = sqlite3.connect(directory / FILE)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO memory_index (memory_index) VALUES ('integrity-check')")
    finally:
        connection.close()
