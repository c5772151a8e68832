"""A server process for the kill campaign: ``python -m tests.faults.approval_child DIRECTORY``.

It keeps a handful of runs waiting for approval and goes on with those that were answered, until it is killed. Each run
writes two lines into the journal if it may: ``<label> first`` and ``<label> second``.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path

from tests.app.harness import bench, step

WAITING_MAX = 4


async def main(directory: Path) -> None:
    async with bench(directory, root=directory / "interactions") as b, b.kernel.going_on():
        process = uuid.uuid4().hex[:12]
        print("ready", flush=True)
        number = 0
        while True:
            if await b.kernel.stores.decisions.count_waiting() < WAITING_MAX:
                number += 1
                name = f"{process}-{number}"
                plan = await b.plan(
                    step("s1", "test.append", {"text": f"{name} first"}),
                    step("s2", "test.append", {"text": f"{name} second"}),
                )
                await b.execute(plan)
            await asyncio.sleep(0.005)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
