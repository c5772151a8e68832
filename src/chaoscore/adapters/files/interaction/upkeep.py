"""What happens beside the operations: start-up seeding, sweeping of temporary files, noticing that anything changed."""

from __future__ import annotations

import os
import stat

from chaoscore.adapters.files.interaction import schemas
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.settings import FolderSettings
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.names import ACTIVE_PATH, AUDIT_PATH, LOCKS_PATH

_WATCHED = (AUDIT_PATH, ACTIVE_PATH, LOCKS_PATH, "sessions", "decisions", "capsules")


def start(settings: FolderSettings, folder: Folder, now_seconds: float) -> list[str]:
    """Warnings for what could not be done."""
    warnings: list[str] = []
    if not folder.exists():
        return warnings
    if not schemas.has_any(settings.schema_dir):
        try:
            schemas.seed(settings.schema_dir, folder.ops)
        except ChaosError as error:
            warnings.append(f"schemas were not seeded: {error.message}")
    sweep(folder, now_seconds - settings.temp_age_seconds)
    return warnings


def sweep(folder: Folder, older_than_seconds: float) -> int:
    """Delete temporary files (``.*.tmp``) that no live writer can still own; how many went. Errors are ignored."""
    gone = 0
    for directory, _, names in os.walk(folder.root, followlinks=False):
        for name in names:
            if not (name.startswith(".") and name.endswith(".tmp")):
                continue
            path = f"{directory}/{name}"
            try:
                found = os.lstat(path)
                if stat.S_ISREG(found.st_mode) and found.st_mtime <= older_than_seconds:
                    os.unlink(path)
                    gone += 1
            except OSError:
                continue
    return gone


def change_token(folder: Folder) -> str:
    """Changes whenever a writer of the shared format changed anything: each appends audit or touches a directory."""
    parts = []
    for relative in _WATCHED:
        found = folder.stat(relative)
        parts.append(f"{found.inode:x}.{found.size:x}.{found.mtime:x}.{found.ctime:x}" if found is not None else "-")
    return "|".join(parts)
