"""The recorded actions of one step, with what a fan-out of many items must not be counted through for every time.

``chaoscore.domain.run`` stands above and asks; it exists so that one more finished item costs the same whether the step
has ten items or ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView

from chaoscore.domain.action import FINISHED, Action, State

PENDING: State = "pending"
_STARTABLE: frozenset[State] = frozenset({"pending", "waiting-for-decision"})
# A fan-out is what still moves first, then what waits, then what went wrong.
_MOVING: tuple[State, ...] = ("running", "outcome-unknown", "waiting-for-decision")
_WORST: tuple[State, ...] = ("failed", "denied", "skipped")


class StepActions:
    """Actions by item (``None`` for a plain step, or for a fan-out that failed before any item)."""

    def __init__(self) -> None:
        self._by_item: dict[int | None, Action] = {}
        self._counts: dict[State, int] = {}
        self._startable: dict[int, None] | None = None

    def put(self, action: Action) -> None:
        before = self._by_item.get(action.item)
        if before is not None:
            self._counts[before.state] -= 1
        self._counts[action.state] = self._counts.get(action.state, 0) + 1
        self._by_item[action.item] = action
        if self._startable is not None and action.item is not None:
            if action.state not in _STARTABLE:
                self._startable.pop(action.item, None)
            elif action.item not in self._startable:
                self._startable[action.item] = None
                self._startable = dict.fromkeys(sorted(self._startable))

    def get(self, item: int | None) -> Action | None:
        return self._by_item.get(item)

    def __iter__(self) -> Iterator[Action]:
        return iter(self._by_item.values())

    def startable(self, total: int) -> KeysView[int]:
        """Indices of the items that have not started, in order; ``total`` is how many items the step has. Good until
        the next ``put``: a copy would make one more item cost as much as there are items left."""
        if self._startable is None:
            known = self._by_item
            self._startable = dict.fromkeys(
                i for i in range(total) if (a := known.get(i)) is None or a.state in _STARTABLE
            )
        return self._startable.keys()

    def count(self, *states: State) -> int:
        return sum(self._counts.get(state, 0) for state in states)

    def combined(self, total: int) -> State:
        """The state of the whole fan-out of ``total`` items."""
        if total == 0:
            return "succeeded"
        for state in _MOVING:
            if self._counts.get(state):
                return state
        ended = sum(self._counts.get(state, 0) for state in FINISHED)
        if ended < total:
            return "running" if ended else PENDING
        return next((state for state in _WORST if self._counts.get(state)), "succeeded")
