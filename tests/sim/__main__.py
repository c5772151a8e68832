"""``python -m tests.sim SEED``: replay one run and print what happened. ``--seeds N --from SEED``: run many.

Of many, only those that break something are printed. Exit code 1 when something that must hold did not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.sim.auditor import Wrong
from tests.sim.simulation import STEPS, simulate


@dataclass(frozen=True, slots=True)
class Options:
    """``seeds`` ``None`` means the one run of ``seed``; else that many from there on."""

    seed: int
    seeds: int | None
    steps: int
    overlap: bool

    def run(self, seed: int, folder: Path) -> list[str]:
        """The trace. Raises ``Wrong``."""
        return simulate(seed, folder, self.steps, self.overlap)


def options(arguments: Sequence[str]) -> Options:
    """Also what a line of seeds.txt says."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("seed", type=int, nargs="?", help="the run to replay")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"how many steps each has ({STEPS})")
    parser.add_argument("--overlap", action="store_true", help="peers come in between also while the disk fails")
    parser.add_argument("--seeds", type=int, metavar="N", help="run this many instead, one after the other")
    parser.add_argument("--from", dest="first", type=int, default=1, metavar="SEED", help="the first of many (1)")
    given = parser.parse_args(arguments)
    if (given.seed is None) == (given.seeds is None):
        parser.error("name one seed to replay, or with --seeds how many to run")
    seed = given.seed if given.seeds is None else given.first
    return Options(seed, given.seeds, given.steps, given.overlap)


def one(wanted: Options, seed: int) -> tuple[list[str], str | None]:
    """The trace, and what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return wanted.run(seed, Path(folder)), None
        except Wrong as wrong:
            fault, _, trace = str(wrong).partition("\n")
            return trace.splitlines(), fault
        except Exception:
            return traceback.format_exc().splitlines(), "it ended with an unexpected error"


def replay(wanted: Options) -> int:
    trace, fault = one(wanted, wanted.seed)
    print("\n".join(trace))
    print(f"\nseed {wanted.seed}: {fault or 'all that must hold holds'}")
    return 1 if fault else 0


def many(wanted: Options, count: int) -> int:
    began, broken = time.monotonic(), []
    for seed in range(wanted.seed, wanted.seed + count):
        trace, fault = one(wanted, seed)
        if fault is not None:
            broken.append(seed)
            print("\n".join([*trace, f"\nseed {seed}: {fault}\n"]), flush=True)
    what = f"{count} seeds from {wanted.seed}, {wanted.steps} steps each{', overlapping' if wanted.overlap else ''}"
    print(f"{what}, {time.monotonic() - began:.0f} s: {len(broken)} broken {broken or ''}".rstrip())
    return 1 if broken else 0


def main(arguments: Sequence[str]) -> int:
    wanted = options(arguments)
    return replay(wanted) if wanted.seeds is None else many(wanted, wanted.seeds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
