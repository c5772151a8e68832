"""No effect without a fitting grant, whatever people, callers, operators and the machine do, from a seed.

A schedule that breaks something prints its log; ``python -m tests.sim_approvals SEED`` replays it. Its seed belongs
into seeds.txt.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sim_approvals.__main__ import many, one, options
from tests.sim_approvals.simulation import simulate

LINES = (Path(__file__).parent / "seeds.txt").read_text("utf-8").splitlines()
ONCE_BROKEN = [run for line in LINES if (run := line.partition("#")[0].strip())]


@pytest.mark.parametrize("run", ONCE_BROKEN)
def test_what_once_broke_holds(run: str) -> None:
    wanted = options(run.split())
    _, log, fault = one(wanted.seed, wanted.steps)
    assert fault is None, "\n".join([*log, fault])


@pytest.mark.parametrize("first", range(1, 41, 10))
def test_no_effect_happens_without_a_fitting_grant_under_any_schedule(first: int) -> None:
    effects = 0
    for seed in range(first, first + 10):
        _, log, fault = one(seed, options([str(seed)]).steps)
        assert fault is None, "\n".join([*log, f"seed {seed}: {fault}"])
        effects += sum(" begins in " in line for line in log)
    assert effects > 10, "the schedules do too little"


def test_a_seed_is_a_schedule(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    assert simulate(7, first) == simulate(7, second)


@pytest.mark.campaign
def test_ten_thousand_schedules() -> None:
    assert many(options(["--seeds", "10000", "--from", "100000", "--processes", str(os.cpu_count() or 1)]), 10_000) == 0
