"""A process of its own that runs one plan, for tests that kill it: ``python -m tests.app.child DIRECTORY PLAN_FILE``.

``--confirmed`` approves what waits, ``--lease N`` sets the seconds that its lease holds. It prints one JSON line per
thing that happened and reads nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from chaoscore.domain.limits import Limits
from tests.app.harness import bench


async def main(directory: Path, steps: list[dict[str, Any]], confirmed: bool, lease_seconds: float) -> None:
    async with bench(directory, limits=Limits(lease_seconds=lease_seconds)) as b:
        plan = await b.plan(*steps)
        print(json.dumps({"plan": plan}), flush=True)
        answer = await b.execute(plan, confirmed=confirmed)
        print(json.dumps({"status": answer["status"]}), flush=True)


if __name__ == "__main__":
    flags = argparse.ArgumentParser()
    flags.add_argument("directory", type=Path)
    flags.add_argument("plan_file", type=Path)
    flags.add_argument("--confirmed", action="store_true")
    flags.add_argument("--lease", type=float, default=Limits().lease_seconds)
    given = flags.parse_args()
    asyncio.run(main(given.directory, json.loads(given.plan_file.read_text("utf-8")), given.confirmed, given.lease))
