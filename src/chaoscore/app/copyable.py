"""Commands that a person can copy into a terminal: with the flags that lead to where this process works.

Everything that suggests a ``chaoscore`` command makes it here, so that none of them looks into another data directory,
another interactions folder, or is confined to other folders than what it is about.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from chaoscore.domain.approval import RunDecision
from chaoscore.domain.json import is_array, is_object

_OF_FOLDERS = frozenset({"sessions", "locks", "resume", "doctor"})
"""Commands that know the interactions folder and no data directory."""


@dataclass(frozen=True, slots=True)
class Copyable:
    """``data`` are flags that name the data directory and its policy, ``folder`` those of the interactions folder,
    ``roots`` the folders that fs.* may touch; each empty where a command finds the same without them."""

    data: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()

    def __call__(self, *words: str) -> str:
        """``chaoscore`` and these words, quoted for a shell. ``words[0]`` is the command."""
        flags: list[str] = []
        if words[0] not in _OF_FOLDERS:
            flags += self.data
        if words[0] in _OF_FOLDERS or words[0] == "decide":
            flags += self.folder
        return shlex.join(("chaoscore", *words, *flags))

    def going_on(self, run: str, roots: Iterable[str] = ()) -> str:
        """What takes a run on. ``roots`` are those that its approvals were confined to."""
        named = dict.fromkeys((*roots, *self.roots))
        return self("run", "continue", run, *(part for root in named for part in ("--root", root)))


PLAIN = Copyable()
"""For where every default holds."""


def roots_of(decision: RunDecision) -> tuple[str, ...]:
    """The folders that the question's actions were confined to: in others the run would only ask again."""
    found: dict[str, None] = {}
    for asked in decision.actions:
        verdict = asked.shown.get("verdict")
        scope = verdict.get("scope") if is_object(verdict) else None
        roots = scope.get("roots") if is_object(scope) else None
        found |= dict.fromkeys(root for root in roots if isinstance(root, str)) if is_array(roots) else {}
    return tuple(found)
