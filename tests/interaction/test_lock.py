"""The write lock: between our processes, towards peers that break it, and against what is left lying there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.files.interaction.write_lock import process_started_ms
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.service import InteractionService
from tests.interaction.conftest import Place
from tests.interaction.steps import ask, begin, document, faults, prepared
from tests.interaction.support import child_environment

PATIENCE_SECONDS = 900


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    return process.pid


def left(place: Place, content: str | dict[str, object]) -> Path:
    path = place.root / ".runtime.lock"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("kind", ["dead", "dead in the future", "reused", "empty", "garbage", "no process", "ours"])
def test_a_lock_that_nobody_holds_is_removed(place: Place, kind: str) -> None:
    now = int(time.time() * 1000)
    started = process_started_ms(os.getpid())
    assert started
    content: dict[str, str | dict[str, object]] = {
        "dead": {"pid": dead_pid(), "at": now},
        "dead in the future": {"pid": dead_pid(), "at": now + 3_600_000},
        "reused": {"pid": os.getpid(), "at": started - 60_000},
        "empty": "",
        "garbage": '{"pid": "x"}',
        "no process": {"pid": 2**40, "at": now},
        "ours": {"pid": os.getpid(), "at": now, "by": "chaosCore"},
    }

    async def story(service: InteractionService) -> None:
        await begin(service)
        left(place, content[kind])
        assert (await begin(service, "RUN-2")).ok
        assert not (place.root / ".runtime.lock").exists()

    place.tell(story)


def test_a_live_holder_is_waited_for_and_named(place: Place) -> None:
    place.bench.lock_wait_seconds = 0.2
    held: dict[str, object] = {"pid": os.getppid(), "at": int(time.time() * 1000)}

    async def story(service: InteractionService) -> None:
        await begin(service)
        path = left(place, held)
        refused = await begin(service, "RUN-2")
        assert refused.status == "RUNTIME_BUSY" and f"process {os.getppid()}" in refused.message
        assert refused.must_stop and json.loads(path.read_text()) == held
        assert (await service.list_sessions()).ok, "reading needs no lock"
        assert not (place.root / "sessions/RUN-2.json").exists()

    place.tell(story)


def test_a_directory_in_the_place_of_the_lock_is_told_at_once(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        (place.root / ".runtime.lock").mkdir()
        before = time.monotonic()
        refused = await begin(service, "RUN-2")
        assert refused.status == "RUNTIME_BUSY" and "remove it" in refused.message
        assert time.monotonic() - before < 3

    place.tell(story)


def test_the_published_lock_is_never_empty_and_names_this_process(place: Place) -> None:
    seen: list[bytes] = []

    class Watching(FileOps):
        def fsync(self, fd: int) -> None:
            path = place.root / ".runtime.lock"
            if path.exists():
                seen.append(path.read_bytes())
            super().fsync(fd)

    place.bench.ops = Watching()

    async def story(service: InteractionService) -> None:
        await begin(service)
        await ask(service)

    place.tell(story)
    assert seen and all(json.loads(content)["pid"] == os.getpid() for content in seen)
    assert all(isinstance(json.loads(content)["at"], int) for content in seen)


def test_work_starts_over_when_a_peer_takes_the_lock_before_the_first_write(place: Place) -> None:
    class Robbed(FileOps):
        times = 0

        def fsync(self, fd: int) -> None:
            super().fsync(fd)
            if self.times == 0 and (place.root / "locks.json").exists():
                self.times = 1
                (place.root / ".runtime.lock").unlink()
                table = json.loads((place.root / "locks.json").read_text())
                table["locks"][0]["metadata"] = {"by": "peer"}
                (place.root / "locks.json").write_text(json.dumps(table))

    robbed = Robbed()

    async def prepare(service: InteractionService) -> None:
        await prepared(service, "begin", "ask")
        await service.begin(BeginRequest("chaos:run", "c2", command_run_id="RUN-2"))

    async def story(service: InteractionService) -> None:
        assert (await ask(service, "RUN-2")).ok

    place.tell(prepare)
    place.bench.ops = robbed
    place.tell(story)
    assert robbed.times == 1
    locks = document(place.root, "locks.json")["locks"]  # type: ignore[index]
    assert [(lock["changeId"], lock["metadata"]) for lock in locks] == [("c1", {"by": "peer"}), ("c2", {})]  # type: ignore[union-attr, index, call-overload]
    assert len(list(place.root.glob("decisions/*"))) == 2, "nothing was asked twice"


def test_what_a_peer_overwrote_meanwhile_is_applied_again(place: Place) -> None:
    class Robbed(FileOps):
        stale = b""

        def rename(self, source: str, target: str) -> None:
            super().rename(source, target)
            if target.endswith("active.json") and self.stale:
                (place.root / ".runtime.lock").unlink()
                table = json.loads(self.stale)
                table["locks"].append({**table["locks"][0], "lockId": "LOCK-peer", "changeId": "c9"})
                (place.root / "locks.json").write_text(json.dumps(table))
                self.stale = b""

    robbed = Robbed()

    async def prepare(service: InteractionService) -> None:
        await prepared(service, "begin", "ask")
        await service.begin(BeginRequest("chaos:run", "c2", command_run_id="RUN-2"))

    async def story(service: InteractionService) -> None:
        robbed.stale = (place.root / "locks.json").read_bytes()
        assert (await ask(service, "RUN-2")).ok

    place.tell(prepare)
    place.bench.ops = robbed
    place.tell(story)
    changes = [str(lock["changeId"]) for lock in document(place.root, "locks.json")["locks"]]  # type: ignore[union-attr, index, call-overload]
    assert sorted(changes) == ["c1", "c2", "c9"]


def test_what_cannot_be_put_back_is_a_warning_because_the_operation_happened(place: Place) -> None:
    class RobbedAndBroken(FileOps):
        stale, broken = b"", False

        def rename(self, source: str, target: str) -> None:
            super().rename(source, target)
            if target.endswith("active.json") and self.stale:
                (place.root / ".runtime.lock").unlink()
                (place.root / "locks.json").write_bytes(self.stale)
                self.stale, self.broken = b"", True

        def write(self, fd: int, data: bytes) -> int:
            if self.broken:
                raise OSError(5, "broken on purpose")
            return super().write(fd, data)

    ops = RobbedAndBroken()
    place.bench.cache_dir = place.repository / "cache"

    async def prepare(service: InteractionService) -> None:
        await prepared(service, "begin", "ask")
        await service.begin(BeginRequest("chaos:run", "c2", command_run_id="RUN-2"))

    async def story(service: InteractionService) -> None:
        ops.stale = (place.root / "locks.json").read_bytes()
        done = await ask(service, "RUN-2")
        assert done.ok and any("took the write lock away" in warning for warning in done.warnings), done
        ops.broken = False
        assert (await service.active_decision()).ok

    place.tell(prepare)
    place.bench.ops = ops
    place.tell(story)
    changes = [str(lock["changeId"]) for lock in document(place.root, "locks.json")["locks"]]  # type: ignore[union-attr, index, call-overload]
    assert sorted(changes) == ["c1", "c2"]
    assert faults(place.root) == []


def test_where_there_are_no_hard_links_the_lock_and_the_documents_still_work(place: Place) -> None:
    class NoLinks(FileOps):
        def link(self, source: str, target: str) -> None:
            raise OSError(95, "operation not supported")

    place.bench.ops = NoLinks()

    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer", "resume", "consume")
        assert any("hard links" in note for note in await service.health())
        assert (await begin(service)).ok and not (place.root / ".runtime.lock").exists()

    place.tell(story)


def test_where_there_is_no_flock_health_says_so(place: Place) -> None:
    class NoFlock(FileOps):
        def flock(self, fd: int) -> bool:
            raise OSError(95, "operation not supported")

    place.bench.ops = NoFlock()

    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        assert any("flock" in note for note in await service.health())

    place.tell(story)


WORKER = """
import asyncio, sys
from pathlib import Path
from chaoscore.adapters.system import SystemClock
from tests.interaction.support import Bench
from tests.interaction.steps import begin, ask, answer

