"""Ten thousand stored plans: lists go on page by page, and somebody else's id tells no more than one that never was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoscore.app.tools import Connection
from chaoscore.domain.json import Json
from chaoscore.domain.principal import ANONYMOUS, Principal
from chaoscore.domain.records import Run
from tests.app.harness import LOCAL, Bench, bench, step

MANY = 10_000
AT_ONCE = 500
RUNS = 260
OTHER = Principal("oauth", "somebody-else")


def plan_id(owner: Principal, number: int) -> str:
    return f"plan_{owner.kind}{number:024d}"


async def fill(made: Bench) -> None:
    """Half of the plans are this caller's, the others somebody else's; the first of each owner have runs."""
    first = await made.plan(step("s1", "test.give", {"value": 1}))
    stored = await made.kernel.stores.plans.find_plan(first, LOCAL)
    assert stored is not None
    plans, runs = made.kernel.stores.plans, made.kernel.stores.runs
    jobs: list[Coroutine[Any, Any, object]] = []
    for number in range(MANY):
        owner = LOCAL if number % 2 else OTHER
        plan = replace(stored.plan, label=f"p-{number}", owner=owner.key)
        jobs.append(plans.add_plan(plan, plan_id(owner, number), None, ()))
    for at in range(0, len(jobs), AT_ONCE):
        await asyncio.gather(*jobs[at : at + AT_ONCE])
    for number in range(2 * RUNS):
        owner = LOCAL if number % 2 else OTHER
        run = Run(f"r-{number}", None, f"p-{number}", owner.key, "completed", 1.0 + number, 1.0 + number)
        await runs.open_run(run, f"run_{owner.kind}{number:024d}", False, ())


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("many")

    async def work() -> None:
        async with bench(directory) as made:
            await fill(made)

    asyncio.run(work())
    return directory


@asynccontextmanager
async def among_them(crowded: Path, principal: Principal = LOCAL) -> AsyncIterator[Bench]:
    async with bench(crowded) as made:
        yield Bench(made.kernel, made.world, principal, Connection("c-many"))


def test_every_run_is_listed_once_and_none_of_somebody_elses(crowded: Path) -> None:
    async def work() -> None:
        async with among_them(crowded) as caller:
            seen: list[str] = []
            cursor: str | None = None
            for _ in range(RUNS):
                more = {} if cursor is None else {"cursor": cursor}
                page = (await caller.call("chaoscore_inspect", what="runs", limit=30, **more))["data"]
                assert 0 < len(page["runs"]) <= 30
                seen += [run["label"] for run in page["runs"]]
                cursor = page["cursor"]
                if cursor is None:
                    break
            assert seen == [f"r-{number}" for number in reversed(range(2 * RUNS)) if number % 2]

    asyncio.run(work())


def test_a_run_that_begins_between_two_pages_moves_nothing(crowded: Path) -> None:
    async def work() -> None:
        async with among_them(crowded) as caller:
            first = (await caller.call("chaoscore_inspect", what="runs", limit=10))["data"]
            label = f"r-new-{first['runs'][0]['label']}"
            run = Run(label, None, f"p-{MANY - 1}", LOCAL.key, "completed", 9e6, 9e6)
            await caller.kernel.stores.runs.open_run(run, "run_new" + "0" * 24, False, ())
            second = (await caller.call("chaoscore_inspect", what="runs", limit=10, cursor=first["cursor"]))["data"]
            labels = [run["label"] for run in (*first["runs"], *second["runs"])]
            assert len(set(labels)) == 20 and label not in labels

    asyncio.run(work())


def test_any_of_the_plans_is_found_by_its_id_and_shown_whole(crowded: Path) -> None:
    async def work() -> None:
        async with among_them(crowded) as caller:
            for number in (1, MANY // 2 + 1, MANY - 1):
                shown = await caller.call("chaoscore_inspect", what="plan", plan_id=plan_id(LOCAL, number))
                assert shown["ok"] and shown["data"]["label"] == f"p-{number}", shown

    asyncio.run(work())


@pytest.mark.parametrize("who", [LOCAL, OTHER, ANONYMOUS], ids=lambda p: p.kind)
def test_somebody_elses_plan_among_them_answers_exactly_like_a_missing_one(who: Principal, crowded: Path) -> None:
    theirs = OTHER if who != OTHER else LOCAL
    foreign = [plan_id(theirs, number) for number in range(MANY) if (number % 2 == 1) == (theirs == LOCAL)][::999]
    missing = "plan_" + "x" * len(foreign[0].removeprefix("plan_"))
    calls: tuple[tuple[str, dict[str, Json]], ...] = (
        ("chaoscore_inspect", {"what": "plan"}),
        ("chaoscore_inspect", {"what": "run"}),
        ("chaoscore_execute", {}),
        ("chaoscore_execute", {"rerun": True}),
        ("chaoscore_execute", {"cancel": True}),
        ("chaoscore_execute", {"step_ids": ["s1"], "confirmed": True}),
    )

    async def work() -> None:
        async with among_them(crowded, who) as caller:
            for tool, more in calls:
                for identity in foreign:
                    told = await caller.call(tool, plan_id=identity, **more)
                    never = await caller.call(tool, plan_id=missing, **more)
                    assert told["error"]["code"] == "NOT_FOUND", told
                    assert str(told).replace(identity, "ID") == str(never).replace(missing, "ID")

    asyncio.run(work())
