"""Small pieces of every view: coloured words, tables, times, and JSON a person can read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from chaoscore.cli.terminal import visible
from chaoscore.domain.json import Json, is_array, is_object

DEPTH_SHOWN_MAX = 40
_STYLES = {
    "ALLOW": "green",
    "REQUIRE_APPROVAL": "yellow",
    "DENY": "red",
    "succeeded": "green",
    "completed": "green",
    "achieved": "bold green",
    "partial": "yellow",
    "running": "cyan",
    "waiting-for-decision": "yellow",
    "needs-attention": "bold magenta",
    "outcome-unknown": "bold magenta",
    "failed": "red",
    "denied": "red",
    "blocked": "red",
    "cancelled": "dim",
    "skipped": "dim",
    "pending": "dim",
    "high": "red",
    "medium": "yellow",
    "low": "green",
}
SIGNS = {
    "succeeded": "✓",
    "failed": "✗",
    "denied": "✗",
    "skipped": "–",
    "running": "▸",
    "waiting-for-decision": "?",
    "outcome-unknown": "!",
    "pending": "·",
}


def word(value: str) -> Text:
    """A state, verdict or risk in its colour."""
    return Text(visible(value), _STYLES.get(value, ""))


def plain(value: str, style: str = "") -> Text:
    return Text(visible(value), style)


def unbroken(value: str, style: str = "") -> Text:
    """A line with a command to copy: in two lines it would be two commands."""
    return Text(visible(value), style, no_wrap=True)


def title(value: str) -> Text:
    return Text(visible(value), "bold")


def table(*headings: str) -> Table:
    """Columns without lines: readable on a terminal, and still one row per line in a file."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(headings))
    for heading in headings:
        made.add_column(heading, overflow="fold", no_wrap=False)
    return made


def rows(headings: Sequence[str], lines: Iterable[Sequence[str | Text]]) -> Table:
    made = table(*headings)
    for line in lines:
        made.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in line))
    return made


def whole_ids(made: Table, column: int) -> Table:
    """An id is copied or cut out by another program: it stays on one line, and other columns give way."""
    made.columns[column].no_wrap = True
    made.columns[column].overflow = "ignore"
    return made


def when(seconds: Json) -> str:
    """A time since the epoch as the reader's local time."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return "–"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def one_line(value: Json, longest: int = 80) -> str:
    """JSON, or text as it is, on one line and cut to ``longest`` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    text = visible(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def in_full(value: Json, depth: int = 0) -> list[str]:
    """A value over as many lines as it takes: one key per line, text of several lines as a block behind a bar."""
    if isinstance(value, str):
        if "\n" in value:
            return [f"│ {line}" for line in visible(value, lines=True).split("\n")]
        return [visible(json.dumps(value, ensure_ascii=False))]
    if depth < DEPTH_SHOWN_MAX and is_object(value) and value:
        return [line for key, member in value.items() for line in _member(f"{visible(key)}:", member, depth)]
    if depth < DEPTH_SHOWN_MAX and is_array(value) and value:
        return [line for member in value for line in _member("-", member, depth)]
    return [visible(json.dumps(value, ensure_ascii=False))]


def _member(head: str, value: Json, depth: int) -> list[str]:
    lines = in_full(value, depth + 1)
    if head == "-" or (len(lines) == 1 and not lines[0].startswith("│") and not (is_object(value) and value)):
        return [f"{head} {lines[0]}", *(f"  {line}" for line in lines[1:])]
    return [head, *(f"  {line}" for line in lines)]


def indented(lines: Iterable[str], left: int) -> Padding:
    """Lines that stay indented where the terminal folds them: no text can draw at the margin."""
    return Padding(Text("\n".join(lines), overflow="fold"), (0, 0, 0, left))


def count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