async def story(name):
    service = Bench(Path(sys.argv[1]), clock=SystemClock(), lock_wait_seconds=30.0).service()
    for n in range(int(sys.argv[3])):
        run = f"RUN-{name}-{n}"
        done = [await begin(service, run, f"c-{name}-{n}"), await ask(service, run)]
        assert all(d.ok for d in done), done
        decision = done[1].data["decisionId"]
        if n % 2:
            got = await answer(service, decision)
            assert got.ok, got
            print(f"answered {decision}")
        else:
            print(f"waiting {decision}")
    await service.close()

asyncio.run(story(sys.argv[2]))
"""


def beside_peers(place: Place, processes: int, runs: int, peers: int, locks: int) -> None:
    """``processes`` of ours with ``runs`` each, beside ``peers`` that add ``locks`` each."""

    async def story(service: InteractionService) -> None:
        await begin(service)

    place.tell(story)
    env = child_environment()
    ours = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(place.repository), f"w{number}", f"{runs}"],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(processes)
    ]  # fmt: skip
    theirs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.interaction.original", str(place.root), f"{locks}", f"p{number}"],
            env=env,
            text=True,
        )
        for number in range(peers)
    ]
    said = []
    try:
        for process in ours:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
            assert process.returncode == 0, err
            said += out.split("\n")
        assert [peer.wait(PATIENCE_SECONDS) for peer in theirs] == [0] * peers
    finally:
        for process in (*ours, *theirs):
            process.kill()
            process.wait()

    async def check(service: InteractionService) -> None:
        await service.active_decision()
        locks = document(place.root, "locks.json")
        assert locks is not None
        active = [lock for lock in locks["locks"] if lock["state"] == "active"]  # type: ignore[union-attr, index, call-overload]
        named = [name for lock in active for name in lock["blockingDecisionIds"]]  # type: ignore[union-attr, index, call-overload]
        for row in said:
            kind, _, decision = row.partition(" ")
            if kind == "answered":
                assert (await service.decision_response(decision)).status == "ANSWERED"
            elif kind == "waiting":
                assert (await service.decision_response(decision)).status == "NO_RESPONSE_YET"
                assert decision in named

    place.tell(check)
    acknowledged = len([row for row in said if row])
    assert acknowledged == processes * runs
    print(f"\n{processes} of ours beside {peers} peers: {acknowledged} acknowledged decisions all there, none unlocked")


def test_nothing_acknowledged_is_lost_beside_peers_that_break_the_lock(place: Place) -> None:
    beside_peers(place, processes=3, runs=8, peers=2, locks=60)


@pytest.mark.campaign
def test_four_processes_lose_nothing_beside_four_peers_that_break_the_lock(place: Place) -> None:
    beside_peers(place, processes=4, runs=100, peers=4, locks=300)
