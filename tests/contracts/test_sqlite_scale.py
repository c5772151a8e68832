"""What ten thousand plans cost: every statement on the way of a call goes through an index."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from chaoscore.adapters.sqlite import audit_finder, leases, memory, plans, recall, runs
from chaoscore.testing.contracts.base import LOCAL, World
from tests.contracts.sqlite_support import FILE, tell

MANY = 10_000
STATEMENTS = [
    plans._FIND,
    plans._BY_LABEL,
    plans._HAS_RUN,
    runs._NEWEST_OF_PLAN,
    runs._BY_LABEL,
    runs._BY_CREDENTIAL,
    runs._ACTIONS,
    runs._GRANTS,
    runs._EVIDENCE,
    runs._LIST_OWN,
    runs._LIST_ALL,
    runs._USE_GRANT,
    runs._SET_STATUS,
    leases._HELD,
    leases._RENEW,
    audit_finder._OF_RUN,
    audit_finder._OF_PRINCIPAL,
    audit_finder._RECENT,
    memory._BY_KEY,
    memory._HISTORY,
    memory._EXPIRED,
    memory._ANY_EXPIRED,
    recall._MATCHING,
    recall._ALL,
    recall._NOT_INDEXED,
]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ten thousand plans of two owners, each with a run; filled in one transaction."""
    directory = tmp_path_factory.mktemp("crowded") / "data"

    async def one_of_each(world: World) -> None:
        await world.claimed_run()

    tell(directory, one_of_each)
    connection = sqlite3.connect(directory / FILE, isolation_level=None)
    connection.execute("BEGIN")
    numbers = f"WITH RECURSIVE n(i) AS (VALUES (2) UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
    connection.execute(
        f"INSERT INTO plans (label, credential, handle, owner, body) {numbers}"
        " SELECT 'p-' || i, CAST('c' || i AS BLOB), 'plan_' || i, iif(i % 2, 'local:1000', 'oauth:other'),"
        " replace(p.body, 'p-1', 'p-' || i)"
        " FROM n, plans AS p WHERE p.label = 'p-1'"
    )
    connection.execute(
        "INSERT INTO runs (label, credential, plan, owner, status, created_at, updated_at)"
        " SELECT replace(label, 'p-', 'r-'), credential, label, owner, 'running', 1.0, 1.0"
        " FROM plans WHERE label != 'p-1'"
    )
    connection.execute("COMMIT")
    connection.close()
    return directory


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_statement_walks_through_a_table(crowded: Path, statement: str) -> None:
    connection = sqlite3.connect(crowded / FILE)
    count = max(statement.count("?"), 5)
    values: tuple[object, ...] = tuple("x" for _ in range(statement.count("?")))
    if "?1" in statement:
        values = values[: max(n for n in range(1, count + 1) if f"?{n}" in statement)]
    steps = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    connection.close()
    walks = [step for step in steps if step.startswith("SCAN") and "VIRTUAL TABLE INDEX" not in step]
    assert steps and not walks, steps
    assert not [step for step in steps if "TEMP B-TREE" in step and "grants" not in statement], steps


def test_calls_among_ten_thousand_plans_stay_fast(crowded: Path) -> None:
    async def story(world: World) -> None:
        began = time.perf_counter()
        pages, cursor = 0, None
        seen: set[str] = set()
        while True:
            page, cursor = await world.stores.runs.list_runs(LOCAL, 200, cursor)
            seen.update(run.label for run in page)
            pages += 1
            if cursor is None:
                break
        listing = (time.perf_counter() - began) / pages
        began = time.perf_counter()
        for number in range(2, 102):
            assert await world.stores.runs.load_run(f"r-{number}") is not None
            assert await world.stores.plans.plan_by_label(f"p-{number}") is not None
        finding = (time.perf_counter() - began) / 200
        assert len(seen) == MANY // 2
        # generous: a table walk costs tens of milliseconds here, an index tens of microseconds
        assert listing < 0.1 and finding < 0.01, (listing, finding)

    tell(crowded, story)
