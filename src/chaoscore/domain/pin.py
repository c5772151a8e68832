"""The approver's PIN: what may be one, and how long wrong tries are answered with a pause.

An adapter keeps and checks it; here are only the rules, so that every place that takes a PIN has the same ones.
"""

from __future__ import annotations

import unicodedata

PIN_CHARS_MIN = 6
PIN_CHARS_MAX = 128
WRONG_TRIES_MAX = 5
"""So many wrong tries in a row are answered at once; the last of them begins the first pause."""
PAUSE_SECONDS_MIN = 60.0
PAUSE_SECONDS_MAX = 900.0

_DISTINCT_MIN = 3
_BLOCK_CHARS_MAX = 4
_ROWS = ("1234567890", "qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl", "zxcvbnm", "abcdefghijklmnopqrstuvwxyz")
_COMMON = frozenset(
    {
        *("password", "password1", "passw0rd", "p@ssw0rd", "letmein", "welcome", "welcome1", "iloveyou", "changeme"),
        *("admin1", "admin123", "administrator", "default", "secret", "dragon", "monkey", "master", "shadow"),
        *("sunshine", "princess", "football", "baseball", "superman", "batman", "trustno1", "abc123", "123abc"),
        *("qwerty1", "qwerty123", "1q2w3e", "1q2w3e4r", "1qaz2wsx", "qazwsx", "q1w2e3", "112233", "11223344"),
        *("159753", "147258", "147258369", "258456", "123654", "654123", "102030", "010203", "123321", "332211"),
        *("chaoscore", "chaos-core", "approve", "approved", "approver"),
    }
)


def normal_form(pin: str) -> str:
    """NFC: the same letters typed on two keyboards are the same PIN."""
    return unicodedata.normalize("NFC", pin)


def pin_fault(pin: str) -> str | None:
    """Why ``pin`` may not be a PIN and what to choose instead, ``None`` when it may. Never repeats the PIN."""
    if not PIN_CHARS_MIN <= len(pin) <= PIN_CHARS_MAX:
        return f"a PIN has {PIN_CHARS_MIN} to {PIN_CHARS_MAX} characters; this one has {len(pin)}"
    if not pin.isprintable():
        return "a PIN has printable characters only; take out the control characters"
    if pin != pin.strip():
        return "a PIN does not begin or end with a blank; take it out, it would get lost when it is copied"
    why = _weakness(unicodedata.normalize("NFKC", pin).casefold())
    return None if why is None else f"this PIN is easily guessed: {why}; mix letters and digits, or take three words"


def pause_seconds(wrong: int) -> float:
    """How long nothing is checked after ``wrong`` tries in a row: none, then 60 s, doubling up to 15 minutes."""
    if wrong < WRONG_TRIES_MAX:
        return 0.0
    doublings = min(wrong - WRONG_TRIES_MAX, 10)
    return min(PAUSE_SECONDS_MIN * 2.0**doublings, PAUSE_SECONDS_MAX)


def _weakness(pin: str) -> str | None:
    if len(set(pin)) < _DISTINCT_MIN:
        return f"it has fewer than {_DISTINCT_MIN} different characters"
    for length in range(1, min(_BLOCK_CHARS_MAX, len(pin) // 2) + 1):
        if (pin[:length] * len(pin))[: len(pin)] == pin:
            return f"it repeats its first {length} characters"
    if any(pin in row * 2 or pin in row[::-1] * 2 for row in _ROWS):
        return "it follows the alphabet, the digits or a row of the keyboard"
    if pin in _COMMON:
        return "it is one of the most common ones"
    return None
