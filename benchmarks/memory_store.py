"""P9: what remembering and recalling cost, alone and with eight processes on one database.

    python -m benchmarks.memory_store [--small] [--directory DIR]

- put and get, one process: p50 ≤ 2 ms and ≤ 0.05 ms; beside them what a bare SQLite does for the same row.
- recall by text among 10,000 and 100,000 memories of one namespace: p50 ≤ 15 ms and ≤ 45 ms over a mix of questions
  (a rare word, a word everybody uses, a piece of a word, a phrase, two words apart, Chinese, a sentence, nothing to be
  found); beside them the scan that a substring search without an index would be. The slowest question is shown too.
- eight processes that write at once, half of them counting in one place: ≥ 500 durable writes/s in all, put p99 ≤
  150 ms, no lock error, no lost update.

``--small`` leaves the 100,000 out. Loading takes most of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from benchmarks.durable_steps import fsync_us
from chaoscore.adapters.sqlite import Stores, open_stores
from chaoscore.adapters.system import LinuxProcesses, RandomIds, SystemClock
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import Conflict
from chaoscore.domain.json import Json
from chaoscore.domain.memory import NewMemory, RecallQuery

HERE = "shared"
PUT_MS, GET_MS = 2.0, 0.05
RECALL_MS = {10_000: 15.0, 100_000: 45.0}
WRITES_PER_SECOND, PUT_P99_MS = 500.0, 150.0
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"


class Corpus:
    """Memories as agents write them: short JSON with words of a Zipf vocabulary, every fifth with Chinese."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        lengths = [3, 4, 5, 6, 7, 8, 9, 10]
        letters = list(itertools.accumulate(1 / (rank + 2) for rank in range(len(LETTERS))))
        self.words = [
            "".join(self._random.choices(LETTERS, cum_weights=letters, k=self._random.choice(lengths)))
            for _ in range(30_000)
        ]
        self._weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(self.words))))
        self._han = [chr(0x4E00 + self._random.randrange(3_000)) for _ in range(2_000)]

    def memory(self, number: int) -> NewMemory:
        words = self._random.choices(self.words, cum_weights=self._weights, k=25)
        value: dict[str, Json] = {"note": " ".join(words), "project": f"project {number % 97}", "n": number}
        if number % 5 == 0:
            value["备注"] = "".join(self._random.choices(self._han, k=20)) + ("部署流程" if number % 500 == 0 else "")
        return NewMemory(f"note/{number}", value, (f"tag{number % 50}",))

    def questions(self, count: int) -> dict[str, str]:
        return {
            "a rare word": self.words[20_000],
            "a word everybody uses": "project",
            "a common word": self.words[3],
            "a piece of a word": self.words[2_000][1:],
            "a piece of a common word": "roje",
            "a phrase": f"project {count // 1_000 % 97}",
            "two words apart": f"{self.words[40]} {self.words[90]}",
            "a Chinese word": "部署",
            "a sentence": f"please tell me what the {self.words[900]} of {self.words[5_000]} and {self.words[10]} is",
            "a number": str(count // 2),
            "nothing to be found": "zqxjkvzq",
            "two letters": "zq",
        }


def event(clock: SystemClock) -> tuple[AuditEvent, ...]:
    named: dict[str, Json] = {"digest": "0" * 64, "preview": '{"note": "…"}'}
    return (AuditEvent("memory-written", clock.now(), "local:1000", "c-bench", data={"value": named}),)


async def opened(directory: Path) -> Stores:
    return await open_stores(directory, SystemClock(), RandomIds(), LinuxProcesses())


async def load(stores: Stores, corpus: Corpus, first: int, last: int) -> None:
    """Many writes at once share a transaction, so loading is not a test of the disk."""
    clock = SystemClock()
    for begin in range(first, last, 2_000):
        numbers = range(begin, min(last, begin + 2_000))
        await asyncio.gather(*(stores.memory.put(HERE, corpus.memory(n), clock.now(), ()) for n in numbers))


def p50(times: list[float]) -> float:
    return statistics.median(times) * 1e3


async def timed(work: Callable[[int], object], count: int) -> float:
    """p50 in ms of awaiting ``work(n)``."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        await work(number)  # type: ignore[misc]
        times.append(time.perf_counter() - began)
    return p50(times)


async def one_process(directory: Path, corpus: Corpus) -> tuple[float, float]:
    stores, clock = await opened(directory), SystemClock()
    memories = [corpus.memory(number) for number in range(400)]
    put = await timed(lambda n: stores.memory.put(HERE, memories[n], clock.now(), event(clock)), 400)
    get = await timed(lambda n: stores.memory.recall(HERE, RecallQuery(key=f"note/{n * 37 % 400}"), clock.now()), 2_000)
    await stores.close()
    return put, get


def bare(directory: Path, corpus: Corpus) -> tuple[float, float]:
    """The same rows in one table with a key and nothing else."""
    connection = sqlite3.connect(directory / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE memories (key TEXT PRIMARY KEY, value TEXT)")
    rows = [(memory.key, json.dumps(memory.value)) for memory in (corpus.memory(number) for number in range(400))]
    puts, gets = [], []
    for row in rows:
        began = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO memories VALUES (?, ?)", row)
        connection.execute("COMMIT")
        puts.append(time.perf_counter() - began)
    for key, _ in rows * 5:
        began = time.perf_counter()
        connection.execute("SELECT value FROM memories WHERE key = ?", (key,)).fetchone()
        gets.append(time.perf_counter() - began)
    connection.close()
    return p50(puts), p50(gets)


async def recalls(stores: Stores, corpus: Corpus, count: int) -> dict[str, float]:
    """p50 in ms per question; the first page of 20."""
    clock = SystemClock()
    return {
        name: await timed(
            lambda _, text=text: stores.memory.recall(HERE, RecallQuery(text=text), clock.now()),  # type: ignore[misc]
            15,
        )
        for name, text in corpus.questions(count).items()
    }


def scan_ms(directory: Path) -> float:
    """A substring search without an index that finds nothing."""
    connection = sqlite3.connect(directory / "chaoscore.db")
    times = []
    for _ in range(5):
        began = time.perf_counter()
        connection.execute("SELECT key FROM memories WHERE instr(lower(key || value), ?)", ("zqxjkvzq",)).fetchall()
        times.append(time.perf_counter() - began)
    connection.close()
    return p50(times)


# -- eight processes ---------------------------------------------------------------------------------------------


async def worker(directory: Path, name: str, writes: int, counts: bool) -> None:
    """Writes its own keys, every second time counting in the place that four of eight share."""
    stores, clock, corpus = await opened(directory), SystemClock(), Corpus(hash(name) % 1_000)
    times, conflicts = [], 0
    memories = [corpus.memory(number) for number in range(writes)]
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.time()
    done = 0
    while done < writes:
        memory = memories[done]
        new = NewMemory(f"{name}/{memory.key}", memory.value, memory.tags)
        if counts and done % 2:
            found = (await stores.memory.recall(HERE, RecallQuery(key="counter"), clock.now())).memories
            value, version = (found[0].value, found[0].version) if found else (0, 0)
            assert isinstance(value, int)
            new = NewMemory("counter", value + 1, expect_version=version)
        start = time.perf_counter()
        try:
            await stores.memory.put(HERE, new, clock.now(), event(clock))
        except Conflict:
            conflicts += 1
            continue
        finally:
            times.append(time.perf_counter() - start)
        done += 1
    ended = time.time()
    await stores.close()
    print(json.dumps({"began": began, "ended": ended, "times": times, "conflicts": conflicts}), flush=True)


def eight(directory: Path, writes: int) -> None:
    base = [sys.executable, "-m", "benchmarks.memory_store", "--worker", str(directory), str(writes)]
    children = [
        subprocess.Popen([*base, f"w{n}", str(n % 2)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(8)
    ]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [json.loads(child.communicate()[0]) for child in children]
    failed = sum(child.returncode != 0 for child in children)
    seconds = max(a["ended"] for a in answers) - min(a["began"] for a in answers)
    times = sorted(t for a in answers for t in a["times"])
    rate, p99 = 8 * writes / seconds, times[int(len(times) * 0.99)] * 1e3

    async def counted() -> int:
        stores = await opened(directory)
        found = await stores.memory.recall(HERE, RecallQuery(key="counter"), time.time())
        report = await stores.audit.verify()
        await stores.close()
        assert report.fault is None and report.events == 8 * writes, report
        value = found.memories[0].value
        assert isinstance(value, int)
        return value

    lost = 4 * (writes // 2) - asyncio.run(counted())
    good = rate >= WRITES_PER_SECOND and p99 <= PUT_P99_MS and not failed and not lost
    print(
        f"eight processes: {rate:.0f} durable writes/s, put p50 {p50(times):.2f} ms, p99 {p99:.1f} ms, longest "
        f"{times[-1] * 1e3:.0f} ms; lock errors {failed}, lost updates {lost}, conflicts met "
        f"{sum(a['conflicts'] for a in answers)}  {_verdict(good)}"
    )


def _verdict(good: bool) -> str:
    return "ok" if good else "BELOW THE BAR"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="10,000 memories only")
    parser.add_argument("--directory", type=Path, help="where to put the databases (default: a temporary directory)")
    parser.add_argument("--worker", nargs=4, metavar=("DIR", "WRITES", "NAME", "COUNTS"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        directory, writes, name, counts = asked.worker
        asyncio.run(worker(Path(directory), name, int(writes), counts == "1"))
        return
    with tempfile.TemporaryDirectory(dir=asked.directory) as temporary:
        base = Path(temporary)
        corpus = Corpus()
        print(f"fdatasync p50 {fsync_us(base):.0f} µs")
        floor_put, floor_get = bare(base, corpus)
        for loop, run in (("asyncio", asyncio.run), ("uvloop", uvloop.run)):
            put, get = run(one_process(base / loop, corpus))
            print(
                f"{loop:8} put p50 {put:.3f} ms (bare {floor_put:.3f})  {_verdict(put <= PUT_MS)}"
                f"   get p50 {get:.4f} ms (bare {floor_get:.4f})  {_verdict(get <= GET_MS)}"
            )
        eight(base / "eight", 250)
        recall_everything(base / "many", corpus, [10_000] if asked.small else [10_000, 100_000])


def recall_everything(directory: Path, corpus: Corpus, sizes: list[int]) -> None:
    async def measuring() -> None:
        stores = await opened(directory)
        loaded = 0
        for size in sizes:
            began = time.perf_counter()
            await load(stores, corpus, loaded, size)
            seconds, loaded = time.perf_counter() - began, size
            found = await recalls(stores, corpus, size)
            middle, slowest = statistics.median(found.values()), max(found, key=lambda name: found[name])
            print(
                f"recall by text among {size:,}: p50 {middle:.2f} ms, slowest question {found[slowest]:.2f} ms "
                f"({slowest}); a scan takes {scan_ms(directory):.0f} ms; loaded in {seconds:.0f} s"
                f"  {_verdict(middle <= RECALL_MS[size])}"
            )
            print("   " + ", ".join(f"{name} {ms:.2f}" for name, ms in found.items()))
        await stores.close()

    asyncio.run(measuring())


if __name__ == "__main__":
    main()
