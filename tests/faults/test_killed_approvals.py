"""Real kill -9 of a server that asks, goes on with answers and mirrors its questions, while people answer (R1 over the
joined system). An answer that was acknowledged is never lost, what was approved happens once, what was denied never."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaoscore.app.approvals import Answer
from chaoscore.domain.approval import DENY_ALL, RunDecision
from chaoscore.domain.errors import Conflict
from chaoscore.domain.interaction.response import Choice
from tests.app.harness import Bench, bench, run, until, write_policy

REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 120.0


def start(directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.approval_child", str(directory)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=30)
    assert process.stdout is not None
    process.stdout.close()


class People:
    """They answer what waits; ``said`` is what was acknowledged: line of the journal → may it happen."""

    def __init__(self, b: Bench, dice: random.Random) -> None:
        self.b = b
        self.dice = dice
        self.said: dict[str, bool] = {}
        self.heard: set[str] = set()

    async def answer_one(self) -> None:
        waiting, _ = await self.b.kernel.services.approvals.waiting(None, 10)
        if not waiting:
            return
        await self.answer(self.dice.choice(waiting))

    async def answer(self, decision: RunDecision) -> None:
        lines = {action.option: text_of(decision, action.option) for action in decision.actions}
        if decision.kind == "outcome":
            options = ["happened" if lines["retry"] in self.b.world.effects() else "retry"]
        else:
            # another attempt, after somebody said to run it again, is another thing to approve
            digests = {action.digest for action in decision.actions}
            assert not digests & self.heard, "asked again about what was answered"
            several = [option for option in lines if self.dice.random() < 0.7]
            options = several or [DENY_ALL if len(lines) > 1 else "deny"]
        choice = Choice(options[0] if len(options) == 1 else None, tuple(options) if len(options) > 1 else ())
        try:
            await self.b.kernel.services.approvals.answer(
                Answer(decision.id, choice, decision.question_digest, "terminal", "ada")
            )
        except Conflict:
            return
        if decision.kind == "approval":
            self.heard |= {action.digest for action in decision.actions}
            self.said.update({line: option in options for option, line in lines.items()})


def text_of(decision: RunDecision, option: str) -> str:
    (action,) = [action for action in decision.actions if action.option == option]
    arguments = action.shown["arguments"]
    assert isinstance(arguments, dict)
    return str(arguments["text"])


async def campaign(directory: Path, kills: int, seed: int) -> None:
    dice = random.Random(seed)
    write_policy(directory, requireConfirmationFor=["test.append"])
    async with bench(directory, root=directory / "interactions") as b:
        people = People(b, dice)
        for _ in range(kills):
            process = await asyncio.to_thread(start, directory)
            end = time.monotonic() + dice.uniform(0.0, 0.5)
            while time.monotonic() < end:
                await people.answer_one()
                await asyncio.sleep(dice.uniform(0.0, 0.02))
            await asyncio.to_thread(kill, process)
        async with b.kernel.going_on():

            async def settled() -> bool:
                waiting, _ = await b.kernel.services.approvals.waiting(None, 100)
                for decision in waiting:
                    await people.answer(decision)
                runs, cursor = await b.kernel.services.runs.list(b.principal, 200, None)
                while cursor is not None:
                    page, cursor = await b.kernel.services.runs.list(b.principal, 200, cursor)
                    runs = (*runs, *page)
                for r in runs:
                    if r.status == "running" and r.plan_handle is not None:  # died before anybody drove it
                        await b.execute(r.plan_handle)
                return not waiting and all(r.status in ("completed", "failed") for r in runs) and bool(runs)

            await until(settled, PATIENCE_SECONDS)
        effects = b.world.effects()
        assert len(set(effects)) == len(effects), "an effect happened twice"
        allowed = {line for line, may in people.said.items() if may}
        assert set(effects) == allowed, (seed, allowed ^ set(effects))
        report = await b.kernel.stores.audit.verify()
        assert report.problem is None, (seed, report.problem)
        print(f"seed {seed}: {kills} kills, {len(people.said)} actions answered, {len(effects)} effects")


def test_kills_while_people_answer_lose_no_answer_and_repeat_no_effect(tmp_path: Path) -> None:
    run(campaign(tmp_path, 4, 1))


@pytest.mark.campaign
def test_many_kills_while_people_answer(tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", time.time_ns() % 1_000_000))
    run(campaign(tmp_path, 200, seed))
