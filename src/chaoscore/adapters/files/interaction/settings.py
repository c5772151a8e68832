"""Where the folder is and how it is treated: one frozen value, made by bootstrap."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chaoscore.domain.interaction.limits import InteractionLimits


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """``validate`` concerns the workspace's own schema copies; the built-in schemas always hold.

    ``cache_dir`` holds the rebuildable index, ``None`` means none: every operation then looks through the whole folder.
    """

    root: Path
    repository: Path
    schema_dir: Path
    validate: bool = True
    cache_dir: Path | None = None
    lock_wait_seconds: float = 30.0
    settle_seconds: float = 0.002
    temp_age_seconds: float = 30.0
    limits: InteractionLimits = field(default_factory=InteractionLimits)
