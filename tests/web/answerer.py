"""Another process that answers a decision at its own door: ``-m tests.web.answerer DIRECTORY DECISION OPTION``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from chaoscore.app.approvals import Answer
from chaoscore.domain.interaction.response import Choice
from tests.app.harness import bench


async def main(directory: Path, decision: str, option: str) -> None:
    async with bench(directory) as b:
        approvals = b.kernel.services.approvals
        digest = (await approvals.find(decision)).question_digest
        await approvals.answer(Answer(decision, Choice(option), digest, "terminal", "ada"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
