"""P4: from spawning a stdio server to its tool list, against ``python -c "import mcp"`` in the same run.

``python -m benchmarks.cold_start`` measures the shipped server, ``--fixture`` the tests' server. Byte code is written
beforehand. Prints one line; exit code 1 when the bar (median ≤ 1.2 × the import) is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.stdio_client import FIXTURE, SHIPPED, RawClient

BAR = 1.2


def start_seconds(command: list[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    client = RawClient(command, env)
    client.initialize()
    client.request("tools/list")
    taken = time.perf_counter() - began
    client.close()
    return taken


def import_seconds() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import mcp"], check=True)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fixture", action="store_true", help="measure the tests' server")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    command = FIXTURE if options.fixture else SHIPPED
    with tempfile.TemporaryDirectory() as data:
        env = {**os.environ, "CHAOS_CORE_DATA_DIR": data}
        start_seconds(command, env)  # writes the byte code
        import_seconds()
        pairs = [(start_seconds(command, env), import_seconds()) for _ in range(options.rounds)]
    ours, yardstick = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratio = ours / yardstick
    print(f"P4: start to tool list {ours:.3f} s; import mcp {yardstick:.3f} s; ratio {ratio:.2f} (bar {BAR})")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
