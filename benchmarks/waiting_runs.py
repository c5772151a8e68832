"""P8: ten thousand runs that wait for a person.

``python -m benchmarks.waiting_runs [COUNT]`` seeds a data directory with COUNT waiting runs (default 10,000), starts
the real ``chaoscore serve --http`` on it and on an empty one, and prints what waiting costs: the start, an idle
server's CPU, threads and memory, and how long it takes from an answer through our door, and through the folder, until
the effect.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from chaoscore.app.approvals import Answer
from chaoscore.app.tools import CallContext, Connection
from chaoscore.bootstrap import Kernel, open_kernel
from chaoscore.domain.action import Action
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import JsonObject
from chaoscore.domain.plan import Author, Plan, Step
from chaoscore.domain.records import Changes, Run
from chaoscore.settings import Settings, load_settings

ANSWERS = 15
IDLE_SECONDS = 10.0
PATIENCE_SECONDS = 60.0


def environment(directory: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    return {
        **kept,
        "HOME": str(directory),
        "CHAOS_CORE_DATA_DIR": str(directory / "data"),
        "CHAOS_CORE_FS_ROOTS": str(directory / "work"),
    }


def settings(directory: Path) -> Settings:
    (directory / "work").mkdir(parents=True, exist_ok=True)
    return load_settings({}, environment(directory), directory)


async def waiting_run(kernel: Kernel, path: Path) -> RunDecision:
    """One real run that waits for its approval."""
    context = CallContext(kernel.principal, Connection("bench"))
    step: JsonObject = {"id": "s1", "capability": "fs.write_text", "arguments": {"path": str(path), "text": "x"}}
    made = await kernel.tools.call("chaoscore_plan", {"steps": [step]}, context)
    plan = str(made.data["plan_id"])
    waiting = await kernel.tools.call("chaoscore_execute", {"plan_id": plan}, context)
    assert waiting.status == "WAITING_FOR_APPROVAL", waiting
    run = await kernel.stores.runs.load_run(str(waiting.data["label"]))
    assert run is not None
    return run.decisions[0]


async def seed(directory: Path, count: int) -> None:
    """Rows as a real waiting run leaves them, ``count`` times over, questions in the folder included."""
    async with open_kernel(settings(directory)) as kernel:
        pattern = await waiting_run(kernel, directory / "work" / "pattern.txt")
        runs, plans = kernel.stores.runs, kernel.stores.plans
        now, owner = time.time(), kernel.principal.key

        async def one(number: int) -> None:
            label = f"r-seed{number:06d}"
            step = Step("s1", "fs.write_text", dict(pattern.actions[0].shown["arguments"]))  # type: ignore[arg-type]
            plan = Plan(f"p-seed{number:06d}", "wait", (step,), Author("caller"), "sha256:0", now, owner)
            await plans.add_plan(plan, f"plan_seed{number:06d}", None, ())
            run = Run(label, None, plan.label, owner, "running", now, now, root=pattern.root)
            await runs.open_run(run, f"run_seed{number:06d}", False, ())
            asked = renamed(pattern, label, number)
            waiting = Action("s1", None, "fs.write_text", "waiting-for-decision", digest=pattern.actions[0].digest)
            changes = Changes((waiting,), status="waiting-for-decision", asked=(asked,))
            await runs.record_outside(label, changes, ())

        for start in range(0, count - 1, 50):
            await asyncio.gather(*(one(number) for number in range(start, min(start + 50, count - 1))))
    print(f"seeded {count} waiting runs", flush=True)


def renamed(pattern: RunDecision, run: str, number: int) -> RunDecision:
    from dataclasses import replace

    from chaoscore.domain.asking import command_of, session_of

    name = f"DEC-2026-01-01-{run}-{number:06d}"
    question = replace(
        pattern.question, decision_id=name, command_run_id=session_of(run), source_command=command_of(run)
    )
    return replace(pattern, id=name, run=run, question=question, question_digest=question.digest())


def server_command() -> list[str]:
    return [sys.executable, "-m", "chaoscore.cli", "serve", "--http", "--port", "0"]


@contextmanager
def server(directory: Path) -> Iterator[tuple[int, float]]:
    """A real server; its pid and how long it took until it answered ``/health``."""
    began = time.perf_counter()
    process = subprocess.Popen(
        server_command(),
        env=environment(directory),
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = next(found[1] for line in process.stderr if (found := re.search(r"listening on (http://\S+?:\d+)", line)))
        urllib.request.urlopen(f"{url}/health", timeout=PATIENCE_SECONDS).read()
        ready = time.perf_counter() - began
        _drain(process.stderr)
        yield process.pid, ready
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _drain(stream: IO[str]) -> None:
    import threading

    threading.Thread(target=stream.read, daemon=True).start()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status(pid: int, name: str) -> int:
    return int(re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("ascii"), re.M)[1])  # type: ignore[index]


def settled(pid: int) -> float:
    """Wait until what a start still has to catch up with is done; how much CPU it took."""
    used = cpu_seconds(pid)
    while True:
        time.sleep(1.0)
        now = cpu_seconds(pid)
        if now - used < 0.05:
            return now
        used = now


async def latencies(directory: Path, through_folder: bool) -> list[float]:
    times = []
    async with open_kernel(settings(directory)) as kernel:
        for number in range(ANSWERS):
            path = directory / "work" / f"{'folder' if through_folder else 'door'}-{number}.txt"
            decision = await waiting_run(kernel, path)
            response = Path(str(decision.root)) / "decisions" / decision.id / "response.json"
            await asyncio.to_thread(there, response.with_name("decision.json"), time.perf_counter() + PATIENCE_SECONDS)
            began = time.perf_counter()
            if through_folder:
                draft = response.with_name("draft")
                draft.write_text(json.dumps(_response(decision)), "utf-8")
                draft.rename(response)
            else:
                choice = Choice("approve")
                answer = Answer(decision.id, choice, decision.question_digest, "terminal", kernel.principal.key)
                await kernel.services.approvals.answer(answer)
            await asyncio.to_thread(there, path, began + PATIENCE_SECONDS)
            times.append(time.perf_counter() - began)
    return times


def there(path: Path, deadline: float) -> None:
    while not path.exists():
        assert time.perf_counter() < deadline, f"{path} never came"
        time.sleep(0.002)


def _response(decision: RunDecision) -> JsonObject:
    return {
        "schemaVersion": 1,
        "decisionId": decision.id,
        "commandRunId": decision.question.command_run_id,
        "selectedOptionId": "approve",
        "selectedOptionIds": [],
        "freeformValue": None,
        "rationale": None,
        "selectedBy": "human",
        "selectedAt": decision.question.created_at,
        "source": "vscode-decision-center",
        "validatesAgainstDecisionHash": None,
        "metadata": {},
    }


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        empty, full = base / "empty", base / "full"
        for directory in (empty, full):
            directory.mkdir()
        asyncio.run(seed(empty, 1))
        asyncio.run(seed(full, count))
        with server(full) as (pid, _):
            print(f"questions put into the folder, once: {settled(pid):.0f} s of CPU", flush=True)
        starts: dict[str, list[float]] = {"empty": [], "full": []}
        for _ in range(3):
            for which, directory in (("empty", empty), ("full", full)):
                with server(directory) as (_, ready):
                    starts[which].append(ready)
        few, many = statistics.median(starts["empty"]), statistics.median(starts["full"])
        print(f"start until /health: {few:.2f} s with 1 waiting, {many:.2f} s with {count} ({many - few:+.2f} s)")
        with server(full) as (pid, _):
            caught_up = settled(pid)
            print(f"checked against the folder: {caught_up:.1f} s of CPU in all since the start", flush=True)
            used = cpu_seconds(pid)
            time.sleep(IDLE_SECONDS)
            idle = (cpu_seconds(pid) - used) / IDLE_SECONDS
            threads, memory = status(pid, "Threads"), status(pid, "VmHWM") // 1024
            print(f"idle: {idle * 100:.2f} % of a core, {threads} threads, {memory} MiB at most", flush=True)
            for through_folder, bar in ((False, 0.1), (True, 2.0)):
                times = asyncio.run(latencies(full, through_folder))
                where = "through the folder" if through_folder else "through our door"
                print(
                    f"answer to effect {where}: p50 {statistics.median(times) * 1000:.0f} ms,"
                    f" max {max(times) * 1000:.0f} ms (bar {bar * 1000:.0f} ms)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
