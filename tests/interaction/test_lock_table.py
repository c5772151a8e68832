"""The lock table's file: read piece by piece and spelled from pieces, with the outcome of the plain way."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.adapters.files.interaction.encoding import NotJson, loads, pretty
from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.adapters.files.interaction.folder import Folder
from chaoscore.adapters.files.interaction.lock_cache import LockCache
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.errors import MalformedState
from chaoscore.domain.interaction.fields import WrongShape
from chaoscore.domain.interaction.limits import InteractionLimits
from chaoscore.domain.interaction.lock import Lock, LockTable
from tests.interaction.conftest import Place
from tests.interaction.steps import answer, begin, prepared

texts = st.text(st.sampled_from('ab"\\{}[],: \n\té雪\ud800'), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=3)
locks = st.builds(
    Lock,
    lock_id=st.integers(0, 9).map(lambda n: f"LOCK-{n}"),
    change_id=st.sampled_from(["one", "two"]),
    run=st.just("RUN-1"),
    command=st.just("chaos:run"),
    reason=st.just("ready-to-resume"),
    state=st.sampled_from(["active", "released"]),
    created_at=st.just("2026-01-02T03:04:05.000Z"),
    blocking_decision_ids=st.lists(texts, max_size=2).map(tuple),
    metadata=objects,
    extra=objects.map(lambda found: {f"x{key}": value for key, value in found.items()}),
)
tables = st.builds(
    LockTable,
    locks=st.lists(locks, max_size=6).map(tuple),
    extra=objects.map(lambda found: {f"x{key}": value for key, value in found.items()}),
)


class SmallReads(FileOps):
    """Gives a file a few bytes at a time."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    def read(self, fd: int, size: int) -> bytes:
        return super().read(fd, min(size, self._bytes_max))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("locks")


_numbers = itertools.count()


def cache(root: Path, data: bytes, read_bytes: int = 1 << 20) -> LockCache:
    """Over a folder that holds just this table, changed long ago."""
    place = root / str(next(_numbers))
    place.mkdir()
    (place / "locks.json").write_bytes(data)
    os.utime(place / "locks.json", (1, 1))
    return LockCache(Folder(place, SmallReads(read_bytes), 1 << 20))


def plainly(data: bytes) -> LockTable | None:
    """What the whole file says; ``None`` when it cannot be understood."""
    try:
        value = loads(data)
        return LockTable() if value is None else LockTable.from_json(value)
    except (NotJson, WrongShape):
        return None


def read(found: LockCache) -> LockTable | None:
    try:
        return found.table()
    except MalformedState:
        return None


@given(table=tables)
def test_a_table_is_spelled_as_the_plain_way_spells_it(root: Path, table: LockTable) -> None:
    found = cache(root, b"{}")
    assert found.spelled(table) == pretty(table.to_json())
    assert found.spelled(table) == pretty(table.to_json())  # now from memory


@given(table=tables, read_bytes=st.integers(1, 200))
@settings(deadline=None)
def test_a_table_is_read_as_the_plain_way_reads_it_whatever_a_read_gives(
    root: Path, table: LockTable, read_bytes: int
) -> None:
    data = pretty(table.to_json())
    assert read(cache(root, data, read_bytes)) == plainly(data)


def _forms(data: bytes) -> Iterator[bytes]:
    value = json.loads(data)
    yield json.dumps(value).encode()
    yield json.dumps(value, indent=4).encode()
    yield json.dumps(value, indent=2).encode()
    yield data.replace(b"\n", b"\r\n")
    yield json.dumps({"locks": value["locks"], "schemaVersion": 1}, indent=2).encode()


@given(table=tables)
@settings(deadline=None)
def test_a_table_in_another_form_is_read_too(root: Path, table: LockTable) -> None:
    for data in _forms(pretty(table.to_json())):
        assert read(cache(root, data)) == plainly(data)


@given(
    table=tables,
    at=st.integers(0, 4000),
    what=st.sampled_from([b"", b"}", b"]", b"{", b",", b"\n    }", b'"locks": []']),
)
@settings(deadline=None, max_examples=300)
def test_a_damaged_table_is_never_read_as_another_one(root: Path, table: LockTable, at: int, what: bytes) -> None:
    data = pretty(table.to_json())
    damaged = data[: at % len(data)] + what + data[at % len(data) + 1 :]
    assert read(cache(root, damaged)) == plainly(damaged)


def _lock(number: int) -> dict[str, Any]:
    return Lock(
        f"LOCK-{number}", "c" * 40, f"RUN-old-{number}", "chaos:run", "unknown", "released", "2026-01-02T03:04:05.000Z"
    ).to_json()


def test_a_table_larger_than_a_document_may_be_is_read(root: Path) -> None:
    """Peers never prune: theirs has 6.8 MB after 10,000 sessions."""
    data = pretty({"schemaVersion": 1, "locks": [_lock(n) for n in range(3000)], "updatedAt": "x"})
    assert len(data) > 1 << 20
    table = cache(root, data).table()
    assert [lock.lock_id for lock in table.locks] == [f"LOCK-{n}" for n in range(3000)] and table.updated_at == "x"


def test_a_lock_that_a_peer_changed_is_read_anew(root: Path) -> None:
    found = cache(root, pretty({"schemaVersion": 1, "locks": [_lock(1), _lock(2)], "updatedAt": "x"}))
    first = found.table()
    path = Path(found._folder.root) / "locks.json"
    changed = {**_lock(2), "state": "active"}
    path.write_bytes(pretty({"schemaVersion": 1, "locks": [_lock(1), changed], "updatedAt": "y"}))
    second = found.table()
    assert [lock.state for lock in second.locks] == ["released", "active"]
    assert second.locks[0] is first.locks[0]


def _table(place: Place) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((place.root / "locks.json").read_bytes())["locks"]
    return found


@pytest.mark.parametrize("indexed", [False, True], ids=["looked through", "indexed"])
@pytest.mark.parametrize("indent", [None, 2], ids=["on one line", "as peers write it"])
def test_a_table_too_large_for_a_document_stops_nobody_and_keeps_what_may_still_matter(
    place: Place, tmp_path: Path, indexed: bool, indent: int | None
) -> None:
    """Kept: active locks, and those of sessions that are unfinished or cannot be understood."""
    place.bench.cache_dir = tmp_path / "cache" if indexed else None
    place.bench.limits = InteractionLimits(document_bytes_max=30_000)

    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        await begin(service, "RUN-open", "another")
        (place.root / "sessions/RUN-broken.json").write_text("{")
        mine = _table(place)[0]
        old = [_lock(number) for number in range(200)]
        held = [
            {**_lock(900), "lockedByCommandRunId": "RUN-open"},
            {**_lock(901), "lockedByCommandRunId": "RUN-broken"},
        ]
        table = {"schemaVersion": 1, "locks": [*old, *held, mine], "updatedAt": "2026-01-02T03:04:05.000Z"}
        text = json.dumps(table, indent=indent) + "\n"
        assert len(text) > 60_000
        (place.root / "locks.json").write_text(text)

        assert (await service.list_locks(limit=500)).message == "203 locks"
        assert (await answer(service, decision)).status == "ANSWERED"
        assert [lock["lockId"] for lock in _table(place)] == ["LOCK-900", "LOCK-901", mine["lockId"]]
        archived = (place.root / "archive/locks.jsonl").read_text().splitlines()
        assert [json.loads(row) for row in archived] == old

    place.tell(story)
