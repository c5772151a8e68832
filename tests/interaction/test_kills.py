"""Real SIGKILLs under load: processes on one folder die at any moment; nothing that was acknowledged is lost."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chaoscore.app.interactions.service import InteractionService
from tests.interaction.conftest import Place
from tests.interaction.steps import begin, faults
from tests.interaction.support import child_environment

PROCESSES = 3
DELAY_SECONDS_MAX = 0.03


class Worker:
    """A child and what it said so far; it is killed at some moment after it has said a number of things."""

    def __init__(self, repository: Path, name: str, lines: int, delay_seconds: float) -> None:
        self.said: list[str] = []
        self._lines = lines
        self._delay_seconds = delay_seconds
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.interaction.worker", str(repository), name],
            env=child_environment(), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        timer = threading.Timer(self._delay_seconds, self._process.kill)
        for line in self._process.stdout:
            self.said.append(line.strip())
            if len(self.said) == self._lines:
                timer.start()

    def ended(self) -> int:
        self._reader.join(120)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return self._process.wait(10)


def campaign(place: Place, kills: int, seed: int) -> None:
    dice = random.Random(seed)
    said: list[str] = []
    killed = 0

    async def story(service: InteractionService) -> None:
        await begin(service, "RUN-0", "c0")

    place.tell(story)
    for turn in range(kills // PROCESSES):
        workers = [
            Worker(place.repository, f"{turn}-{number}", dice.randint(1, 25), dice.uniform(0, DELAY_SECONDS_MAX))
            for number in range(PROCESSES)
        ]
        ends = [worker.ended() for worker in workers]
        assert ends == [-signal.SIGKILL] * PROCESSES
        killed += len(ends)
        said += [line for worker in workers for line in worker.said]
    assert not [line for line in said if line.startswith("refused")]

    async def check(service: InteractionService) -> None:
        assert (await service.active_decision()).ok
        assert (await begin(service, "RUN-last", "c-last")).ok
        assert faults(place.root) == []
        states = {
            path.parent.name: json.loads(path.read_bytes())["state"]
            for path in place.root.glob("decisions/*/decision.json")
        }
        rank = {"waiting": 0, "answered": 1, "consumed": 2}
        for line in said:
            kind, _, name = line.partition(" ")
            if kind == "completed":
                session = json.loads((place.root / f"sessions/{name}.json").read_bytes())
                assert session["state"] == "completed", line
            else:
                assert rank[states[name]] >= rank[kind], line
        assert not (place.root / ".runtime.lock").exists()

    place.tell(check)
    assert killed == kills and len(said) >= kills
    print(f"\nseed {seed}: {killed} processes killed, {len(said)} acknowledged operations all there")


def test_killed_processes_lose_nothing_that_was_acknowledged(place: Place) -> None:
    campaign(place, 6, seed=1)


@pytest.mark.campaign
def test_two_hundred_kills(place: Place) -> None:
    campaign(place, 201, seed=random.SystemRandom().randrange(2**32))
