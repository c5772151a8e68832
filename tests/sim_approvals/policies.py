"""The policies that the schedules write, and the smallest evaluator of them, sharing nothing with the product's."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaoscore.testing.fakes import FakeClock

ACTING = ("sim.append", "sim.put", "sim.slow", "sim.burst", "sim.refuse")
DOORS = ("folder", "elicitation", "terminal", "web", "bridge")


@dataclass(frozen=True)
class Edition:
    """One content of the file, written in ``turn``; ``document`` is ``None`` for one that cannot be used."""

    turn: int
    document: dict[str, Any] | None

    def effect(self, capability: str) -> str:
        """What it says about a capability when it can be used."""
        assert self.document is not None
        if _names(self.document["deniedCapabilities"], capability):
            return "DENY"
        allowed = self.document["allowedCapabilities"]
        if allowed and not _names(allowed, capability):
            return "DENY"
        return "REQUIRE_APPROVAL" if _names(self.document["requireConfirmationFor"], capability) else "ALLOW"

    def doors(self) -> tuple[str, ...] | None:
        """The doors that a person may use, ``None`` where the caller's word is enough."""
        assert self.document is not None
        if self.document.get("approvalMode", "caller") == "caller":
            return None
        return tuple(self.document.get("approvalDoors", ("web", "terminal")))


def _names(rules: Iterable[str], capability: str) -> bool:
    return any(r == capability or (r.endswith(".*") and capability.startswith(r[:-1])) for r in rules)


@dataclass
class PolicyHistory:
    """The file and everything that it ever said."""

    path: Path
    clock: FakeClock
    editions: list[Edition] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        return self.editions[-1].document is not None

    def write(self, turn: int, document: dict[str, Any]) -> None:
        self._put(json.dumps(document))
        self.editions.append(Edition(turn, document))

    def spoil(self, turn: int, how: str) -> None:
        if how == "gone":
            self.path.unlink(missing_ok=True)
        else:
            self._put({"torn": '{"allowedCapabilities": [', "unknown": '{"allowEverything": true}'}[how])
        self.editions.append(Edition(turn, None))

    def _put(self, text: str) -> None:
        draft = self.path.with_name(f".policy-{len(self.editions)}")
        draft.write_text(text, "utf-8")
        os.utime(draft, (self.clock.now(), self.clock.now()))
        os.replace(draft, self.path)

    def in_force(self, since: int) -> list[Edition]:
        """Those that stood at some moment from that turn on."""
        last = max((i for i, edition in enumerate(self.editions) if edition.turn < since), default=0)
        return self.editions[last:]

    def good(self, since: int) -> list[Edition]:
        """Those a process that lives since then may take for the last good one."""
        return [edition for edition in self.in_force(since) if edition.document is not None]


def some_policy(dice: random.Random) -> dict[str, Any]:
    ask = dice.choice((["sim.*"], list(ACTING), [name for name in ACTING if dice.random() < 0.7], ["sim.append"], []))
    document: dict[str, Any] = {
        "allowedCapabilities": dice.choice(([], [], [], ["sim.*"], ["sim.read", "sim.list", "sim.append", "sim.put"])),
        "deniedCapabilities": [name for name in ACTING if dice.random() < 0.06],
        "requireConfirmationFor": ask,
        "httpAllowedDomains": [],
    }
    if dice.random() < 0.4:
        document["approvalMode"] = dice.choice(("caller", "human", "human"))
        document["approvalDoors"] = [door for door in DOORS if dice.random() < 0.6] or ["folder"]
    return document
