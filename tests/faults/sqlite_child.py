"""What the child processes of the SQLite tests do: ``python -m tests.faults.sqlite_child ROLE DIRECTORY …``.

They speak in lines: every line is said only after what it says is durable.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from chaoscore.adapters.sqlite import Stores, open_stores
from chaoscore.adapters.system import LinuxProcesses, RandomIds, SystemClock
from chaoscore.domain.action import Action, Grant
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import ChaosError, Conflict
from chaoscore.domain.memory import NewMemory, RecallQuery
from chaoscore.domain.plan import Author, Plan, Step
from chaoscore.domain.records import Changes, Run


async def opened(directory: Path) -> Stores:
    return await open_stores(directory, SystemClock(), RandomIds(), LinuxProcesses())


def say(*words: object) -> None:
    print(*words, flush=True)


def event(kind: str) -> AuditEvent:
    return AuditEvent(kind, SystemClock().now(), "local:1000", "c-child")


def plan(label: str) -> Plan:
    step = Step("s1", "test.noop", {})
    return Plan(label, "do it", (step,), Author("caller"), "sha256:p", SystemClock().now(), "local:1000")


async def work_until_killed(directory: Path, name: str) -> None:
    """Runs and memories without end; every durable write is said."""
    stores = await opened(directory)
    processes, now = LinuxProcesses(), SystemClock().now
    say("ready")
    for number in range(1_000_000):
        label = f"{name}-{number}"
        await stores.plans.add_plan(plan(f"p-{label}"), f"plan_{label}", None, (event(f"plan {label}"),))
        say("plan", label)
        run = Run(f"r-{label}", None, f"p-{label}", "local:1000", "running", now(), now())
        await stores.runs.open_run(run, f"run_{label}", False, (event(f"run {label}"),))
        claim = await stores.runs.claim(run.label, processes.current(), now(), 30.0)
        grant = Grant(f"g-{label}", run.label, "sha256:a", "terminal", "local:1000", now(), now() + 600)
        await stores.runs.commit(claim, Changes(grants=(grant,)), (event(f"grant {label}"),))
        say("grant", label)
        started = Action("s1", None, "test.noop", "running", digest="sha256:a", grant=grant.id, started_at=now())
        changes = Changes(actions=(started,), used_grants=(grant.id,))
        await stores.runs.commit(claim, changes, (event(f"intent {label}"),))
        say("intent", label)
        ended = Action("s1", None, "test.noop", "succeeded", digest="sha256:a", output={"n": number})
        await stores.runs.release(claim, Changes(actions=(ended,), status="completed"), (event(f"result {label}"),))
        say("result", label)
        memory = NewMemory(f"m-{label}", f"what {label} remembers")
        await stores.memory.put("shared", memory, now(), (event(f"memory {label}"),))
        say("memory", label)
        shared = NewMemory("shared", label)
        await stores.memory.put("shared", shared, now(), (event(f"shared {label}"),))


async def count_up(directory: Path, name: str, times: int) -> None:
    """Count in a place that everybody counts in, losing no update, and write something of one's own each time."""
    stores = await opened(directory)
    now = SystemClock().now
    say("ready")
    sys.stdin.readline()
    conflicts = 0
    for number in range(times):
        await stores.memory.put("shared", NewMemory(f"{name}-{number}", name), now(), (event("own"),))
        while True:
            found = (await stores.memory.recall("shared", RecallQuery(key="counter"), now())).memories
            value, version = (found[0].value, found[0].version) if found else (0, 0)
            assert isinstance(value, int)
            new = NewMemory("counter", value + 1, expect_version=version)
            try:
                await stores.memory.put("shared", new, now(), (event("counted"),))
                break
            except Conflict:
                conflicts += 1
    await stores.close()
    say("done", conflicts)


async def open_many(base: Path) -> None:
    """Open brand-new directories, each when told to."""
    say("ready")
    for number, _ in enumerate(sys.stdin):
        stores = await opened(base / str(number))
        await stores.audit.append((event("opened"),))
        await stores.close()
        say("opened")


async def try_to_write(directory: Path) -> None:
    """Say how a write and a read end."""
    for what in ("write", "read"):
        try:
            stores = await opened(directory)
            try:
                if what == "write":
                    await stores.memory.put("shared", NewMemory("k", "x" * 10_000), SystemClock().now(), (event("w"),))
                else:
                    await stores.memory.recall("shared", RecallQuery(key="k"), SystemClock().now())
            finally:
                await stores.close()
            say(what, "ok", "")
        except ChaosError as error:
            say(what, error.code, str(error).replace("\n", " "))


async def tell_health(directory: Path, only_read: Callable[[], None]) -> None:
    """Say what health knows of writing, before and after ``only_read``; nobody writes."""
    stores = await opened(directory)
    say("before", stores.health()["writes"])
    only_read()
    say("after", stores.health()["writes"])
    await stores.close()


def mount_read_only(directory: Path) -> None:
    for options in (("--bind", directory), ("-o", "remount,bind,ro")):
        subprocess.run(["mount", *options, directory], check=True)


async def write_until_full(directory: Path, bytes_max: int) -> None:
    """Write with a bound on the size of any file, say what that ends with, then lift it and go on."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    stores = await opened(directory)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, hard))
    await fill(stores)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await stores.memory.put("shared", NewMemory("after", "x"), SystemClock().now(), (event("after"),))
    say("after", "ok")
    await stores.close()


async def fill(stores: Stores) -> None:
    for number in range(10_000):
        try:
            memory = NewMemory(f"k{number}", "x" * 20_000)
            await stores.memory.put("shared", memory, SystemClock().now(), (event("w"),))
        except ChaosError as error:
            say("full", error.code, str(error).replace("\n", " "))
            return
        say("kept", number)


async def fill_a_disk(directory: Path, make_room: Callable[[], None]) -> None:
    """Write until the disk is full, make room, go on."""
    stores = await opened(directory)
    await fill(stores)
    make_room()
    await stores.memory.put("shared", NewMemory("after", "x"), SystemClock().now(), (event("after"),))
    say("after", "ok")
    await stores.close()


def main() -> None:
    role, directory, *rest = sys.argv[1:]
    where = Path(directory)
    match role:
        case "work":
            asyncio.run(work_until_killed(where, rest[0]))
        case "count":
            asyncio.run(count_up(where, rest[0], int(rest[1])))
        case "open":
            asyncio.run(open_many(where))
        case "try":
            asyncio.run(try_to_write(where))
        case "health":
            asyncio.run(tell_health(where, lambda: mount_read_only(where)))
        case "limit":
            asyncio.run(write_until_full(where, int(rest[0])))
        case "fill":
            asyncio.run(fill_a_disk(where, Path(rest[0]).unlink))
        case _:
            raise SystemExit(f"no role {role!r}")


if __name__ == "__main__":
    main()
