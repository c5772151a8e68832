"""P7 through the whole run service: what one more no-op step of a run costs, and where that goes.

    python -m benchmarks.service_steps [--runs 8] [--lengths 10,100,500] [--loop asyncio|uvloop] [--directory DIR]
    python -m benchmarks.service_steps --profile          # the functions that the event loop's thread spends it in

Runs of several lengths go through ``RunService.execute`` over the real store, in turns with the bare loop of
``benchmarks.durable_steps`` (one commit per step, as the driver makes): ``chain`` is a plan of no-op steps, each after
the one before; ``fan-out`` one step over as many items. A run has a fixed price (it is opened, claimed, read back and
judged), so a step's own is the difference between two lengths, divided. It must not grow with the length: a price per
step that does is a loop over all steps at every step.

``loop`` and ``writer`` are CPU time of the event loop's thread and of the writing thread; the rest of the wall clock is
the sync and the way between the threads. All figures are lower quartiles over the runs.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import uvloop

from benchmarks.durable_steps import Bare
from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.bootstrap import Kernel, open_kernel
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.policy.model import DEFAULT_POLICY
from chaoscore.settings import Settings

VALUE: JsonObject = {"type": "object", "additionalProperties": False, "properties": {"value": {}}}
POLICY_AGE_SECONDS = 2.2
"""A policy file that was changed just now is read again for every verdict; one in service was not."""


async def noop(arguments: JsonObject, context: HandlerContext) -> Json:
    return {"value": arguments.get("value")}


NOOP = Provided(
    Capability("bench.noop", "does nothing", "low", VALUE, VALUE, Annotations(False, True, False, False), builtin=True),
    noop,
)


@dataclass(frozen=True)
class Cost:
    """µs of one whole run, or of one step."""

    wall: float
    loop: float
    writer: float

    def per_step(self, shorter: Cost, steps: int) -> Cost:
        return Cost(
            (self.wall - shorter.wall) / steps,
            (self.loop - shorter.loop) / steps,
            (self.writer - shorter.writer) / steps,
        )


def chain(length: int) -> list[Json]:
    return [
        {
            "id": f"s{number}",
            "capability": "bench.noop",
            "arguments": {"value": "hello"},
            "after": [f"s{number - 1}"] if number else [],
        }
        for number in range(length)
    ]


def fan_out(length: int) -> list[Json]:
    return [
        {"id": "s0", "capability": "bench.noop", "arguments": {"value": list(range(length))}},
        {
            "id": "s1",
            "capability": "bench.noop",
            "arguments": {"value": {"$item": ""}},
            "for_each": {"$from": "s0", "path": "/value", "max": length},
        },
    ]


SHAPES = {"chain": chain, "fan-out": fan_out}


def writer_cpu_us() -> float:
    for thread in threading.enumerate():
        if thread.name == "chaoscore-write" and thread.ident is not None:
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident)) * 1e6
    return 0.0


async def planned(kernel: Kernel, steps: list[Json]) -> ExecuteRequest:
    answer = await kernel.tools.call("chaoscore_plan", {"steps": steps}, kernel.local_context())
    return ExecuteRequest(plan=str(answer.data["plan_id"]), wait_seconds=600.0)


async def one_run(kernel: Kernel, request: ExecuteRequest) -> Cost:
    context = kernel.local_context()
    wall, loop, writer = time.perf_counter(), time.thread_time(), writer_cpu_us()
    report = await kernel.services.runs.execute(request, context)
    cost = Cost((time.perf_counter() - wall) * 1e6, (time.thread_time() - loop) * 1e6, writer_cpu_us() - writer)
    assert report.run.status == "completed", report.run
    return cost


def bare_run(bare: Bare, steps: int) -> float:
    """µs per step."""
    began = time.perf_counter()
    for _ in range(steps):
        bare.one_commit()
    return (time.perf_counter() - began) / steps * 1e6


def quartile(values: list[float]) -> float:
    return statistics.quantiles(values, n=4, method="inclusive")[0]


def typical(costs: list[Cost]) -> Cost:
    return Cost(*(quartile([getattr(cost, name) for cost in costs]) for name in ("wall", "loop", "writer")))


def opened(directory: Path, lengths: list[int]) -> Settings:
    directory.mkdir()
    policy = directory / "policy.json"
    policy.write_text(json.dumps(DEFAULT_POLICY), "utf-8")
    time.sleep(POLICY_AGE_SECONDS)
    most = max(lengths)
    return Settings(directory / "data", policy, limits=Limits(steps_max=most, items_max=most))


async def measure(directory: Path, lengths: list[int], runs: int, name: str) -> None:
    bare = Bare(directory.parent)
    async with open_kernel(opened(directory, lengths), extra=(NOOP,)) as kernel:
        for shape, steps_of in SHAPES.items():
            await one_run(kernel, await planned(kernel, steps_of(lengths[0])))
            found: dict[int, list[Cost]] = {length: [] for length in lengths}
            floors: list[float] = []
            for _ in range(runs):
                for length in lengths:
                    request = await planned(kernel, steps_of(length))
                    found[length].append(await one_run(kernel, request))
                    floors.append(bare_run(bare, 50))
            floor = quartile(floors)
            whole = {length: typical(costs) for length, costs in found.items()}
            for shorter, longer in pairwise(lengths):
                step = whole[longer].per_step(whole[shorter], longer - shorter)
                rest = step.wall - step.loop - step.writer
                print(
                    f"{name:8} {shape:8} steps {shorter:4} to {longer:4}  {step.wall:5.0f} µs/step:"
                    f" loop {step.loop:4.0f}, writer {step.writer:4.0f}, rest {rest:4.0f}"
                    f"  bare {floor:4.0f}  ratio {floor / step.wall:.2f}",
                    flush=True,
                )
            print(f"{name:8} {shape:8} a run of {lengths[0]:3} steps  {whole[lengths[0]].wall / 1e3:6.1f} ms")
    bare.close()


async def profile(directory: Path, length: int, runs: int, lines: int) -> None:
    async with open_kernel(opened(directory, [length]), extra=(NOOP,)) as kernel:
        await one_run(kernel, await planned(kernel, chain(length)))
        requests = [await planned(kernel, chain(length)) for _ in range(runs)]
        profiler = cProfile.Profile()
        for request in requests:
            profiler.enable()
            await one_run(kernel, request)
            profiler.disable()
    print(f"{runs * length} steps; calls and seconds are of all of them")
    stats = pstats.Stats(profiler)
    stats.sort_stats("tottime").print_stats(lines)
    stats.sort_stats("cumtime").print_stats(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8, help="runs of each length")
    parser.add_argument("--lengths", default="10,100,500", help="rising, at most 1000")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), help="one of the two only")
    parser.add_argument("--directory", type=Path, help="where to put the databases (default: a temporary directory)")
    parser.add_argument("--profile", action="store_true", help="profile the loop's thread over the middle length")
    asked = parser.parse_args()
    lengths = [int(part) for part in asked.lengths.split(",")]
    with tempfile.TemporaryDirectory(dir=asked.directory) as name:
        if asked.profile:
            asyncio.run(profile(Path(name) / "profile", lengths[len(lengths) // 2], asked.runs, 45))
            return
        for loop, run in (("asyncio", asyncio.run), ("uvloop", uvloop.run)):
            if asked.loop in (None, loop):
                base = Path(name) / loop
                base.mkdir()
                run(measure(base / "kernel", lengths, asked.runs, loop))


if __name__ == "__main__":
    main()
