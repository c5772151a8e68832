"""The approver's PIN of one data directory, for the commands that set it. No policy and no database are opened."""

from __future__ import annotations

from chaoscore.adapters.files.approver_pin import FilePin
from chaoscore.adapters.system import SystemClock
from chaoscore.settings import Settings


def approver_pin(settings: Settings) -> FilePin:
    """Makes nothing on disk."""
    return FilePin(settings.data_dir, SystemClock())
