"""The folder keeps the contract of the port, with and without its index."""

from __future__ import annotations

from pathlib import Path

from chaoscore.adapters.system import SystemClock
from chaoscore.app.interaction_ports import InteractionStore
from chaoscore.testing.interaction_store import InteractionStoreContract
from tests.interaction.support import Bench


class TestFolder(InteractionStoreContract):
    def open(self, directory: Path) -> InteractionStore:
        return Bench(directory, clock=SystemClock()).store()


class TestFolderWithIndex(InteractionStoreContract):
    def open(self, directory: Path) -> InteractionStore:
        return Bench(directory, clock=SystemClock(), cache_dir=directory / "cache").store()
