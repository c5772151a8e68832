"""The terminal: where lines go, whether anybody can be asked, and text that cannot play tricks on whoever reads it.

Standard output carries the answer of a command, standard error everything said on the way; with ``--json`` the answer
is one JSON document and nothing else. Text from outside is made visible before it is shown: a control character or a
mark that changes the direction of text could otherwise hide what a person is about to approve.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import Json
from chaoscore.domain.redaction import Redactor
from chaoscore.domain.visible import visible as shown_in_full

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PIPE_WIDTH_COLUMNS = 110
ANSWER_BYTES_MAX = 4_096


_shown = [Redactor()]


def keep_secret(secrets: Iterable[str]) -> None:
    """Show none of these values from here on, wherever they turn up (law 10)."""
    _shown[0] = Redactor(secrets)


def visible(text: str, *, lines: bool = False) -> str:
    """``text`` without secrets, and with every character that does not show written as an escape; line ends stay where
    ``lines``."""
    return shown_in_full(_shown[0].text(text), lines=lines)


class Terminal:
    """``interactive``: somebody can be asked. ``as_json``: standard output belongs to one JSON document."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        may_ask: bool = True,
        out: TextIO | None = None,
        err: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._out = sys.stdout if out is None else out
        self._err = sys.stderr if err is None else err
        self._environ = os.environ if environ is None else environ
        self.as_json = as_json
        self.interactive = may_ask and sys.stdin is not None and sys.stdin.isatty() and self._err.isatty()
        self.told_of_interrupt = False
        self._rich: dict[bool, Console] = {}

    @property
    def live(self) -> bool:
        """Whether lines on the way to the answer may be drawn over."""
        return not self.as_json and self._out.isatty() and self._environ.get("TERM", "") != "dumb"

    def show(self, *parts: RenderableType) -> None:
        """Part of the answer for a person, one below the other; nothing with ``--json``."""
        if not self.as_json:
            self._draw(self._out, parts)

    def tell(self, *parts: RenderableType) -> None:
        """Said on the way: among the answer for a person, on standard error with ``--json``."""
        self._draw(self._err if self.as_json else self._out, parts)

    def ask_about(self, *parts: RenderableType) -> None:
        """What a question is about, where the person who is asked sees it."""
        self._draw(self._out if self._out.isatty() and not self.as_json else self._err, parts)

    def _draw(self, stream: TextIO, parts: Sequence[RenderableType]) -> None:
        for part in parts:
            self.rich(stream).print(part, soft_wrap=getattr(part, "no_wrap", None) is True)

    def warn(self, text: str) -> None:
        self._line(self._err, f"warning: {visible(text)}")

    def error(self, message: str, help_line: str | None = None) -> None:
        self._line(self._err, f"error: {visible(message)}")
        if help_line:
            self._line(self._err, f"help: {visible(help_line)}")

    def interrupted(self, what: str, how: str) -> None:
        """After Ctrl-C, in the middle of whatever line the terminal is on."""
        self.told_of_interrupt = True
        self._line(self._err, f"\ninterrupted: {what}\nhelp: {how}")

    async def ask_secret(self, prompt: str) -> str | None:
        """What a person types without it being shown; ``None`` when they leave it or nobody can be asked."""
        if not self.interactive:
            return None
        try:
            return await self.read_secret(prompt) or None
        except EOFError:
            return None

    async def read_secret(self, prompt: str) -> str:
        """One line that is typed and not shown. Only where somebody can be asked.

        Waits on the event loop, so Ctrl-C ends it like any other question, and the terminal shows again what is typed.
        Raises ``EOFError`` when input ends, ``InvalidInput`` where the terminal cannot hide it or it is no text.
        """
        file, stream = sys.stdin.fileno(), self._err if self._err.isatty() else self._out
        with _unseen(file):
            stream.write(prompt)
            stream.flush()
            try:
                line = await _read_bytes(file)
            finally:
                self._line(stream, "")
        if not line:
            raise EOFError
        try:
            return line.decode(sys.stdin.encoding or "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise InvalidInput("what was typed is not text in this terminal's encoding", key="terminal") from None

    def answer(self, value: Json) -> None:
        """The one JSON document of ``--json``."""
        import json

        self._line(self._out, json.dumps(_shown[0].json(value), ensure_ascii=False, indent=2))

    def write(self, text: str) -> None:
        """Text for programs to read, exactly as it is."""
        self._out.write(text)
        self._out.flush()

    def _line(self, stream: TextIO, text: str) -> None:
        stream.write(text + "\n")
        stream.flush()

    def rich(self, stream: TextIO | None = None) -> Console:
        """The console that draws tables and colours. ``NO_COLOR`` and ``TERM=dumb`` take the colours away."""
        stream = self._out if stream is None else stream
        key = stream is self._out
        if key not in self._rich:
            from rich.console import Console

            class Passing(Console):
                def on_broken_pipe(self) -> None:
                    raise  # rich would end the process; who reads no more is for the entry point

            plain = not stream.isatty() or bool(self._environ.get("NO_COLOR")) or self._environ.get("TERM") == "dumb"
            self._rich[key] = Passing(
                file=stream,
                width=None if stream.isatty() else _columns(self._environ),
                no_color=plain,
                force_terminal=False if plain and not stream.isatty() else None,
                markup=False,
                highlight=False,
                emoji=False,
            )
        return self._rich[key]

    async def ask(self, question: str, valid: Sequence[str]) -> str:
        """One of ``valid``, by its first letters, asked until it is understood. Raises ``EOFError`` when input ends.

        Waits on the event loop, so Ctrl-C and what runs meanwhile keep working.
        """
        while True:
            self._err.write(question)
            self._err.flush()
            line = await _read_line()
            if line == "":
                raise EOFError
            given = line.strip().lower()
            found = [word for word in valid if given and word.startswith(given)]
            if len(found) == 1 or given in valid:
                return given if given in valid else found[0]
            self._line(self._err, f"please answer {', '.join(valid[:-1])} or {valid[-1]}")


def _columns(environ: Mapping[str, str]) -> int:
    text = environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and 20 <= int(text) <= 1_000 else PIPE_WIDTH_COLUMNS


async def _read_line() -> str:
    return (await _read_bytes(sys.stdin.fileno())).decode(errors="replace")


async def _read_bytes(file: int) -> bytes:
    """One line: a terminal hands over whole lines."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(file, ready.set)
    except (NotImplementedError, OSError):
        line: str = await asyncio.to_thread(sys.stdin.readline)
        return line.encode(sys.stdin.encoding or "utf-8")
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)
    return os.read(file, ANSWER_BYTES_MAX)


@contextmanager
def _unseen(file: int) -> Iterator[None]:
    """Meanwhile the terminal does not show what is typed; what was typed before counts for nothing."""
    no_way = InvalidInput("this terminal cannot hide what is typed; use another one", key="terminal")
    try:
        import termios
    except ImportError:
        raise no_way from None
    try:
        before = termios.tcgetattr(file)
        hidden = termios.tcgetattr(file)
        hidden[3] &= ~termios.ECHO
        termios.tcsetattr(file, termios.TCSAFLUSH, hidden)
    except termios.error:
        raise no_way from None
    try:
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
