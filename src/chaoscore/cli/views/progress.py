"""What a run tells while it goes: a table that is drawn over on a terminal, plain lines everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from chaoscore.cli.terminal import Terminal
from chaoscore.cli.views.words import SIGNS, plain, rows, word
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.plan import Plan

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

ITEM_LINES_EVERY = 50
_ENDED = ("succeeded", "failed", "denied", "skipped")


@dataclass(slots=True)
class _StepProgress:
    capability: str
    state: str = "pending"
    ended: set[Json] = field(default_factory=set)
    failed: int = 0
    error: str = ""


class Progress:
    """One run's. ``begin`` with the plan, ``hear`` what the run tells, ``end`` before anything else is shown."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._steps: dict[str, _StepProgress] = {}
        self._live: Live | None = None

    def begin(self, plan: Plan) -> None:
        self.end()
        self._steps = {step.id: _StepProgress(step.capability) for step in plan.steps}

    def hear(self, message: JsonObject) -> None:
        step, item, state = message.get("step"), message.get("item"), message.get("state")
        known = self._steps.get(step) if isinstance(step, str) else None
        if known is None or not isinstance(state, str):
            return
        error = message.get("error")
        code = str(error.get("code", "")) if is_object(error) else ""
        if item is not None and state in _ENDED:
            known.ended.add(item)
            known.failed += state != "succeeded"
        known.state, known.error = state, code or known.error
        if self._terminal.live:
            self._draw()
        else:
            self._say(str(step), known, item)

    def end(self) -> None:
        """Leave what was drawn where it is and draw no more."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, step: str, known: _StepProgress, item: Json) -> None:
        if item is None:
            if known.state != "pending":
                self._terminal.tell(_line(step, known))
        elif known.state in ("failed", "denied", "outcome-unknown", "waiting-for-decision"):
            self._terminal.tell(_line(f"{step}[{item}]", known))
        elif known.state == "succeeded" and (len(known.ended) == 1 or len(known.ended) % ITEM_LINES_EVERY == 0):
            self._terminal.tell(_line(step, known, f"{len(known.ended)} items done"))

    def _draw(self) -> None:
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=self._terminal.rich(), auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        return rows(
            ("", "", "", ""),
            [
                (f"{SIGNS.get(known.state, ' ')} {step}", known.capability, word(known.state), _counts(known))
                for step, known in self._steps.items()
            ],
        )


def _counts(known: _StepProgress) -> Text:
    if not known.ended:
        return plain(known.error, "red")
    failed = f", {known.failed} not" if known.failed else ""
    return plain(f"{len(known.ended) - known.failed} items done{failed} {known.error}".rstrip())


def _line(step: str, known: _StepProgress, more: str = "") -> Text:
    tail = f"  {more or known.error}" if more or known.error else ""
    return Text.assemble(f"  {SIGNS.get(known.state, ' ')} {step}  {known.capability}  ", word(known.state), tail)
