"""The machine itself behind the ports: clock, ids and processes."""

from __future__ import annotations

from chaoscore.adapters.system.clock import SystemClock
from chaoscore.adapters.system.ids import RandomIds
from chaoscore.adapters.system.processes import LinuxProcesses

__all__ = ["LinuxProcesses", "RandomIds", "SystemClock"]
