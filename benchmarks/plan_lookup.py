"""Finding a plan and listing runs among 100 and among 10,000 stored plans. Run: ``python -m benchmarks.plan_lookup``.

Prints medians in microseconds and their ratio to 100 plans; exits 1 when a ratio is above 1.5. "own" is the caller's
plan, "foreign" somebody else's, "missing" one that never was. Both stores are real and open at once, and their blocks
take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from chaoscore.adapters.sqlite import Stores, open_stores
from chaoscore.adapters.system import LinuxProcesses, RandomIds, SystemClock
from chaoscore.domain.plan import Author, Plan, Step
from chaoscore.domain.principal import Principal
from chaoscore.domain.records import Run

SIZES = (100, 10_000)
ROUNDS = 40
BLOCK = 20
AT_ONCE = 500
BAR_RATIO = 1.5
ME, OTHER = Principal("local", "1000"), Principal("oauth", "other")
PLAN = Plan(
    label="p-0",
    version=1,
    objective="a benchmark",
    intent=None,
    steps=(Step("s1", "test.give", {"value": 1}),),
    author=Author("caller"),
    policy_digest="sha256:0",
    created_at=1.0,
    owner=ME.key,
)


def credential(number: int) -> str:
    return f"plan_{number:032d}"


async def filled(place: Path, size: int) -> Stores:
    """Plans by turns of two owners; every one has a run."""
    stores = await open_stores(place, SystemClock(), RandomIds(), LinuxProcesses())
    for at in range(0, size, AT_ONCE):
        numbers = range(at, min(at + AT_ONCE, size))
        owners = {number: (ME if number % 2 else OTHER).key for number in numbers}
        await asyncio.gather(
            *(
                stores.plans.add_plan(replace(PLAN, label=f"p-{n}", owner=owners[n]), credential(n), None, ())
                for n in numbers
            )
        )
        await asyncio.gather(
            *(
                stores.runs.open_run(
                    Run(f"r-{n}", None, f"p-{n}", owners[n], "completed", 1.0, 1.0), f"run_{n:032d}", False, ()
                )
                for n in numbers
            )
        )
    return stores


Ask = Callable[[Stores, int, int], Awaitable[object]]
"""Called with the store, its size and the number of the call."""
ASKS: dict[str, Ask] = {
    "find own": lambda stores, size, n: stores.plans.find_plan(credential((n * 38 + 1) % size), ME),
    "find foreign": lambda stores, size, n: stores.plans.find_plan(credential(n * 38 % size), ME),
    "find missing": lambda stores, size, n: stores.plans.find_plan(credential(size + n), ME),
    "list 20 runs": lambda stores, size, n: stores.runs.list_runs(ME, 20, None),
}


async def measured(stores: dict[int, Stores], ask: Ask) -> dict[int, float]:
    took: dict[int, list[float]] = {size: [] for size in stores}
    for block in range(ROUNDS):
        for size, opened in stores.items():
            for number in range(block * BLOCK, (block + 1) * BLOCK):
                began = time.perf_counter_ns()
                await ask(opened, size, number)
                took[size].append((time.perf_counter_ns() - began) / 1_000)
    return {size: median(times) for size, times in took.items()}


async def work(folder: Path) -> bool:
    stores = {size: await filled(folder / str(size), size) for size in SIZES}
    few, many = SIZES
    failed = False
    found: dict[str, float] = {}
    try:
        print(f"{'p50, µs':16} {'100 plans':>10} {'10,000':>10} {'ratio':>7}")
        for name, ask in ASKS.items():
            row = await measured(stores, ask)
            ratio = row[many] / row[few]
            found[name] = row[many]
            failed |= ratio > BAR_RATIO
            print(f"{name:16} {row[few]:10.1f} {row[many]:10.1f} {ratio:7.2f}")
        apart = found["find foreign"] / found["find missing"]
        print(f"foreign against missing among 10,000: {apart:.2f}")
    finally:
        for opened in stores.values():
            await opened.close()
    print(f"bar: at most {BAR_RATIO:g}× → {'missed' if failed else 'met'}")
    return failed


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        return 1 if asyncio.run(work(Path(folder))) else 0


if __name__ == "__main__":
    sys.exit(main())
