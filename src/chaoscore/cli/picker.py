"""Choosing from a list with the arrow keys, and typing text, at a terminal.

``Picker`` is the list as a value that keys change; ``pick`` draws it and reads keys. Both wait on the event loop, so
Ctrl-C and whatever else runs keep working. Where a terminal cannot be read key by key, ``pick`` asks for ids instead.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from chaoscore.cli.terminal import Terminal, visible

ROWS_SHOWN_MAX = 15
TEXT_BYTES_MAX = 1_048_576
_KEYS = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"k": "up",
    b"\x1b[B": "down", b"\x1bOB": "down", b"j": "down",
    b"\x1b[H": "first", b"\x1b[F": "last",
    b"\r": "enter", b"\n": "enter", b" ": "space",
    b"\x1b": "leave", b"q": "leave", b"\x03": "leave", b"\x04": "leave",
}  # fmt: skip


@dataclass(slots=True)
class Picker:
    """``rows`` are (id, label). ``several`` lets space mark more than one; enter then takes the marked ones."""

    rows: Sequence[tuple[str, str]]
    several: bool = False
    at: int = 0
    marked: set[int] = field(default_factory=set)

    def press(self, key: str) -> Literal["chosen", "left"] | None:
        """What the key ended, if it did."""
        last = len(self.rows) - 1
        if key == "up":
            self.at = self.at - 1 if self.at else last
        elif key == "down":
            self.at = self.at + 1 if self.at < last else 0
        elif key in ("first", "last"):
            self.at = 0 if key == "first" else last
        elif key == "space" and self.several:
            self.marked ^= {self.at}
        elif key == "enter":
            if not self.several:
                self.marked = {self.at}
            return "chosen" if self.marked else None
        elif key == "leave":
            return "left"
        return None

    def chosen(self) -> tuple[str, ...]:
        return tuple(self.rows[position][0] for position in sorted(self.marked))

    def lines(self, columns: int) -> list[str]:
        """The part of the list around the cursor, one line each, and how to go on."""
        begin = max(0, min(self.at - ROWS_SHOWN_MAX // 2, len(self.rows) - ROWS_SHOWN_MAX))
        out = []
        for position in range(begin, min(len(self.rows), begin + ROWS_SHOWN_MAX)):
            name, label = self.rows[position]
            box = ("[x] " if position in self.marked else "[ ] ") if self.several else ""
            line = f"{'>' if position == self.at else ' '} {box}{visible(name)}  {visible(label)}"
            out.append(line if len(line) < columns else line[: columns - 2] + "…")
        how = "space marks, enter takes the marked" if self.several else "enter takes"
        return [*out, f"  ↑ ↓ move, {how}, q leaves it"]


async def pick(terminal: Terminal, rows: Sequence[tuple[str, str]], several: bool = False) -> tuple[str, ...]:
    """The chosen ids; nothing when the person left it. Only where ``terminal.interactive``."""
    picker = Picker(rows, several)
    try:
        import termios
    except ImportError:
        return await _pick_by_id(rows, several)
    if not terminal.live:
        return await _pick_by_id(rows, several)
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    raw = termios.tcgetattr(file)
    raw[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    columns = max(20, terminal.rich(sys.stderr).width)
    drawn = 0
    termios.tcsetattr(file, termios.TCSADRAIN, raw)
    try:
        async with _keys(file) as pressed:
            drawn = _draw(picker.lines(columns), drawn)
            async for key in pressed:
                ended = picker.press(key)
                drawn = _draw(picker.lines(columns), drawn)
                if ended is not None:
                    return picker.chosen() if ended == "chosen" else ()
        return ()
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


async def read_text(prompt: str, several_lines: bool = False) -> str:
    """What a person types; several lines end with an empty one. Raises ``EOFError`` when input ends with nothing."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    lines: list[str] = []
    while True:
        line = await _line()
        if line == "" and not lines:
            raise EOFError
        lines.append(line.rstrip("\r\n"))
        if not several_lines:
            return lines[0]
        if line == "" or lines[-1] == "" or sum(map(len, lines)) > TEXT_BYTES_MAX:
            return "\n".join(lines).rstrip("\n")
        sys.stderr.write("  ")
        sys.stderr.flush()


async def _pick_by_id(rows: Sequence[tuple[str, str]], several: bool) -> tuple[str, ...]:
    known = [name for name, _ in rows]
    for number, (name, label) in enumerate(rows, start=1):
        sys.stderr.write(f"  {number}  {visible(name)}  {visible(label)}\n")
    while True:
        words = (await read_text("number or id" + ("s" if several else "") + ", empty leaves it: ")).split()
        wanted = [known[int(w) - 1] if w.isascii() and w.isdigit() and 0 < int(w) <= len(known) else w for w in words]
        if all(name in known for name in wanted) and (several or len(wanted) <= 1):
            return tuple(dict.fromkeys(wanted))
        sys.stderr.write("that is none of them\n")


def _draw(lines: Sequence[str], drawn: int) -> int:
    """Over what was drawn before; how many lines stand now."""
    up = f"\x1b[{drawn}A" if drawn else ""
    sys.stderr.write(up + "".join(f"\r\x1b[2K{line}\r\n" for line in lines))
    sys.stderr.flush()
    return len(lines)


@asynccontextmanager
async def _keys(file: int) -> AsyncIterator[AsyncIterator[str]]:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(file, ready.set)

    async def keys() -> AsyncIterator[str]:
        while True:
            await ready.wait()
            ready.clear()
            data = os.read(file, 64)
            if not data:
                return
            for key in _split(data):
                yield key

    try:
        yield keys()
    finally:
        loop.remove_reader(file)


def _split(data: bytes) -> list[str]:
    """The keys in what a terminal sent; what is no key of ours is left out."""
    out = []
    while data:
        found = next((code for code in sorted(_KEYS, key=len, reverse=True) if data.startswith(code)), None)
        if found is not None:
            out.append(_KEYS[found])
        data = data[len(found or data[:1]) :]
    return out


async def _line() -> str:
    loop = asyncio.get_running_loop()
    file = sys.stdin.fileno()
    ready = asyncio.Event()
    try:
        loop.add_reader(file, ready.set)
    except (NotImplementedError, OSError):
        return await asyncio.to_thread(sys.stdin.readline)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)
    return os.read(file, TEXT_BYTES_MAX).decode(errors="replace")  # a terminal hands over whole lines
