"""Regular expressions in linear time: a schema in somebody's repository must not be able to hang the server.

Covers what schemas use of ECMAScript (without the ``u`` flag): literals, ``.``, classes, ``\\d \\w \\s``, groups,
alternation, ``* + ? {m,n}``, ``^ $``. Look-around and back-references are refused by name. The expression becomes a
program for a Pike machine: all alternatives advance together, one character at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_PROGRAM_MAX = 20_000
_Test = Callable[[str], bool]


class UnsupportedPattern(ValueError):
    """The text names the construct."""


@dataclass(frozen=True, slots=True)
class _Node:
    kind: str
    test: _Test | None = None
    parts: tuple[_Node, ...] = ()
    least: int = 0
    most: int | None = None


_SPACE = frozenset(" \t\n\r\f\v\u00a0\ufeff\u2028\u2029")
_CLASSES: dict[str, _Test] = {
    "d": lambda letter: letter in "0123456789",
    "D": lambda letter: letter not in "0123456789",
    "w": lambda letter: letter == "_" or (letter.isascii() and letter.isalnum()),
    "W": lambda letter: not (letter == "_" or (letter.isascii() and letter.isalnum())),
    "s": lambda letter: letter in _SPACE,
    "S": lambda letter: letter not in _SPACE,
}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}


class Pattern:
    """``search(text)`` takes time in proportion to the text. Raises ``UnsupportedPattern``."""

    def __init__(self, source: str) -> None:
        self._program: list[tuple[str, _Test | None, Sequence[int]]] = []
        self._emit(_Parser(source).parse())
        self._program.append(("match", None, ()))

    def search(self, text: str) -> bool:
        current: set[int] = set()
        size = len(text)
        for position in range(size + 1):
            if self._add(current, 0, position, size):
                return True
            if position == size:
                return False
            letter, following = text[position], set[int]()
            for index in current:
                kind, test, targets = self._program[index]
                moves = kind == "test" and test is not None and test(letter)
                if moves and self._add(following, targets[0], position + 1, size):
                    return True
            current = following
        return False

    def _add(self, states: set[int], start: int, position: int, size: int) -> bool:
        """Follow the empty moves; whether the expression is satisfied."""
        stack = [start]
        while stack:
            index = stack.pop()
            if index in states:
                continue
            states.add(index)
            kind, _, targets = self._program[index]
            if kind == "match":
                return True
            if kind == "split" or (kind == "start" and position == 0) or (kind == "end" and position == size):
                stack.extend(targets)
        return False

    def _put(self, kind: str, test: _Test | None, targets: Sequence[int]) -> int:
        if len(self._program) >= _PROGRAM_MAX:
            raise UnsupportedPattern("it is too large")
        self._program.append((kind, test, targets))
        return len(self._program) - 1

    def _emit(self, node: _Node) -> None:
        program = self._program
        if node.kind in ("test", "start", "end"):
            self._put(node.kind, node.test, (len(program) + 1,))
        elif node.kind == "sequence":
            for part in node.parts:
                self._emit(part)
        elif node.kind == "either":
            ends = []
            for part in node.parts[:-1]:
                split = self._put("split", None, ())
                self._emit(part)
                ends.append(self._put("split", None, ()))
                program[split] = ("split", None, (split + 1, len(program)))
            self._emit(node.parts[-1])
            for end in ends:
                program[end] = ("split", None, (len(program),))
        else:
            self._repeat(node)

    def _repeat(self, node: _Node) -> None:
        program, part = self._program, node.parts[0]
        for _ in range(node.least):
            self._emit(part)
        if node.most is None:
            split = self._put("split", None, ())
            self._emit(part)
            self._put("split", None, (split,))
            program[split] = ("split", None, (split + 1, len(program)))
            return
        splits = []
        for _ in range(node.most - node.least):
            splits.append(self._put("split", None, ()))
            self._emit(part)
        for split in splits:
            program[split] = ("split", None, (split + 1, len(program)))


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def parse(self) -> _Node:
        node = self._either(0)
        if self._at < len(self._source):
            raise UnsupportedPattern("unbalanced ')'")
        return node

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]

    def _next(self) -> str:
        letter = self._peek()
        if not letter:
            raise UnsupportedPattern("it ends too early")
        self._at += 1
        return letter

    def _either(self, depth: int) -> _Node:
        if depth > 100:
            raise UnsupportedPattern("nested too deeply")
        parts = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence(depth))
        return parts[0] if len(parts) == 1 else _Node("either", parts=tuple(parts))

    def _sequence(self, depth: int) -> _Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._quantified(self._atom(depth)))
        return _Node("sequence", parts=tuple(parts))

    def _atom(self, depth: int) -> _Node:
        letter = self._next()
        if letter == "(":
            if self._source.startswith("?:", self._at):
                self._at += 2
            elif self._peek() == "?":
                raise UnsupportedPattern("look-around and named groups")
            node = self._either(depth + 1)
            if self._next() != ")":
                raise UnsupportedPattern("unbalanced '('")
            return node
        if letter == "[":
            return _Node("test", self._set())
        if letter == "^":
            return _Node("start")
        if letter == "$":
            return _Node("end")
        if letter == ".":
            return _Node("test", lambda other: other not in "\n\r\u2028\u2029")
        if letter in "*+?":
            raise UnsupportedPattern(f"nothing to repeat before {letter!r}")
        if letter == "\\":
            return _Node("test", self._escape())
        return _Node("test", letter.__eq__)

    def _escape(self) -> _Test:
        letter = self._next()
        if letter in _CLASSES:
            return _CLASSES[letter]
        return self._escaped_letter(letter).__eq__

    def _escaped_letter(self, letter: str) -> str:
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "xu":
            digits = self._source[self._at : self._at + (2 if letter == "x" else 4)]
            if len(digits) == (2 if letter == "x" else 4) and all(c in "0123456789abcdefABCDEF" for c in digits):
                self._at += len(digits)
                return chr(int(digits, 16))
            return letter
        if letter.isalnum():
            raise UnsupportedPattern(f"\\{letter}")
        return letter

    def _set(self) -> _Test:
        negated = self._peek() == "^"
        self._at += negated
        tests: list[_Test] = []
        while self._peek() != "]":
            first = self._member(tests)
            if first is not None and self._peek() == "-" and self._source[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._member(tests)
                if last is None or last < first:
                    raise UnsupportedPattern("a range out of order")
                tests.append(lambda letter, low=first, high=last: low <= letter <= high)  # type: ignore[misc]
            elif first is not None:
                tests.append(first.__eq__)
        self._at += 1
        return lambda letter: any(test(letter) for test in tests) != negated

    def _member(self, tests: list[_Test]) -> str | None:
        letter = self._next()
        if letter != "\\":
            return letter
        letter = self._next()
        if letter in _CLASSES:
            tests.append(_CLASSES[letter])
            return None
        return "\b" if letter == "b" else self._escaped_letter(letter)

    def _quantified(self, node: _Node) -> _Node:
        while True:
            bounds = self._bounds()
            if bounds is None:
                return node
            if self._peek() == "?":
                self._at += 1
            node = _Node("repeat", parts=(node,), least=bounds[0], most=bounds[1])

    def _bounds(self) -> tuple[int, int | None] | None:
        letter = self._peek()
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if letter in simple and letter:
            self._at += 1
            return simple[letter]
        if letter != "{":
            return None
        end = self._source.find("}", self._at)
        low, comma, high = self._source[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            return None
        least, most = int(low[:6]), int(high[:6]) if high else (None if comma else int(low[:6]))
        if most is not None and (most < least or most > 2_000):
            raise UnsupportedPattern("a repetition out of bounds")
        if least > 2_000:
            raise UnsupportedPattern("a repetition out of bounds")
        self._at = end + 1
        return least, most
