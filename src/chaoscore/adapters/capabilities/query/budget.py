"""How much work one query may do, counted in steps, not in seconds: the same query ends the same way on every machine.

``interpreter`` and ``functions`` stand above it and charge before they do anything whose cost depends on values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json

TOO_COSTLY = "QUERY_TOO_COSTLY"


class Budget:
    """One step is about one visited value, eight copied ones, or sixteen characters. Raises ``NotPerformed``."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise NotPerformed(
                f"the query does more than {self.steps} steps of work; filter earlier or ask for less", code=TOO_COSTLY
            )

    def text(self, chars: int) -> None:
        """Text is looked at or made."""
        self.spend(1 + chars // 16)

    def items(self, count: int) -> None:
        """Elements are copied or looked at one by one, but not into."""
        self.spend(1 + count // 8)

    def sort(self, count: int) -> None:
        self.items(count * count.bit_length())

    def walk(self, value: Json) -> None:
        """All of a value is looked at. A value may contain one part many times over (``[@, @]``), so this stops as
        soon as the budget is used up, and keeps its own stack."""
        open_values: list[Json] = [value]
        while open_values:
            at = open_values.pop()
            if isinstance(at, str):
                self.text(len(at))
            else:
                self.spend()
                if isinstance(at, Mapping):
                    open_values.extend(at.values())
                    open_values.extend(at)
                elif isinstance(at, Sequence):
                    self.spend(len(at))
                    open_values.extend(at)
