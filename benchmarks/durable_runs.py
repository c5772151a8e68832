"""P7 through the whole run service, against a bare SQLite loop: policy → intent → no-op handler → result, per action.

    python -m benchmarks.durable_runs [--runs 20]

``chain`` is a plan of 50 no-op steps, each after the one before; ``fan-out`` one step over 200 items. The floor is
the bare loop of ``benchmarks.durable_steps`` making two commits per step, the most that the bar allows. Both run in
turns in one process; the ratio is the median over pairs. ``benchmarks.durable_steps`` holds the store alone to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.durable_steps import BAR, Bare
from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.bootstrap import Kernel, open_kernel
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.policy.model import DEFAULT_POLICY
from chaoscore.settings import Settings

VALUE: JsonObject = {"type": "object", "additionalProperties": False, "properties": {"value": {}}}
STEPS = 50
ITEMS = 200


async def noop(arguments: JsonObject, context: HandlerContext) -> Json:
    return {"value": arguments.get("value")}


NOOP = Provided(
    Capability("bench.noop", "does nothing", "low", VALUE, VALUE, Annotations(False, True, False, False), builtin=True),
    noop,
)


@dataclass(frozen=True)
class Shape:
    name: str
    steps: list[Json]
    actions: int


def shapes() -> list[Shape]:
    chain: list[Json] = [
        {
            "id": f"s{number}",
            "capability": "bench.noop",
            "arguments": {"value": "hello"},
            "after": [f"s{number - 1}"] if number else [],
        }
        for number in range(STEPS)
    ]
    fan_out: list[Json] = [
        {"id": "s0", "capability": "bench.noop", "arguments": {"value": list(range(ITEMS))}},
        {
            "id": "s1",
            "capability": "bench.noop",
            "arguments": {"value": {"$item": ""}},
            "for_each": {"$from": "s0", "path": "/value", "max": ITEMS},
        },
    ]
    return [Shape("chain", chain, STEPS), Shape("fan-out", fan_out, ITEMS + 1)]


async def one_run(kernel: Kernel, shape: Shape) -> float:
    """µs per action of one run, the plan made beforehand."""
    context = kernel.local_context()
    planned = await kernel.tools.call("chaoscore_plan", {"steps": shape.steps}, context)
    arguments = {"plan_id": planned.data["plan_id"], "wait_seconds": 60}
    began = time.perf_counter()
    answer = await kernel.tools.call("chaoscore_execute", arguments, context)
    seconds = time.perf_counter() - began
    assert answer.status == "ACHIEVED", answer
    return seconds / shape.actions * 1e6


def bare_run(bare: Bare, actions: int) -> float:
    began = time.perf_counter()
    for _ in range(actions):
        bare.two_commits()
    return (time.perf_counter() - began) / actions * 1e6


async def measure(directory: Path, runs: int) -> list[tuple[str, float, float, float]]:
    policy = directory / "policy.json"
    bare = Bare(directory)
    found = []
    async with open_kernel(Settings(directory / "data", policy), extra=(NOOP,)) as kernel:
        for shape in shapes():
            await one_run(kernel, shape)
            pairs = [(await one_run(kernel, shape), bare_run(bare, shape.actions)) for _ in range(runs)]
            mine, theirs = (statistics.median(values) for values in zip(*pairs, strict=True))
            found.append((shape.name, mine, theirs, statistics.median(b / a for a, b in pairs)))
    bare.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for loop, run in (("asyncio", asyncio.run), ("uvloop", uvloop.run)):
            directory = Path(name) / loop
            directory.mkdir()
            (directory / "policy.json").write_text(json.dumps(DEFAULT_POLICY), "utf-8")
            for shape, mine, theirs, ratio in run(measure(directory, asked.runs)):
                verdict = "ok" if ratio >= BAR else "BELOW THE BAR"
                print(
                    f"{loop:8} {shape:8} ours {mine:6.0f} µs/action ({1e6 / mine:6.0f}/s)  bare {theirs:6.0f} µs"
                    f"  ratio {ratio:.2f}  {verdict}"
                )


if __name__ == "__main__":
    main()
