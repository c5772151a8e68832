"""What approvals need from the world: the approver's PIN, and a way to tell people that something waits.

``app.approvals`` stands above; files and processes below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ApproverPin(Protocol):
    """The PIN that a person set once at a terminal; only a slow hash of it is kept."""

    def is_set(self) -> bool:
        """Cheap; read from where it is kept every time, so that a PIN set by another process counts at once."""
        ...

    async def require(self, given: str | None) -> None:
        """Returns when ``given`` is the PIN. Raises ``PinRefused`` when it is not, when none is set, or while too many
        wrong ones were tried lately (across processes). Never blocks the event loop."""
        ...


@dataclass(frozen=True, slots=True)
class Notice:
    """Something began to wait for a person. ``text`` is one plain line without anything secret, ``command`` a whole
    command line that answers it, ``url`` the page of the question where one is served."""

    decision: str
    run: str
    kind: str
    text: str
    command: str
    url: str | None = None


class Notifier(Protocol):
    async def tell(self, notice: Notice) -> None:
        """Returns soon and never raises: a notification that fails is a line in the log."""
        ...
