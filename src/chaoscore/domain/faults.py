"""Collecting faults: bounded in number and size, fit to be sent, with the names the writer may have meant.

The linter and the reader of drafts stand above it and note what they find as they go; nothing is raised on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from chaoscore.domain.errors import Fault

FAULTS_MAX = 100
NAME_CHARS_MAX = 200
_POINTER_CHARS_MAX = 500


class Faults:
    """Faults in the order found, at most ``FAULTS_MAX`` and then a note that there are more.

    Whatever a message carries is made fit to be sent: no lone surrogates, no endless pointers.
    """

    def __init__(self) -> None:
        self._found: dict[Fault, None] = {}
        self._cut = False

    @property
    def full(self) -> bool:
        return self._cut

    def add(self, pointer: str, message: str, suggestion: str | None = None) -> None:
        if len(self._found) >= FAULTS_MAX:
            self._cut = True
            return
        if len(pointer) > _POINTER_CHARS_MAX:
            pointer = pointer[:_POINTER_CHARS_MAX].rpartition("/")[0]
        self._found[Fault(_sendable(pointer), _sendable(message), suggestion and _sendable(suggestion))] = None

    def extend(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            self.add(fault.pointer, fault.message, fault.suggestion)

    def __iter__(self) -> Iterator[Fault]:
        yield from sorted(self._found, key=_step_number)
        if self._cut:
            yield Fault("", f"there are more than {FAULTS_MAX} faults", "mend these first, then send the steps again")


def _sendable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _step_number(fault: Fault) -> int:
    number = fault.pointer.removeprefix("/steps/").partition("/")[0]
    return int(number) if number.isascii() and number.isdigit() else -1


def near(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Names that look like ``name``, best first."""
    if len(name) > NAME_CHARS_MAX:
        return []
    by_lower = {known.lower(): known for known in names}
    return [by_lower[found] for found in get_close_matches(name.lower(), by_lower, n=count, cutoff=0.5)]
