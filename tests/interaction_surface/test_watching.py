"""The provider watches the folder only while somebody watches it, with one task however many do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from chaoscore.adapters.files.interaction.watch import FolderFeed
from chaoscore.adapters.system import SystemClock
from chaoscore.app.interaction_surface import InOrder, InteractionResources
from chaoscore.app.resources import ResourceChange
from tests.interaction.support import Bench, ManualClock


def resources(bench: Bench) -> InteractionResources:
    feed = FolderFeed(bench.root, SystemClock(), 1 << 20)
    return InteractionResources(bench.service(), feed, InOrder(), poll_seconds=0.005)


def test_nothing_is_polled_until_somebody_watches_and_nothing_after_the_last_has_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        provider = resources(Bench(tmp_path))
        assert not provider.is_polling
        leave: list[Callable[[], None]] = [provider.watch(lambda _: None) for _ in range(3)]
        assert provider.is_polling
        for each in leave[:2]:
            each()
        assert provider.is_polling
        leave[2]()
        leave[2]()
        assert not provider.is_polling
        provider.watch(lambda _: None)
        await provider.close()
        assert not provider.is_polling

    asyncio.run(scenario())


def test_a_quiet_folder_tells_nothing_and_a_change_tells_the_document_and_the_lists(tmp_path: Path) -> None:
    async def scenario() -> None:
        bench = Bench(tmp_path)
        feed = FolderFeed(bench.root, SystemClock(), 1 << 20)
        feed.start()
        assert (await feed.changes()).uris() == []
        (bench.root / "sessions").mkdir(parents=True)
        (bench.root / "sessions/RUN-1.json").write_text("{}")
        assert "chaos://interactions/sessions/RUN-1" in (await feed.changes()).uris()
        while (await feed.changes()).uris():
            pass  # a directory counts as changed until its time of writing is 20 ms old
        (bench.root / "active.json").write_text("{}")
        lists = {f"chaos://interactions/{name}" for name in ("active", "locks", "sessions")}
        assert lists <= set((await feed.changes()).uris())
        while (await feed.changes()).uris():
            pass

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_clock_that_jumps_back_hides_no_change(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(SystemClock().now())
        bench = Bench(tmp_path)
        (bench.root / "sessions").mkdir(parents=True)
        feed = FolderFeed(bench.root, clock, 1 << 20)
        feed.start()
        clock.seconds -= 3_600
        (bench.root / "sessions/RUN-1.json").write_text("{}")
        assert "chaos://interactions/sessions/RUN-1" in (await feed.changes()).uris()

    asyncio.run(scenario())


def test_every_watcher_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        bench = Bench(tmp_path)
        provider = resources(bench)
        heard: list[set[str]] = [set(), set()]
        done = asyncio.Event()

        def hear(into: set[str]) -> Callable[[ResourceChange], None]:
            def told(change: ResourceChange) -> None:
                into.add(change.uri or "")
                if all("chaos://interactions/sessions/RUN-1" in each for each in heard):
                    done.set()

            return told

        for into in heard:
            provider.watch(hear(into))
        (bench.root / "sessions").mkdir(parents=True)
        while not done.is_set():
            (bench.root / "sessions/RUN-1.json").unlink(missing_ok=True)
            (bench.root / "sessions/RUN-1.json").write_text("{}")
            await asyncio.wait({asyncio.create_task(done.wait())}, timeout=0.05)
        await provider.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))
