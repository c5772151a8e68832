"""P7: durable no-op steps per second through the ``RunStore`` port, against a bare SQLite loop doing the same commits.

    python -m benchmarks.durable_steps [--steps 2000] [--directory DIR]

The bare loop is as bare as it gets: one thread, one connection, prepared values of the same sizes, two plain tables
without an index beside their key, WAL, ``synchronous=FULL``, ``BEGIN IMMEDIATE`` … ``COMMIT``; no JSON, no key, no lock
file, no event loop. Ours does all of it: values to JSON, fence, audit chain, head, fair lock, two threads.

Both run in alternating blocks, because a disk is never the same twice; the ratio is the median over pairs of blocks.
``two commits`` writes intent and result apart, as a step that stands alone does; ``one commit`` writes a result with
the next intent, as the driver does within a run, and is also compared with a bare loop that makes two; ``eight runs``
are eight callers at once, whose commits may share an fsync. ``bare in a thread`` is no store at all: the bare loop,
its commits made by a thread for coroutines that await them, which is the most that any store can reach whose disk does
not stop the event loop. What a step records is made beforehand on both sides. The bar is ≥ 0.7.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import uvloop

from chaoscore.adapters.sqlite import Stores, open_stores
from chaoscore.adapters.sqlite.chain import Chain
from chaoscore.adapters.sqlite.disk import Disk
from chaoscore.adapters.sqlite.rows import action_body
from chaoscore.adapters.system import LinuxProcesses, RandomIds, SystemClock
from chaoscore.domain.action import Action
from chaoscore.domain.audit import GENESIS, AuditEvent, chain_mac
from chaoscore.domain.policy.model import Verdict
from chaoscore.domain.records import Changes, Claim, Run

VERDICT = Verdict("ALLOW", "allowed-by-default", ("test.noop is allowed",))
BAR = 0.7
BLOCK = 48


@dataclass(frozen=True)
class Step:
    """What one step records: its action twice, with its events."""

    started: Action
    ended: Action
    intent: tuple[AuditEvent, ...]
    result: tuple[AuditEvent, ...]


def make_step(run: str, number: int) -> Step:
    now = time.time()
    digest = "sha256:" + f"{number:064d}"
    preview = {"digest": f"{number:064d}", "preview": '{"text": "hello"}'}
    name = f"s{number}"

    def event(kind: str, **data: object) -> AuditEvent:
        return AuditEvent(kind, now, "local:1000", "c-bench", "p-bench", run, name, None, data)  # type: ignore[arg-type]

    started = Action(name, None, "test.noop", "running", 1, {"text": "hello"}, digest, VERDICT, started_at=now)
    ended = replace(started, state="succeeded", output={"text": "hello"}, finished_at=now)
    verdict = event("verdict-given", effect="ALLOW", rule="allowed-by-default", arguments=preview, digest=digest)
    intent = event("intent-recorded", capability="test.noop", attempt=1, digest=digest, grant=None)
    result = event("action-succeeded", capability="test.noop", attempt=1, digest=digest, error=None, output=preview)
    return Step(started, ended, (verdict, intent), (result,))


class Bare:
    """The floor: the same rows and commits and nothing else."""

    def __init__(self, directory: Path) -> None:
        self._connection = sqlite3.connect(directory / "bare.db", isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE TABLE actions (run INTEGER, step TEXT, item INTEGER, body TEXT,"
            " PRIMARY KEY (run, step, item)) WITHOUT ROWID"
        )
        self._connection.execute(
            "CREATE TABLE audit (seq INTEGER PRIMARY KEY, principal TEXT, run TEXT, body TEXT, mac TEXT)"
        )
        step = make_step("r-bench", 1)
        self._bodies = action_body(step.started), action_body(step.ended)
        chain = Chain(Disk(), directory, RandomIds())
        self._events = [e.body for e in chain.entries(step.intent)], [e.body for e in chain.entries(step.result)]
        self._count = 0

    def two_commits(self) -> None:
        for part in (0, 1):
            self._commit([(self._count, part)])
        self._count += 1

    def one_commit(self) -> None:
        self._commit([(self._count - 1, 1), (self._count, 0)])
        self._count += 1

    def _commit(self, writes: list[tuple[int, int]]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for number, part in writes:
            execute(
                "INSERT INTO actions VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body",
                (1, f"s{number}", -1, self._bodies[part]),
            )
            for body in self._events[part]:
                execute(
                    "INSERT INTO audit (principal, run, body, mac) VALUES (?, ?, ?, ?)",
                    ("local:1000", "r-bench", body, "0" * 64),
                )
        execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


class BareInAThread:
    """The floor with nothing added but the way to a thread and back."""

    def __init__(self, bare: Bare) -> None:
        self._bare = bare
        self._jobs: SimpleQueue[asyncio.Future[None] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (future := self._jobs.get()) is not None:
            self._bare.one_commit()
            self._loop.call_soon_threadsafe(future.set_result, None)

    async def one_commit(self) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put(future)
        await future

    def make_ready(self, count: int) -> None:
        """Everything is."""

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()


class Ours:
    """One run, driven through the port."""

    def __init__(self, stores: Stores, claim: Claim) -> None:
        self._runs = stores.runs
        self._claim = claim
        self._count = 0
        self._last = make_step(claim.run, 0)
        self._ready: list[Step] = []

    def make_ready(self, count: int) -> None:
        self._ready = [make_step(self._claim.run, self._count + number) for number in range(count, 0, -1)]
        self._count += count

    async def two_commits(self) -> None:
        step = self._ready.pop()
        await self._runs.commit(self._claim, Changes(actions=(step.started,)), step.intent)
        await self._runs.commit(self._claim, Changes(actions=(step.ended,)), step.result)

    async def one_commit(self) -> None:
        step = self._ready.pop()
        changes = Changes(actions=(self._last.ended, step.started))
        await self._runs.commit(self._claim, changes, (*self._last.result, *step.intent))
        self._last = step


async def opened(directory: Path, runs: int) -> tuple[Stores, list[Ours]]:
    processes = LinuxProcesses()
    stores = await open_stores(directory, SystemClock(), RandomIds(), processes)
    now = time.time()
    ours = []
    for number in range(runs):
        label = f"r-bench{number}"
        run = Run(label, None, f"p-bench{number}", "local:1000", "running", now, now)
        await stores.runs.open_run(run, f"run_bench{number}", False, ())
        ours.append(Ours(stores, await stores.runs.claim(label, processes.current(), now, 3_600.0)))
    return stores, ours


R = TypeVar("R", Ours, BareInAThread)


@dataclass(frozen=True)
class Way(Generic[R]):
    """A way of recording steps, and the bare loop it is held against. Both do ``BLOCK`` steps."""

    name: str
    runs: Sequence[R]
    work: Callable[[R], Awaitable[None]]
    floor: Callable[[], None]

    async def ours(self) -> float:
        """µs per step."""
        each = BLOCK // len(self.runs)
        for run in self.runs:
            run.make_ready(each)

        async def drive(run: R) -> None:
            for _ in range(each):
                await self.work(run)

        began = time.perf_counter()
        await (drive(self.runs[0]) if len(self.runs) == 1 else asyncio.gather(*map(drive, self.runs)))
        return (time.perf_counter() - began) / BLOCK * 1e6

    def bare(self) -> float:
        """µs per step."""
        began = time.perf_counter()
        for _ in range(BLOCK):
            self.floor()
        return (time.perf_counter() - began) / BLOCK * 1e6


async def measure(directory: Path, steps: int) -> list[tuple[str, float, float, float]]:
    """Per way: µs per step of ours and of the bare loop, and the median ratio of pairs of blocks."""
    stores, runs = await opened(directory / "data", 9)
    bare = Bare(directory)
    thread = BareInAThread(bare)
    ways: list[Way[Any]] = [
        Way("two commits", runs[:1], Ours.two_commits, bare.two_commits),
        Way("one commit", runs[:1], Ours.one_commit, bare.one_commit),
        Way("one commit, bare makes two", runs[:1], Ours.one_commit, bare.two_commits),
        Way("eight runs, two commits", runs[1:], Ours.two_commits, bare.two_commits),
        Way("bare in a thread, one commit", [thread], BareInAThread.one_commit, bare.one_commit),
    ]
    results = []
    for way in ways:
        await way.ours()
        way.bare()
        pairs = [(await way.ours(), way.bare()) for _ in range(max(3, steps // BLOCK))]
        mine, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
        results.append((way.name, mine, theirs, statistics.median(b / a for a, b in pairs)))
    await stores.close()
    thread.close()
    bare.close()
    return results


async def parts(directory: Path) -> dict[str, float]:
    """µs of what a commit is made of, each measured alone, many times."""
    stores, _ = await opened(directory, 1)
    step = make_step("r-bench0", 1)
    found: dict[str, float] = {}

    def take(name: str, work: Callable[[], object], count: int = 2_000) -> None:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
        found[name] = statistics.median(times) * 1e6

    times = []
    for _ in range(2_000):
        began = time.perf_counter()
        await stores.database.read(lambda _: None)
        times.append(time.perf_counter() - began)
    found["to the thread and back"] = statistics.median(times) * 1e6
    linked = stores.chain.entries((*step.intent, *step.result))
    take("an action as text", lambda: action_body(step.ended))
    take("an event as text, searched", lambda: stores.chain.entries(step.result))
    take("redacting a small value", lambda: stores.audit.redact({"text": "hello"}))
    take("three links of the chain", lambda: [chain_mac(b"k" * 32, 1, GENESIS, new.body) for new in linked])
    take("which file stands there", lambda: Disk().identity(stores.database.path))
    turnstile = stores.database._turnstile

    def through() -> None:
        turnstile.enter()
        turnstile.leave()

    take("the lock between processes", through)
    await stores.close()
    return found


def fsync_us(directory: Path) -> float:
    file = os.open(directory / "fsync", os.O_RDWR | os.O_CREAT, 0o600)
    times = []
    for number in range(200):
        os.pwrite(file, b"x" * 4096, number * 4096)
        began = time.perf_counter()
        os.fdatasync(file)
        times.append(time.perf_counter() - began)
    os.close(file)
    return statistics.median(times) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--directory", type=Path, help="where to put the databases (default: a temporary directory)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.directory) as name:
        base = Path(name)
        print(f"fdatasync p50 {fsync_us(base):.0f} µs")
        for loop, run in (("asyncio", asyncio.run), ("uvloop", uvloop.run)):
            for way, mine, theirs, ratio in run(measure(base / loop, asked.steps)):
                verdict = "ok" if ratio >= BAR else "BELOW THE BAR"
                print(
                    f"{loop:8} {way:28} ours {mine:7.0f} µs/step ({1e6 / mine:6.0f}/s)  bare {theirs:7.0f} µs/step"
                    f"  ratio {ratio:.2f}  {verdict}"
                )
            for part, microseconds in run(parts(base / f"{loop}-parts")).items():
                print(f"{loop:8}   {part:28} {microseconds:6.1f} µs")


if __name__ == "__main__":
    main()
