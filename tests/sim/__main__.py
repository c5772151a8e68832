"""``python -m tests.sim SEED [STEPS]``: replay one run and print what happened."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.sim.auditor import Wrong
from tests.sim.simulation import STEPS, simulate


def main(arguments: list[str]) -> int:
    seed, steps = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else STEPS
    with tempfile.TemporaryDirectory() as folder:
        try:
            print("\n".join(simulate(seed, Path(folder), steps)))
        except Wrong as wrong:
            fault, _, trace = str(wrong).partition("\n")
            print(f"{trace}\n\nseed {seed}: {fault}")
            return 1
    print(f"\nseed {seed}: all that must hold holds")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
