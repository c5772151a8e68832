"""A clock that tests set, and repositories with a store or a service over them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from chaoscore.adapters.files.interaction import FileInteractionStore, FolderSettings
from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.app.interactions.service import InteractionService
from chaoscore.app.ports import Clock
from chaoscore.bootstrap_interaction import random_hex
from chaoscore.domain.interaction.limits import InteractionLimits

REPOSITORY = Path(__file__).resolve().parents[2]


def child_environment() -> dict[str, str]:
    """For processes of the tests' own: they import the tests, and the product from where this process has it."""
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


@dataclass(slots=True)
class ManualClock:
    """Wall time that a test sets; monotonic time is real, because the lock is."""

    seconds: float = 1_900_000_000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(slots=True)
class Bench:
    """A repository of its own with one service over it."""

    repository: Path
    clock: Clock = field(default_factory=ManualClock)
    ops: FileOps = field(default_factory=FileOps)
    lock_wait_seconds: float = 5.0
    answer_bridge: bool = True
    validate: bool = True
    cache_dir: Path | None = None
    limits: InteractionLimits = field(default_factory=InteractionLimits)

    @property
    def root(self) -> Path:
        return self.repository / ".chaos/interactions"

    def settings(self) -> FolderSettings:
        return FolderSettings(
            self.root,
            self.repository,
            self.root / "schema",
            validate=self.validate,
            cache_dir=self.cache_dir,
            lock_wait_seconds=self.lock_wait_seconds,
            limits=self.limits,
        )

    def store(self) -> FileInteractionStore:
        return FileInteractionStore(self.settings(), self.clock, random_hex, self.ops)

    def service(self) -> InteractionService:
        return InteractionService(self.store(), answer_bridge=self.answer_bridge)
