"""``python -m tests.sim SEED``: replay one run and print what happened. ``--seeds N --from SEED``: run many.

Of many, only those that break something are printed. Exit code 1 when something that must hold did not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.sim.auditor import Wrong
from tests.sim.simulation import STEPS, simulate


def one(seed: int, steps: int) -> tuple[list[str], str | None]:
    """The trace, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return simulate(seed, Path(folder), steps), None
        except Wrong as wrong:
            fault, _, trace = str(wrong).partition("\n")
            return trace.splitlines(), fault
        except Exception:
            return traceback.format_exc().splitlines(), "it ended with an unexpected error"


def replay(seed: int, steps: int) -> int:
    trace, fault = one(seed, steps)
    print("\n".join(trace))
    print(f"\nseed {seed}: {fault or 'all that must hold holds'}")
    return 1 if fault else 0


def many(first: int, count: int, steps: int) -> int:
    began, broken = time.monotonic(), []
    for seed in range(first, first + count):
        trace, fault = one(seed, steps)
        if fault is not None:
            broken.append(seed)
            print("\n".join([*trace, f"\nseed {seed}: {fault}\n"]), flush=True)
    seconds = time.monotonic() - began
    print(
        f"{count} seeds from {first}, {steps} steps each, {seconds:.0f} s: {len(broken)} broken {broken or ''}".rstrip()
    )
    return 1 if broken else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("seed", type=int, nargs="?", help="the run to replay")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"how many steps each has ({STEPS})")
    parser.add_argument("--seeds", type=int, metavar="N", help="run this many instead, one after the other")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="SEED", help="the first of many (1)")
    given = parser.parse_args(arguments)
    if (given.seed is None) == (given.seeds is None):
        parser.error("name one seed to replay, or with --seeds how many to run")
    return replay(given.seed, given.steps) if given.seeds is None else many(given.first, given.seeds, given.steps)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
