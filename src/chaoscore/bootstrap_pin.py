"""What commands need of a data directory that they do not open: the approver's PIN, and whether there is a database."""

from __future__ import annotations

from chaoscore.adapters.files.approver_pin import FilePin
from chaoscore.adapters.sqlite.opening import FILE_NAME
from chaoscore.adapters.system import SystemClock
from chaoscore.settings import Settings


def approver_pin(settings: Settings) -> FilePin:
    """Makes nothing on disk."""
    return FilePin(settings.data_dir, SystemClock())


def has_database(settings: Settings) -> bool:
    """Whether plans and runs were ever kept there. Makes nothing on disk."""
    return (settings.data_dir / FILE_NAME).exists()
