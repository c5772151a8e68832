"""A disk that fails: for the Nth change of it, once or for good. An operation happened and says so, or did not and
says so, with a specific code; the old state stays whole and the next call works once the fault is over."""

from __future__ import annotations

import asyncio
import errno
import json
from pathlib import Path
from typing import cast

import pytest

from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.system import SystemClock
from chaoscore.app.envelope import Envelope
from chaoscore.app.interactions.deciding import DecisionRequest
from chaoscore.domain.interaction.capsule import NOTHING
from chaoscore.testing.faults import FaultInjector, fault_points
from tests.interaction.steps import OPERATIONS, OPTIONS, Operation, answer, begin, faults, prepared
from tests.interaction.support import Bench, ManualClock

CHANGES = ("write", "fsync", "fdatasync", "rename", "link", "unlink", "mkdir", "open")
CODES = {errno.ENOSPC: "NO_SPACE", errno.EIO: "IO_ERROR", errno.EROFS: "READ_ONLY"}


def changes_the_disk(call: str) -> bool:
    """Opening counts where it creates; reading does not."""
    name = call.split(" ")[0]
    return name in CHANGES and (name != "open" or call.endswith("tmp") or ".tmp" in call or "jsonl" in call)


def primary(root: Path) -> dict[str, object]:
    """What must not change when an operation says that it did not happen."""
    found = {}
    for pattern in ("sessions/*.json", "capsules/*.json", "decisions/*/decision.json", "decisions/*/response.json"):
        for path in root.glob(pattern):
            found[str(path.relative_to(root))] = json.loads(path.read_bytes())
    locks = root / "locks.json"
    found["locks"] = json.loads(locks.read_bytes())["locks"] if locks.exists() else []
    return found


def bench(repository: Path, ops: FileOps | None = None) -> Bench:
    """With an index, as the server has it: what it takes for written must have been."""
    return Bench(
        repository, clock=SystemClock(), ops=ops or FileOps(), lock_wait_seconds=0.5, cache_dir=repository / "cache"
    )


def broken(repository: Path, operation: Operation, injector: FaultInjector, decision: str) -> Envelope:
    async def story() -> Envelope:
        service = bench(repository, cast("FileOps", injector.wrap(FileOps()))).service()
        try:
            return await operation.do(service, decision)
        finally:
            await service.close()

    return asyncio.run(story())


def sound(
    repository: Path, operation: Operation, *steps: str, decision: str | None = None
) -> tuple[str, Envelope | None]:
    async def story() -> tuple[str, Envelope | None]:
        service = bench(repository).service()
        try:
            if decision is None:
                return await prepared(service, *steps), None
            return decision, await operation.do(service, decision)
        finally:
            await service.close()

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("number", "lasting"),
    [
        pytest.param(errno.ENOSPC, False, id="full once"),
        pytest.param(errno.EIO, True, id="broken for good"),
        pytest.param(errno.ENOSPC, True, id="full for good", marks=pytest.mark.campaign),
        pytest.param(errno.EIO, False, id="broken once", marks=pytest.mark.campaign),
        pytest.param(errno.EROFS, True, id="read-only for good", marks=pytest.mark.campaign),
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation.name))
def test_a_failing_disk_leaves_the_old_state_or_the_new_one(
    tmp_path: Path, operation: Operation, lasting: bool, number: int
) -> None:
    for point in fault_points(300):
        repository = tmp_path / str(point)
        repository.mkdir()
        root = repository / ".chaos/interactions"
        decision, _ = sound(repository, operation, *operation.before)
        before = primary(root)
        injector = FaultInjector(
            point, fault=lambda *_: OSError(number, "broken on purpose"), lasting=lasting, only=changes_the_disk
        )
        envelope = broken(repository, operation, injector, decision)
        if not injector.fired:
            assert (envelope.ok and envelope.warnings == ()) or operation.name == "answer", envelope
            return
        if envelope.ok:
            assert operation.happened(root, decision), f"point {point}: {envelope}"
        else:
            assert envelope.status in (CODES[number], "RUNTIME_BUSY"), f"point {point}: {envelope}"
            assert envelope.next_action and "Stop" in envelope.next_action
            assert primary(root) == before, f"point {point}: said that it did not happen: {injector.calls[-1]}"
        look(repository)
        assert faults(root) == [], f"point {point}: a look heals what {injector.calls[-1]} left"
        _, repeated = sound(repository, operation, decision=decision)
        assert repeated is not None
        assert repeated.ok or envelope.ok, f"point {point}: {repeated}"
        assert operation.happened(root, decision)
        assert faults(root) == [], f"point {point}"


