"""A power cut: whatever was not synced may be gone, in any combination; nothing that was acknowledged may be.

The disk is a model, stricter than any real one: the content of a file survives only from its last ``fsync``, and a new,
renamed or deleted entry only from the ``fsync`` of its directory. What is left after the cut is laid out as real files.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.system import SystemClock
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from tests.interaction.steps import answer, ask, begin, faults, text
from tests.interaction.support import Bench

Change = tuple[str, dict[str, int | None]]


class Recorder(FileOps):
    """Passes everything on and writes down what a disk must remember: files are numbers, ``0`` is a directory."""

    def __init__(self) -> None:
        self.log: list[Callable[[Disk], None]] = []
        self._paths: dict[int, str] = {}

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        made = bool(flags & os.O_CREAT) and not os.path.exists(path)
        fd = super().open(path, flags, mode)
        self._paths[fd] = path
        if made:
            self.log.append(lambda disk: disk.create(path))
        return fd

    def write(self, fd: int, data: bytes) -> int:
        count, path = super().write(fd, data), self._paths[fd]
        self.log.append(lambda disk: disk.append(path, data[:count]))
        return count

    def fsync(self, fd: int) -> None:
        super().fsync(fd)
        path = self._paths[fd]
        self.log.append(lambda disk: disk.sync(path))

    def fdatasync(self, fd: int) -> None:
        self.fsync(fd)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.log.append(lambda disk: disk.rename(source, target))

    def link(self, source: str, target: str) -> None:
        super().link(source, target)
        self.log.append(lambda disk: disk.enter(target, disk.entries[source]))

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.log.append(lambda disk: disk.enter(path, None))

    def mkdir(self, path: str) -> None:
        super().mkdir(path)
        self.log.append(lambda disk: disk.enter(path, 0))


class Disk:
    """What programs see (``entries``, ``data``), what is safe (``durable``, ``synced``), and what is on its way."""

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}
        self.durable: dict[str, int] = {}
        self.data: dict[int, bytes] = {}
        self.synced: dict[int, bytes] = {}
        self.pending: list[Change] = []

    def create(self, path: str) -> None:
        number = len(self.data) + 1
        self.data[number] = b""
        self.enter(path, number)

    def append(self, path: str, data: bytes) -> None:
        self.data[self.entries[path]] += data

    def enter(self, path: str, number: int | None) -> None:
        self._change(os.path.dirname(path), {path: number})

    def rename(self, source: str, target: str) -> None:
        self._change(os.path.dirname(target), {target: self.entries[source], source: None})

    def _change(self, directory: str, effects: dict[str, int | None]) -> None:
        _apply(self.entries, effects)
        self.pending.append((directory, effects))

    def sync(self, path: str) -> None:
        if path in self.entries and self.entries[path] != 0:
            self.synced[self.entries[path]] = self.data[self.entries[path]]
            return
        for directory, effects in self.pending:
            if directory == path:
                _apply(self.durable, effects)
        self.pending = [change for change in self.pending if change[0] != path]

    def after_a_cut(self, dice: random.Random, kept: float) -> dict[str, bytes | None]:
        """Files and folders that are left; each unsynced change survived with the chance ``kept``."""
        left = dict(self.durable)
        for _, effects in self.pending:
            if dice.random() < kept:
                _apply(left, effects)
        out: dict[str, bytes | None] = {}
        for path, number in sorted(left.items()):
            safe = self.synced.get(number, b"")
            out[path] = None if number == 0 else self.data[number] if dice.random() < kept else safe
        return out


def _apply(entries: dict[str, int], effects: dict[str, int | None]) -> None:
    for path, number in effects.items():
        if number is None:
            entries.pop(path, None)
        else:
            entries[path] = number


def lay_out(files: dict[str, bytes | None], before: Path, after: Path) -> None:
    """What hangs in a folder that was lost is lost with it."""
    after.mkdir(parents=True)
    for path, content in files.items():
        target = after / os.path.relpath(path, before)
        if not target.parent.is_dir():
            continue
        if content is None:
            target.mkdir(exist_ok=True)
        else:
            target.write_bytes(content)


async def told(service: InteractionService, recorder: Recorder) -> list[tuple[int, str, str]]:
    """(how far the log was, what was acknowledged, of what)."""
    acknowledged: list[tuple[int, str, str]] = []

    def note(kind: str, name: str) -> None:
        acknowledged.append((len(recorder.log), kind, name))

    for number in range(2):
        run = f"RUN-{number}"
        assert (await begin(service, run, f"c{number}")).ok
        note("begun", run)
        decision = text((await ask(service, run)).data["decisionId"])
        note("waiting", decision)
        assert (await answer(service, decision)).ok
        note("answered", decision)
        assert (await service.resume(run)).ok
        assert (await service.mark_consumed(decision)).ok
        note("consumed", decision)
        assert (await service.complete(EndRequest(run))).ok
        note("completed", run)
    return acknowledged


RANK = {"waiting": 0, "answered": 1, "consumed": 2}


def check(root: Path, acknowledged: list[tuple[str, str]]) -> None:
    for kind, name in acknowledged:
        if kind in RANK:
            decision = json.loads((root / f"decisions/{name}/decision.json").read_bytes())
            assert RANK[decision["state"]] >= RANK[kind], (kind, name)
            if kind != "waiting":
                response = json.loads((root / f"decisions/{name}/response.json").read_bytes())
                assert response["selectedOptionId"] == "a"
        else:
            session = json.loads((root / f"sessions/{name}.json").read_bytes())
            assert kind == "begun" or session["state"] == "completed", (kind, name)
    assert faults(root) == []


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_no_power_cut_loses_what_was_acknowledged(tmp_path: Path, kept: float) -> None:
    recorder, dice = Recorder(), random.Random(7)
    bench = Bench(tmp_path / "before", clock=SystemClock(), ops=recorder)
    bench.repository.mkdir()
    bench.root.mkdir(parents=True)

    async def story() -> list[tuple[int, str, str]]:
        service = bench.service()
        acknowledged = await told(service, recorder)
        await service.close()
        return acknowledged

    acknowledged = asyncio.run(story())
    points = [at for at, _, _ in acknowledged] + dice.sample(range(len(recorder.log)), 14)
    for number, point in enumerate(points):
        disk = Disk()
        for event in recorder.log[:point]:
            event(disk)
        repository = tmp_path / f"after-{number}"
        root = repository / ".chaos/interactions"
        lay_out(disk.after_a_cut(dice, kept), bench.root, root)

        async def heal(repository: Path = repository) -> None:
            service = Bench(repository, clock=SystemClock()).service()
            seen = await service.active_decision()
            assert seen.ok
            await service.close()

        asyncio.run(heal())
        check(root, [(kind, name) for at, kind, name in acknowledged if at <= point])
