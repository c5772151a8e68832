"""The machine's clock. Everything above takes the time from a ``Clock``, so that tests decide what time it is."""

from __future__ import annotations

import time


class SystemClock:
    """``Clock`` over the operating system."""

    __slots__ = ()

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()
