"""What a run tells while it goes: a table that is drawn over on a terminal, plain lines everywhere else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from chaoscore.cli.terminal import Terminal
from chaoscore.cli.views.words import SIGNS, count, plain, rows, word
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
        self._fan_out: str | None = None

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
        """Say what is still unsaid, leave what was drawn, draw no more."""
        self._say_items()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, step: str, known: _StepProgress, item: Json) -> None:
        if item is None:
            self._say_items()
            if known.state != "pending":
                self._terminal.tell(_line(step, known))
        elif known.state in ("failed", "denied", "outcome-unknown", "waiting-for-decision"):
            self._terminal.tell(_line(f"{step}[{item}]", known))
        else:
            if self._fan_out != step:
                self._say_items()
            self._fan_out = step if known.ended else None
            if known.state == "succeeded" and len(known.ended) % ITEM_LINES_EVERY == 0:
                self._say_items()

    def _say_items(self) -> None:
        """One line for the items of a fan-out that ended since the last one."""
        step, self._fan_out = self._fan_out, None
        if step is not None and not self._terminal.live:
            self._terminal.tell(_line(step, self._steps[step], _counts(self._steps[step]).plain))

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
    return plain(f"{count(len(known.ended) - known.failed, 'item')} done{failed} {known.error}".rstrip())


def _line(step: str, known: _StepProgress, more: str = "") -> Text:
    tail = f"  {more or known.error}" if more or known.error else ""
    return Text.assemble(f"  {SIGNS.get(known.state, ' ')} {step}  {known.capability}  ", word(known.state), tail)
