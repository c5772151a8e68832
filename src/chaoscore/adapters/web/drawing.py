"""Templates, and the one place through which every value reaches a page.

Whatever a template writes passes ``finalize``: secrets are taken out, characters that do not show become visible, and
then Jinja escapes it. Nothing else makes markup of data, and no template uses ``safe``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.domain.json import Json, is_array, is_object
from chaoscore.domain.redaction import Redactor
from chaoscore.domain.visible import visible

FOLDED_LINES = 24
FOLDED_CHARS = 2_400
HUGE_LINES = 300
HUGE_CHARS = 20_000
BEGINNING_CHARS = 160
NESTING_MAX = 100

HERE = Path(__file__).parent


class Plain(str):
    """Text that was made ready to be shown already; it is still escaped."""

    __slots__ = ()


class Drawing:
    """``redactor`` knows the secrets in force; ``now`` gives seconds since the epoch; ``copyable`` makes the commands
    that pages suggest."""

    def __init__(
        self,
        redactor: Redactor,
        now: Callable[[], float],
        assets: dict[str, str],
        base: str,
        copyable: Copyable = PLAIN,
    ) -> None:
        self._redactor = redactor
        self._now = now
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=self._finalize,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.globals.update(base=base, assets=assets, suggest=copyable, going_on=copyable.going_on)
        self._templates.filters.update(
            lines=self.lines,
            when=when,
            iso=iso,
            ago=self._ago,
            seconds=seconds,
            shown=self._shown,
            kind=kind_of,
        )

    def warm_up(self) -> None:
        """Compile every template, so that nobody waits for it."""
        for name in self._templates.list_templates():
            self._templates.get_template(name)

    def page(self, template: str, values: dict[str, object]) -> str:
        return self._templates.get_template(template).render(values)

    # -- values ----------------------------------------------------------------------------------------------

    def _finalize(self, value: object) -> object:
        if value is None:
            return ""
        if isinstance(value, Markup | Plain):
            return value
        return visible(self._redactor.text(str(value)))

    def lines(self, text: str) -> Plain:
        """Text of several lines."""
        return Plain(visible(self._redactor.text(text.replace("\r\n", "\n")), lines=True))

    def _shown(self, value: Json) -> ShownValue:
        """A JSON value as a person reads it: text as it is, anything else as JSON."""
        if isinstance(value, str):
            return ShownValue.of(self.lines(value), "text")
        return ShownValue.of(Plain(visible(pretty(self._redactor.json(value)), lines=True)), kind_of(value))

    def _ago(self, at: float | None) -> str:
        if at is None:
            return "unknown"
        passed = self._now() - at
        return f"in {seconds(-passed)}" if passed < 0 else f"{seconds(passed)} ago"


class ShownValue:
    """``text`` in full; ``long`` when a page lets it be folded, then ``beginning`` is shown outside the fold; ``huge``
    when it is folded at first wherever it stands."""

    __slots__ = ("beginning", "chars", "huge", "kind", "line_count", "long", "text")

    def __init__(self, text: Plain, kind: str) -> None:
        self.text = text
        self.kind = kind
        self.line_count = text.count("\n") + 1
        self.chars = len(text)
        self.long = self.line_count > FOLDED_LINES or self.chars > FOLDED_CHARS
        self.huge = self.line_count > HUGE_LINES or self.chars > HUGE_CHARS
        first = " ".join(text[: BEGINNING_CHARS * 2].split())
        self.beginning = Plain(first[:BEGINNING_CHARS] + "…")

    @classmethod
    def of(cls, text: Plain, kind: str) -> ShownValue:
        return cls(text, kind)


def pretty(value: Json) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except (RecursionError, ValueError):
        return "(nested too deeply to be shown)"


def kind_of(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true/false"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if is_object(value):
        return "object"
    return "list" if is_array(value) else "value"


def when(at: float | None) -> str:
    """Seconds since the epoch as a person reads them, UTC."""
    moment = _moment(at)
    return "unknown" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(at: float | None) -> str:
    moment = _moment(at)
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(at: float | None) -> datetime | None:
    try:
        return None if at is None else datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def seconds(value: float | None) -> str:
    """A duration in at most two units."""
    if value is None:
        return ""
    if value < 1:
        return f"{max(0, round(value * 1000))} ms"
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes < 5 and rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if hours < 5 and minutes else f"{hours} h"
    return f"{hours // 24} days"
