"""Glob patterns over relative paths: ``*``, ``?``, ``[abc]`` within one name, ``**`` for any number of folders. Pure.

``list`` stands above it. A pattern without ``/`` is about the name alone, wherever the file is.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

PATTERN_CHARS_MAX = 200
_ANY_DEPTH = "**"


class Glob:
    """Time to match grows with pattern × path, never faster. Case counts."""

    def __init__(self, pattern: str) -> None:
        names = [name for name in pattern.split("/") if name not in ("", ".")]
        self.goes_down = len(names) > 1 or names == [_ANY_DEPTH]
        if not self.goes_down:
            names.insert(0, _ANY_DEPTH)
        self._parts = [None if name == _ANY_DEPTH else re.compile(fnmatch.translate(name)) for name in names]

    def matches(self, names: Sequence[str]) -> bool:
        """Whether the path with these components matches."""
        # ``reached[i]``: the names so far can be matched by the first i parts.
        reached = self._skip([True, *(False for _ in self._parts)])
        for name in names:
            after = [False] * len(reached)
            for index, part in enumerate(self._parts):
                if not reached[index]:
                    continue
                if part is None:
                    after[index] = True
                elif part.match(name):
                    after[index + 1] = True
            reached = self._skip(after)
        return reached[-1]

    def _skip(self, reached: list[bool]) -> list[bool]:
        """``**`` may stand for no folder at all."""
        for index, part in enumerate(self._parts):
            if part is None and reached[index]:
                reached[index + 1] = True
        return reached
