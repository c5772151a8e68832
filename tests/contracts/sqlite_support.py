"""What the SQLite tests share beside the contracts: opening, and reaching into the file behind the stores' back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

from chaoscore.adapters.sqlite import Stores, open_stores
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.testing.contracts.base import World
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses

FILE = "chaoscore.db"


async def sqlite_world(directory: Path, disk: Disk | None = None, wait_seconds: float = 10.0) -> World:
    """A world on SQLite; ``directory`` is the data directory itself."""
    clock, ids, processes = FakeClock(), CountingIds(), FakeProcesses()

    async def opener(where: Path, *rest: object) -> Stores:
        return await open_stores(where, *rest, disk=disk, wait_seconds=wait_seconds)  # type: ignore[arg-type]

    stores = await opener(directory, clock, ids, processes)
    return World(directory, opener, stores, clock, ids, processes, [stores])


def tell(directory: Path, story: Callable[[World], Awaitable[None]]) -> None:
    """Tell a story in a world on SQLite and close it."""

    async def telling() -> None:
        world = await sqlite_world(directory)
        try:
            await story(world)
        finally:
            for stores in world.opened:
                await stores.close()

    asyncio.run(telling())


def behind_the_back(directory: Path, *statements: str) -> None:
    """Change the file as somebody with an SQLite shell would."""
    connection = sqlite3.connect(directory / FILE, isolation_level=None, timeout=10)
    try:
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


def look(directory: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(f"file:{directory / FILE}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()
