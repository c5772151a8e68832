"""A process that works on a folder until it is killed, and says on stdout what was acknowledged to it.

``python -m tests.interaction.worker REPOSITORY NAME``
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from chaoscore.adapters.system import SystemClock
from chaoscore.app.envelope import Envelope
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from tests.interaction.steps import answer, ask, begin, text
from tests.interaction.support import Bench


def say(kind: str, name: str) -> None:
    sys.stdout.write(f"{kind} {name}\n")
    sys.stdout.flush()


def good(envelope: Envelope) -> Envelope:
    if not envelope.ok:
        say("refused", envelope.status)
    return envelope


async def work(service: InteractionService, name: str) -> None:
    dice, number = random.Random(name), 0
    while True:
        number += 1
        run = f"RUN-{name}-{number}"
        if not good(await begin(service, run, f"change-{name}-{number}")).ok:
            continue
        asked = good(await ask(service, run))
        if not asked.ok:
            continue
        decision = text(asked.data["decisionId"])
        say("waiting", decision)
        if dice.random() < 0.3:
            continue
        if good(await answer(service, decision, dice.choice("ab"))).ok:
            say("answered", decision)
        if dice.random() < 0.3:
            continue
        good(await service.resume(run))
        if good(await service.mark_consumed(decision)).ok:
            say("consumed", decision)
        if good(await service.complete(EndRequest(run))).ok:
            say("completed", run)


async def main(repository: Path, name: str) -> None:
    bench = Bench(repository, clock=SystemClock(), lock_wait_seconds=30.0, cache_dir=repository / "cache")
    await work(bench.service(), name)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
