"""The connections of an HTTP server: one peer per 2025-era session, bounded in number and in idle time.

The session id is what an anonymous client's plans are bound to, so it is a credential: it is a key here and a binding,
never a name. Whatever this registry does not know is answered as gone, also when the SDK still holds it.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from chaoscore.adapters.mcp.definition import Peer
from chaoscore.app.ports import Clock, Ids
from chaoscore.app.tools import Connection
from chaoscore.domain.principal import Principal


@dataclass(slots=True, eq=False)
class Session:
    """``under_way`` counts the HTTP requests being served, open event streams included: they keep it from idling.

    ``asked`` are the ids of its calls in flight as the SDK names their streams. Of two with one name only one would be
    answered, with either answer.
    """

    peer: Peer
    last_used: float
    under_way: int = 0
    asked: set[str] = field(default_factory=set)


class Sessions:
    def __init__(self, clock: Clock, ids: Ids, sessions_max: int, idle_seconds: float) -> None:
        self._clock = clock
        self._ids = ids
        self._sessions_max = sessions_max
        self._idle_seconds = idle_seconds
        self._by_id: OrderedDict[str, Session] = OrderedDict()

    def stateless(self, principal: Principal) -> Peer:
        """The peer of a request that belongs to no session."""
        return Peer(principal, Connection(self._ids.label("conn"), stateful=False))

    def open(self, session_id: str, principal: Principal) -> None:
        """A handshake succeeded."""
        self._sweep()
        while len(self._by_id) >= self._sessions_max:  # the SDK refuses a new one earlier
            self.close(next(iter(self._by_id)))
        peer = Peer(principal, Connection(self._ids.label("conn")), binding=session_id)
        self._by_id[session_id] = Session(peer, self._clock.monotonic())

    def find(self, session_id: str, principal: Principal) -> Session | None:
        """``None`` for an unknown session, one that has idled too long, and somebody else's."""
        self._sweep()
        session = self._by_id.get(session_id)
        return session if session is not None and session.peer.principal == principal else None

    @contextmanager
    def using(self, session_id: str, session: Session) -> Iterator[None]:
        """One HTTP request of the session is being served."""
        session.under_way += 1
        try:
            yield
        finally:
            session.under_way -= 1
            session.last_used = self._clock.monotonic()
            if session_id in self._by_id:
                self._by_id.move_to_end(session_id)

    def close(self, session_id: str) -> None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.peer.close()

    def close_all(self) -> None:
        for session_id in list(self._by_id):
            self.close(session_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def _sweep(self) -> None:
        """A used session moves to the end, so the idle ones stand in front."""
        horizon = self._clock.monotonic() - self._idle_seconds
        idle = []
        for session_id, session in self._by_id.items():
            if session.last_used >= horizon:
                break
            if not session.under_way:
                idle.append(session_id)
        for session_id in idle:
            self.close(session_id)


class RedactSessionIds(logging.Filter):
    """The SDK's HTTP loggers name sessions by their id; a log is no place for a credential."""

    _ID = re.compile(r"\b[0-9a-f]{32}\b")

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = self._ID.sub("<session>", record.getMessage())
        record.args = ()
        return True


_REDACT = RedactSessionIds()


def redact_session_ids() -> None:
    """Adding a filter twice adds it once."""
    for name in ("mcp.server.streamable_http", "mcp.server.streamable_http_manager"):
        logging.getLogger(name).addFilter(_REDACT)
