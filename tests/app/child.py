"""A process of its own that runs one plan, for tests that kill it: ``python -m tests.app.child DIRECTORY PLAN_FILE``.

It prints one JSON line per thing that happened and reads nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.app.harness import bench


async def main(directory: Path, steps: list[dict[str, Any]], confirmed: bool) -> None:
    async with bench(directory) as b:
        plan = await b.plan(*steps)
        print(json.dumps({"plan": plan}), flush=True)
        answer = await b.execute(plan, confirmed=confirmed)
        print(json.dumps({"status": answer["status"]}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text("utf-8")), "--confirmed" in sys.argv))
