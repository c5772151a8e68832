"""P6: what a verdict costs with 10, 1,000 and 10,000 rules. Run: ``python -m benchmarks.policy_verdict``.

Prints medians in microseconds of one call, and their ratio to 10 rules; exits 1 when a median is above 10 µs or a ratio
above 1.5. "evaluator" is the pure function, "policy file" the shipped source with its ``stat`` per verdict, "stat" that
system call alone. Rules are spread over all lists; every question is a new one, so that nothing can be remembered.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from chaoscore.adapters.files.policy_file import PolicyFile
from chaoscore.domain.json import Json
from chaoscore.domain.policy.model import Question, Verdict

SIZES = (10, 1_000, 10_000)
CALLS = 10_000
ROUNDS = 10
BLOCK = 20
BAR_MICROSECONDS = 10.0
BAR_RATIO = 1.5


class LaterClock:
    """Long after the file was written, so that it counts as settled."""

    def now(self) -> float:
        return time.time() + 3_600

    def monotonic(self) -> float:
        return time.monotonic()


def policy(rules: int) -> dict[str, Json]:
    """A quarter of the rules denies, confirms, allows, and names domains each; half of them are wildcards."""
    part = max(rules // 4, 2)

    def names(prefix: str) -> list[Json]:
        return [f"{prefix}{n}.one" if n % 2 else f"{prefix}{n}.group.*" for n in range(part)]

    domains: list[Json] = [f"*.zone{n}.example" if n % 2 else f"host{n}.example" for n in range(part)]
    return {
        "allowedCapabilities": ["http.request", "fs.*", *names("allowed")],
        "deniedCapabilities": names("denied"),
        "requireConfirmationFor": ["fs.write_text", *names("asked")],
        "httpAllowedDomains": ["api.example.com", *domains],
    }


def known(raw: dict[str, Json]) -> set[str]:
    lists = [entries for key, entries in raw.items() if key != "httpAllowedDomains" and isinstance(entries, list)]
    exact = {name for entries in lists for name in entries if isinstance(name, str) and not name.endswith(".*")}
    return exact | {"fs.read_text"}


QUESTIONS: dict[str, Callable[[int], Question]] = {
    "allowed, no url": lambda n: Question("fs.read_text", True, scope={"n": n}),
    "asked": lambda n: Question("fs.write_text", True, scope={"n": n}),
    "denied by a prefix": lambda n: Question("denied0.group.deep.name", True, scope={"n": n}),
    "allowed url": lambda n: Question("http.request", True, (f"https://api.example.com/items/{n}?page={n}",)),
    "url of a subdomain": lambda n: Question("http.request", True, (f"https://a.b{n}.zone1.example:8443/x",)),
    "refused url": lambda n: Question("http.request", True, (f"https://host{n}.elsewhere.example/",)),
}


def one_call(asks: Mapping[int, Callable[[Question], Verdict]], questions: list[Question]) -> dict[int, float]:
    """Median microseconds of one call for each size, in the quietest of several rounds: what else the machine does can
    only add. Calls are timed in blocks, and the sizes take turns block by block, so that all share the same moments."""
    rounds: list[dict[int, float]] = []
    for start in range(0, len(questions), CALLS // ROUNDS):
        took: dict[int, list[float]] = {size: [] for size in asks}
        for at in range(start, start + CALLS // ROUNDS, BLOCK):
            block = questions[at : at + BLOCK]
            for size, ask in asks.items():
                began = time.perf_counter_ns()
                for question in block:
                    ask(question)
                took[size].append((time.perf_counter_ns() - began) / len(block) / 1_000)
        rounds.append({size: median(times) for size, times in took.items()})
    return min(rounds, key=lambda medians: sum(medians.values()))


def main() -> int:
    medians: dict[tuple[str, str, int], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = {}
        for size in SIZES:
            path = Path(folder) / f"policy-{size}.json"
            raw = policy(size)
            path.write_text(json.dumps(raw))
            sources[size] = PolicyFile(path, known(raw), LaterClock())
        gc.disable()
        for name, make in QUESTIONS.items():
            questions = [make(n) for n in range(CALLS)]
            pure = {size: source.evaluator().verdict for size, source in sources.items()}
            shipped = {size: source.verdict for size, source in sources.items()}
            for kind, asks in (("evaluator", pure), ("policy file", shipped)):
                for size, figure in one_call(asks, questions).items():
                    medians[kind, name, size] = figure
        path = Path(folder) / "policy-10.json"
        began = time.perf_counter_ns()
        for _ in range(CALLS):
            os.stat(path, follow_symlinks=False)
        stat_microseconds = (time.perf_counter_ns() - began) / CALLS / 1_000

    failed = False
    print(f"{'p50 of a verdict, µs':34} {'10 rules':>9} {'1,000':>9} {'10,000':>9} {'ratio':>7}")
    for kind in ("evaluator", "policy file"):
        for name in QUESTIONS:
            row = [medians[kind, name, size] for size in SIZES]
            ratio = max(row) / row[0]
            failed |= kind == "evaluator" and (max(row) > BAR_MICROSECONDS or ratio > BAR_RATIO)
            print(f"{kind + ': ' + name:34} {row[0]:9.2f} {row[1]:9.2f} {row[2]:9.2f} {ratio:7.2f}")
    print(f"{'stat alone':34} {stat_microseconds:9.2f}")
    print(f"bar: evaluator at most {BAR_MICROSECONDS:g} µs and {BAR_RATIO:g}× → {'missed' if failed else 'met'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
