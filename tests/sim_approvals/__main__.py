"""``python -m tests.sim_approvals SEED``: replay one schedule and print it. ``--seeds N --from SEED``: run many.

Of many, only those that break something are printed, each with the fewest steps that still break it. Exit code 1 when
something that must hold did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from tests.sim_approvals.auditor import Wrong
from tests.sim_approvals.simulation import STEPS, simulate

MEMORY = "/dev/shm"
"""Where files are memory, a schedule costs no disk."""


@dataclass(frozen=True, slots=True)
class Options:
    """``seeds`` ``None`` means the one schedule of ``seed``; else that many from there on."""

    seed: int
    seeds: int | None
    steps: int
    processes: int


def options(arguments: Sequence[str]) -> Options:
    """Also what a line of seeds.txt says."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim_approvals")
    parser.add_argument("seed", type=int, nargs="?", help="the schedule to replay")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"how many steps each has ({STEPS})")
    parser.add_argument("--seeds", type=int, metavar="N", help="run this many instead")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="SEED", help="the first of many (1)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="how many run at a time (1)")
    given = parser.parse_args(arguments)
    if (given.seed is None) == (given.seeds is None):
        parser.error("name one seed to replay, or with --seeds how many to run")
    return Options(given.seed if given.seeds is None else given.first, given.seeds, given.steps, given.processes)


def one(seed: int, steps: int) -> tuple[int, list[str], str | None]:
    """The seed, its log, and what went wrong."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as folder:
        try:
            return seed, simulate(seed, Path(folder), steps), None
        except Wrong as wrong:
            fault, _, log = str(wrong).partition("\n")
            return seed, log.splitlines(), fault


def shortest(seed: int, steps: int) -> tuple[int, list[str], str | None]:
    """The fewest steps of this seed that still break something, with the log of them."""
    for fewer in range(steps):
        _, log, fault = one(seed, fewer)
        if fault is not None:
            return fewer, log, fault
    _, log, fault = one(seed, steps)
    return steps, log, fault


def replay(wanted: Options) -> int:
    _, log, fault = one(wanted.seed, wanted.steps)
    print("\n".join(log))
    print(f"\nseed {wanted.seed}: {fault or 'all that must hold holds'}")
    return 1 if fault else 0


def many(wanted: Options, count: int) -> int:
    began, broken, effects = time.monotonic(), [], 0
    seeds = range(wanted.seed, wanted.seed + count)
    with ProcessPoolExecutor(wanted.processes) as pool:
        for seed, log, fault in pool.map(one, seeds, repeat(wanted.steps), chunksize=4):
            effects += sum(" begins in " in line for line in log)
            if fault is None:
                continue
            broken.append(seed)
            steps, less, again = shortest(seed, wanted.steps)
            if again is None:
                again, less = f"{fault} (once, and not again)", log
            print("\n".join([*less, f"\nseed {seed} --steps {steps}: {again}\n"]), flush=True)
    seconds = time.monotonic() - began
    print(f"{count} schedules from seed {wanted.seed}, {effects} effects, {seconds:.0f} s: ", end="")
    print(f"broken {broken}" if broken else "all that must hold holds")
    return 1 if broken else 0


def main(arguments: Sequence[str]) -> int:
    wanted = options(arguments)
    return replay(wanted) if wanted.seeds is None else many(wanted, wanted.seeds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
