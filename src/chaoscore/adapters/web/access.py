"""Who may use the page: a one-time link or the token of this start, exchanged for a session in memory.

Nothing here is stored, so a restart ends every session. Only digests of tokens and session ids are kept, and whatever
is compared is compared in constant time. Also on loopback nobody comes in without: other users and other programs of
the machine can reach it, too.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from chaoscore.app.ports import Clock

LINK_SECONDS = 15 * 60.0
IDLE_SECONDS = 2 * 3600.0
SESSION_SECONDS = 12 * 3600.0
SESSIONS_MAX = 64
WRONG_MAX = 10
WRONG_SECONDS = 60.0
PEERS_MAX = 256
NAME_CHARS_MAX = 60


class TooManyTries(Exception):
    """Wrong tokens came too often; ``seconds`` until one is looked at again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many wrong tokens; wait {seconds} seconds")
        self.seconds = seconds


@dataclass(slots=True)
class WebSession:
    """One browser that came in. ``name`` is what the person called themselves, ``None`` when they did not."""

    csrf: str
    name: str | None
    created: float
    seen: float


class Access:
    """``randomness`` gives lower-case hex of so many digits. ``token`` and ``link`` are for the operator's eyes: they
    are printed once, and neither a log nor a page ever shows them."""

    def __init__(self, clock: Clock, randomness: Callable[[int], str]) -> None:
        self._clock = clock
        self._random = randomness
        self.token = randomness(48)
        self.link = randomness(48)
        self.cookie = f"chaos_center_{randomness(8)}"
        self._token_digest = _digest(self.token)
        self._link_digest: bytes | None = _digest(self.link)
        self._link_until = clock.monotonic() + LINK_SECONDS
        self._sessions: dict[bytes, WebSession] = {}
        self._wrong: dict[str, list[float]] = {}

    # -- coming in -------------------------------------------------------------------------------------------

    def enter(self, link: str, peer: str) -> str | None:
        """The id of a new session for the one-time link, which is used up then; ``None`` for anything else.
        ``peer`` is the address it came from. Raises ``TooManyTries``."""
        self._require_patience(peer)
        known = self._link_digest
        if (
            known is None
            or self._clock.monotonic() >= self._link_until
            or not hmac.compare_digest(_digest(link), known)
        ):
            self._count_wrong(peer)
            return None
        self._link_digest = None
        return self._open(None)

    def sign_in(self, token: str, name: str | None, peer: str) -> str | None:
        """The id of a new session for the token. Raises ``TooManyTries``."""
        self._require_patience(peer)
        if not hmac.compare_digest(_digest(token.strip()), self._token_digest):
            self._count_wrong(peer)
            return None
        self._wrong.pop(peer, None)
        return self._open(name)

    def _open(self, name: str | None) -> str:
        now = self._clock.monotonic()
        self._drop_old(now)
        while len(self._sessions) >= SESSIONS_MAX:
            oldest = min(self._sessions, key=lambda key: self._sessions[key].seen)
            del self._sessions[oldest]
        session = self._random(48)
        self._sessions[_digest(session)] = WebSession(self._random(32), name, now, now)
        return session

    # -- being in --------------------------------------------------------------------------------------------

    def session(self, given: str | None, *, touch: bool = True) -> WebSession | None:
        """The session of a cookie. ``touch`` false: a page asked by itself, which keeps nobody signed in."""
        if not given:
            return None
        key, now = _digest(given), self._clock.monotonic()
        session = self._sessions.get(key)
        if session is None:
            return None
        if _is_over(session, now):
            del self._sessions[key]
            return None
        if touch:
            session.seen = now
        return session

    def leave(self, given: str) -> None:
        self._sessions.pop(_digest(given), None)

    def _drop_old(self, now: float) -> None:
        self._sessions = {key: one for key, one in self._sessions.items() if not _is_over(one, now)}

    # -- wrong tries -----------------------------------------------------------------------------------------

    def _require_patience(self, peer: str) -> None:
        now = self._clock.monotonic()
        tries = [at for at in self._wrong.get(peer, ()) if now - at < WRONG_SECONDS]
        if len(tries) >= WRONG_MAX:
            raise TooManyTries(max(1, round(WRONG_SECONDS - (now - tries[0]))))

    def _count_wrong(self, peer: str) -> None:
        now = self._clock.monotonic()
        tries = [at for at in self._wrong.pop(peer, ()) if now - at < WRONG_SECONDS]
        while len(self._wrong) >= PEERS_MAX:
            del self._wrong[next(iter(self._wrong))]
        self._wrong[peer] = [*tries, now]


def matches(given: str, expected: str) -> bool:
    """Constant-time, for CSRF tokens."""
    return hmac.compare_digest(_digest(given), _digest(expected))


def _is_over(session: WebSession, now: float) -> bool:
    return now - session.seen >= IDLE_SECONDS or now - session.created >= SESSION_SECONDS


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
