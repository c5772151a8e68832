"""One repository per test, and a way to run a story against it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from chaoscore.app.interactions.service import InteractionService
from tests.interaction.support import Bench, ManualClock

Story = Callable[[InteractionService], Coroutine[Any, Any, None]]


class Place:
    """A repository, its clock, and ``tell`` to run a story with a fresh service over it."""

    def __init__(self, repository: Path) -> None:
        self.clock = ManualClock()
        self.bench = Bench(repository, clock=self.clock)
        self.repository = repository
        self.root = self.bench.root

    def tell(self, story: Story) -> None:
        async def told() -> None:
            service = self.bench.service()
            try:
                await story(service)
            finally:
                await service.close()

        asyncio.run(told())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
