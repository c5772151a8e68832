"""What happens beside the operations: start-up seeding, sweeping of temporary files, noticing that anything changed."""

from __future__ import annotations

import os
import stat
import threading

from chaoscore.adapters.files.interaction import schemas
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.settings import FolderSettings
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.names import ACTIVE_PATH, AUDIT_PATH, LOCKS_PATH

_MANY = 500
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


def sweep(folder: Folder, older_than_seconds: float) -> None:
    """Delete temporary files (``.*.tmp``) that no live writer can still own. Errors are ignored.

    The many small folders of decisions are left to a thread when there are many: nobody waits for a clean folder.
    """
    waiting = [folder.root]
    while waiting:
        directory = waiting.pop()
        below = _sweep_one(directory, older_than_seconds)
        if len(below) > _MANY:
            threading.Thread(
                target=_sweep_all, args=(below, older_than_seconds), name="interactions-sweep", daemon=True
            ).start()
        else:
            waiting.extend(below)


def _sweep_all(directories: list[str], older_than_seconds: float) -> None:
    for directory in directories:
        directories.extend(_sweep_one(directory, older_than_seconds))


def _sweep_one(directory: str, older_than_seconds: float) -> list[str]:
    """Sweep the files of one directory; which directories are in it."""
    below = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.path)
                elif entry.name.startswith(".") and entry.name.endswith(".tmp"):
                    _remove_old(entry.path, older_than_seconds)
    except OSError:
        pass
    return below


def _remove_old(path: str, older_than_seconds: float) -> None:
    try:
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode) and found.st_mtime <= older_than_seconds:
            os.unlink(path)
    except OSError:
        pass


def change_token(folder: Folder) -> str:
    """Changes whenever a writer of the shared format changed anything: each appends audit or touches a directory."""
    parts = []
    for relative in _WATCHED:
        found = folder.stat(relative)
        parts.append(f"{found.inode:x}.{found.size:x}.{found.mtime:x}.{found.ctime:x}" if found is not None else "-")
    return "|".join(parts)
