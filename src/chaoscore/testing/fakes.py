"""Clock, ids and processes that a test decides about."""

from __future__ import annotations

from dataclasses import replace

from chaoscore.domain.records import ProcessIdentity


class FakeClock:
    """``Clock`` that stands still until it is moved. Seconds since the epoch."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._monotonic += seconds


class CountingIds:
    """``Ids`` that count: the same in every run, and still long enough to be told from ordinary words."""

    def __init__(self, begin: int = 0) -> None:
        self._count = begin

    def credential(self, prefix: str) -> str:
        return f"{prefix}_{self._next():032d}"

    def label(self, prefix: str) -> str:
        return f"{prefix}-{self._next():016d}"

    def _next(self) -> int:
        self._count += 1
        return self._count


class FakeProcesses:
    """``Processes`` of a machine where the test says who lives. Every instance is a process of its own; ``graveyard``
    is shared by those that run on one machine."""

    def __init__(self, pid: int = 100, graveyard: set[int] | None = None) -> None:
        self._identity = ProcessIdentity("boot-1", "pid:[1]", pid, f"start-{pid}", f"nonce-{pid}")
        self.graveyard = graveyard if graveyard is not None else set()

    def current(self) -> ProcessIdentity:
        return self._identity

    def is_dead(self, process: ProcessIdentity) -> bool:
        here = (self._identity.boot, self._identity.namespace)
        return (process.boot, process.namespace) == here and process.pid in self.graveyard

    def another(self, pid: int) -> FakeProcesses:
        """A second process of this machine."""
        return FakeProcesses(pid, self.graveyard)

    def elsewhere(self) -> ProcessIdentity:
        """A process of which nothing is certain from here: another machine's."""
        return replace(self._identity, boot="boot-2", nonce="nonce-elsewhere")

    def bury(self, process: ProcessIdentity) -> None:
        self.graveyard.add(process.pid)
