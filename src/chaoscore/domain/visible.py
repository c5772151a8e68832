"""Text from outside so that whoever reads it sees all of it.

A control character, or a mark that changes the direction of text, could hide what a person is about to approve. Every
place that shows text to a person (terminal, web pages) writes such characters as escapes. Pure.
"""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str, *, lines: bool = False) -> str:
    """``text`` with every character that does not show written as an escape; lines and tabs stay where ``lines``."""
    if text.isprintable() and text.isascii():
        return text
    return "".join(
        char if (lines and char in "\n\t") or unicodedata.category(char) not in _HIDDEN else _escape(char)
        for char in text
    )


def _escape(char: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or (
        f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
    )
