"""Failing the Nth call of something: a crash or an error, once or from then on.

``FaultInjector.wrap`` stands in front of a real object and passes every call on, so that what is tested is what ships.
A campaign runs an operation again and again, failing call 1, call 2, … until the operation ends with none left to fail:
then every point at which it can fail has been tried.

A crash is a ``BaseException``: the code under test must not be able to take it for an error and carry on. After it, and
after a lasting error, every further call fails too, as it would for a process that is gone or a disk that is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

When = Literal["before", "after"]


class Crash(BaseException):
    """The process ends here: nothing after this call happens."""


class FaultInjector:
    """Counts the calls that go through it and fails the one with number ``fail_at`` (from 1); 0 only counts.

    ``fault`` makes what is raised, given the name of the call. ``lasting`` fails every later call too; otherwise the
    fault is over after one call. ``when`` tells whether the failing call has its effect first (``after``): a crash can
    come right behind a commit.
    """

    def __init__(
        self,
        fail_at: int = 0,
        *,
        fault: Callable[[str], BaseException] = Crash,
        lasting: bool = False,
        when: When = "before",
        only: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self.fail_at = fail_at
        self.calls: list[str] = []
        self.fired = False
        self.armed = True
        self._fault = fault
        self._lasting = lasting
        self._when = when
        self._only = only
        self._guard = threading.Lock()

    def wrap(self, target: Any, *, inner: Iterable[str] = ()) -> Any:
        """A stand-in for ``target``. What its methods named in ``inner`` return is wrapped as well; calls of that are
        named after both, as in ``connect.execute SELECT 1``."""
        return _Stand(target, self, frozenset(inner), "")

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        fails = self._count(name)
        if fails and (self._when == "before" or self._over()):
            raise self._fault(name)
        result = work()
        if fails:
            del result  # a traceback must not keep alive what a dead process would not hold
            raise self._fault(name)
        return result

    def _over(self) -> bool:
        """Whether the fault has fired before: then nothing has an effect any more."""
        return len(self.calls) > self.fail_at

    def _count(self, name: str) -> bool:
        if not self.armed or not self._only(name):
            return False
        with self._guard:
            self.calls.append(name)
            number = len(self.calls)
        fails = self.fail_at > 0 and (number == self.fail_at or (self._lasting and number > self.fail_at))
        self.fired = self.fired or fails
        return fails


class _Stand:
    """Looks like the target; every method call is counted."""

    def __init__(self, target: Any, injector: FaultInjector, inner: frozenset[str], prefix: str) -> None:
        self._target = target
        self._injector = injector
        self._inner = inner
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        if not callable(member):
            return member

        def call(*arguments: Any, **named: Any) -> Any:
            what = self._prefix + name
            if arguments and isinstance(arguments[0], str):
                what = f"{what} {arguments[0]}"[:80]
            result = self._injector.call(what, lambda: member(*arguments, **named))
            return _Stand(result, self._injector, frozenset(), f"{name}.") if name in self._inner else result

        return call


def fault_points(limit: int = 2_000) -> Iterator[int]:
    """1, 2, 3, … for a campaign that stops itself. Raises ``AssertionError`` when it never does."""
    yield from range(1, limit + 1)
    raise AssertionError(f"still failing after {limit} points: the operation never ran to its end")