EVERY_OPERATION = [
    pytest.param(operation, id=operation.name, marks=() if operation.name == "answer" else pytest.mark.campaign)
    for operation in OPERATIONS
]


@pytest.mark.parametrize("closing", [False, True], ids=["any call", "closing"])
@pytest.mark.parametrize("operation", EVERY_OPERATION)
def test_a_system_call_that_fails_once_never_hides_what_happened(
    tmp_path: Path, operation: Operation, closing: bool
) -> None:
    """Also one that only reads. Closing gives the descriptor back whatever it answers."""
    for point in fault_points(600):
        repository = tmp_path / str(point)
        repository.mkdir()
        root = repository / ".chaos/interactions"
        decision, _ = sound(repository, operation, *operation.before)
        before = primary(root)
        injector = FaultInjector(
            point,
            fault=lambda *_: OSError(errno.EIO, "broken on purpose"),
            only=lambda call: (call == "close") == closing,
            when="after" if closing else "before",
        )
        envelope = broken(repository, operation, injector, decision)
        if not injector.fired:
            return
        if envelope.ok:
            assert operation.happened(root, decision), f"point {point}: {envelope}"
        else:
            assert envelope.status in ("IO_ERROR", "RUNTIME_BUSY"), f"point {point}: {envelope}"
            assert primary(root) == before, f"point {point}: said that it did not happen: {envelope}"
        look(repository)
        assert faults(root) == [], f"point {point}"
        _, repeated = sound(repository, operation, decision=decision)
        assert repeated is not None and (repeated.ok or envelope.ok), f"point {point}: {repeated}"


def look(repository: Path) -> None:
    async def story() -> None:
        service = bench(repository).service()
        assert (await service.active_decision()).ok
        await service.close()

    asyncio.run(story())


def read_only() -> FaultInjector:
    return FaultInjector(1, fault=lambda *_: OSError(errno.EROFS, "read-only"), lasting=True, only=changes_the_disk)


def test_reads_go_on_while_the_disk_takes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        good = Bench(tmp_path, clock=SystemClock()).service()
        decision = await prepared(good, "begin", "ask")
        await answer(good, decision)
        await good.close()
        injector = read_only()
        service = Bench(tmp_path, clock=SystemClock(), ops=cast("FileOps", injector.wrap(FileOps()))).service()
        assert (await service.decision_response(decision)).status == "ANSWERED"
        assert (await service.resume_candidates()).status == "FOUND"
        assert (await service.list_sessions()).status == "SESSIONS"
        assert (await service.list_locks()).status == "LOCKS"
        assert (await service.resume("RUN-1")).status == "READ_ONLY"
        await service.close()

    asyncio.run(story())


def test_a_read_only_folder_still_reports_what_has_expired(tmp_path: Path) -> None:
    async def story() -> None:
        clock = ManualClock()
        bench = Bench(tmp_path, clock=clock)
        service = bench.service()
        await begin(service)
        await service.create_decision(DecisionRequest("RUN-1", "t", "c", OPTIONS, expires_at="2031-01-01T00:00:00Z"))
        await service.close()
        clock.seconds += 100 * 366 * 86_400
        injector = read_only()
        bench.ops = cast("FileOps", injector.wrap(FileOps()))
        reader = bench.service()
        seen = await reader.active_decision()
        assert seen.status == "NO_ACTIVE_DECISION" and "not written" in seen.warnings[-1]
        await reader.close()

    asyncio.run(story())


def test_a_failing_audit_line_is_a_warning_that_names_the_file(tmp_path: Path) -> None:
    async def story() -> None:
        service = Bench(tmp_path, clock=SystemClock()).service()
        await prepared(service, "begin")
        log = tmp_path / ".chaos/interactions/audit.jsonl"
        log.unlink()
        log.mkdir()
        done = await service.write_capsule("RUN-1", NOTHING)
        assert done.ok and any("audit.jsonl" in warning for warning in done.warnings)
        await service.close()

    asyncio.run(story())
