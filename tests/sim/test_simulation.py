"""Many agents, humans and other programs on one folder, with crashes, faults and jumps of the clock, from a seed.

A run that breaks something prints its trace; ``python -m tests.sim SEED`` replays it. Its seed belongs into seeds.txt.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.__main__ import options
from tests.sim.auditor import Auditor, Wrong
from tests.sim.simulation import simulate

LINES = (Path(__file__).parent / "seeds.txt").read_text("utf-8").splitlines()
ONCE_BROKEN = [run for line in LINES if (run := line.partition("#")[0].strip())]
FIXED = ["1", "4", "100", "101", "102", "103 --overlap", "104 --overlap"]


@pytest.mark.parametrize("run", [*ONCE_BROKEN, *FIXED])
def test_whatever_happens_nothing_acknowledged_is_lost_and_everything_gets_on(tmp_path: Path, run: str) -> None:
    wanted = options(run.split())
    assert wanted.run(wanted.seed, tmp_path)[-1] == "begin RUN-last: READY "


def test_a_seed_is_a_run(tmp_path: Path) -> None:
    first, second = (simulate(5, tmp_path / name) for name in ("first", "second"))
    assert [line for line in first if "DIED" not in line and "fault" not in line] == [
        line for line in second if "DIED" not in line and "fault" not in line
    ]


def test_the_auditor_sees_an_answer_that_was_exchanged(tmp_path: Path) -> None:
    simulate(1, tmp_path)
    root = tmp_path / ".chaos/interactions"
    auditor = Auditor(root, set())
    auditor.always()
    response = next(path for path in root.glob("decisions/*/response.json"))
    response.write_text(response.read_text("utf-8").replace('"rationale": "', '"rationale": "not '), "utf-8")
    with pytest.raises(Wrong, match="changed"):
        auditor.always()


@pytest.mark.campaign
@pytest.mark.parametrize("block", range(20))
def test_hundreds_of_seeds(tmp_path: Path, block: int) -> None:
    for seed in range(1_000 + 25 * block, 1_000 + 25 * (block + 1)):
        simulate(seed, tmp_path / str(seed), 120, overlap=True)
