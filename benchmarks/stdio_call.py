"""P5: one tool call over stdio, against a bare SDK echo on the same transport, in the same run.

``python -m benchmarks.stdio_call`` measures the shipped server's ``chaoscore_inspect`` (health); ``--fixture`` the
tests' server, which is the factory and transport without the application. Prints one figure per line; exit code 1 when
the bar (p50 ≤ 1.5 × the echo's) is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time

from benchmarks.stdio_client import FIXTURE, SHIPPED, RawClient

BAR = 1.5
ROUNDS = 100
WARM_SECONDS = 4.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fixture", action="store_true", help="measure the tests' server")
    parser.add_argument("--calls", type=int, default=2_000)
    options = parser.parse_args()
    name, arguments = ("whoami", {}) if options.fixture else ("chaoscore_inspect", {"what": "health"})
    with tempfile.TemporaryDirectory() as data:
        env = {**os.environ, "CHAOS_CORE_DATA_DIR": data}
        ours = RawClient(FIXTURE if options.fixture else SHIPPED, env)
        bare = RawClient([sys.executable, "-m", "benchmarks.bare_echo"])
        ours.initialize()
        bare.initialize()
        # A policy file this young is read again for every question; what counts is the settled state.
        until = time.monotonic() + WARM_SECONDS
        while time.monotonic() < until:
            ours.call_seconds(name, arguments, 50)
            bare.call_seconds("echo", {"text": "hello"}, 50)
        per_round = max(1, options.calls // ROUNDS)
        taken: dict[str, list[float]] = {"ours": [], "bare": []}
        for _ in range(ROUNDS):  # taking turns, so that both see the same machine
            taken["ours"] += ours.call_seconds(name, arguments, per_round)
            taken["bare"] += bare.call_seconds("echo", {"text": "hello"}, per_round)
        ours.close()
        bare.close()
    p50 = {key: statistics.median(values) * 1e6 for key, values in taken.items()}
    ratio = p50["ours"] / p50["bare"]
    print(f"P5 {name}: p50 {p50['ours']:.0f} us; bare SDK echo {p50['bare']:.0f} us; ratio {ratio:.2f} (bar {BAR})")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
