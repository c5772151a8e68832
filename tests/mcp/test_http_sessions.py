"""The registry of 2025-era connections: bounded, idle ones end, somebody else's is none."""

from __future__ import annotations

from itertools import count

from chaoscore.adapters.mcp.http_sessions import Sessions
from chaoscore.domain.principal import ANONYMOUS, Principal

ADA, BOB = Principal("oauth", "ada"), Principal("oauth", "bob")


class StoppedClock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


class Numbers:
    """Ids that can be told apart."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def credential(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers)}"

    def label(self, prefix: str) -> str:
        return f"{prefix}-{next(self._numbers)}"


def registry(sessions_max: int = 10) -> tuple[Sessions, StoppedClock]:
    clock = StoppedClock()
    return Sessions(clock, Numbers(), sessions_max, idle_seconds=60), clock


def test_a_session_keeps_its_connection_while_it_is_used() -> None:
    sessions, clock = registry()
    sessions.open("s", ADA)
    first = sessions.find("s", ADA)
    for _ in range(5):
        clock.seconds += 50
        found = sessions.find("s", ADA)
        assert found is not None and found is first
        with sessions.using("s", found):
            pass


def test_a_session_that_idles_ends_and_is_told() -> None:
    sessions, clock = registry()
    sessions.open("s", ADA)
    session = sessions.find("s", ADA)
    assert session is not None
    ended: list[str] = []
    session.peer.closers.append(lambda: ended.append("s"))
    clock.seconds += 61
    assert sessions.find("s", ADA) is None
    assert ended == ["s"]


def test_an_open_stream_keeps_a_session_from_idling() -> None:
    sessions, clock = registry()
    sessions.open("s", ADA)
    session = sessions.find("s", ADA)
    assert session is not None
    with sessions.using("s", session):
        clock.seconds += 10_000
        assert sessions.find("s", ADA) is session
    clock.seconds += 59
    assert sessions.find("s", ADA) is session
    clock.seconds += 2
    assert sessions.find("s", ADA) is None


def test_a_session_in_use_does_not_hide_an_idle_one_behind_it() -> None:
    sessions, clock = registry()
    sessions.open("busy", ADA)
    sessions.open("idle", ADA)
    busy = sessions.find("busy", ADA)
    assert busy is not None
    with sessions.using("busy", busy):
        clock.seconds += 61
        assert sessions.find("idle", ADA) is None
        assert len(sessions) == 1


def test_somebody_elses_session_is_none() -> None:
    sessions, _ = registry()
    sessions.open("s", ADA)
    assert sessions.find("s", BOB) is None
    assert sessions.find("s", ANONYMOUS) is None
    assert sessions.find("s", ADA) is not None


def test_the_registry_never_holds_more_than_its_bound() -> None:
    sessions, _ = registry(sessions_max=3)
    for number in range(10):
        sessions.open(f"s{number}", ADA)
        assert len(sessions) <= 3
    assert sessions.find("s9", ADA) is not None
    assert sessions.find("s0", ADA) is None


def test_ending_all_ends_every_watch() -> None:
    sessions, _ = registry()
    ended: list[str] = []
    for name in ("a", "b"):
        sessions.open(name, ADA)
        session = sessions.find(name, ADA)
        assert session is not None
        session.peer.closers.append(lambda name=name: ended.append(name))  # type: ignore[misc]
    sessions.close_all()
    assert (sorted(ended), len(sessions)) == (["a", "b"], 0)
