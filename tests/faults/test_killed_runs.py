"""A real kill -9 at the worst moment: between the intent and the result of an effect (law 5)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

from chaoscore.domain.action import Event
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.json import JsonObject
from tests.app.harness import bench, run, step, until, write_policy

REPOSITORY = Path(__file__).parents[2]
BOX = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
boxes = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*BOX, "true"], capture_output=True).returncode != 0,
    reason="this machine lets nobody make a pid namespace",
)


class Child:
    """A process that runs a plan and is killed for real."""

    def __init__(
        self,
        directory: Path,
        *steps: JsonObject,
        confirmed: bool = False,
        lease: float | None = None,
        box: bool = False,
    ) -> None:
        """``box`` puts it into a pid namespace of its own, as a container does."""
        directory.mkdir(exist_ok=True)
        plan_file = directory / "plan.json"
        plan_file.write_text(json.dumps(list(steps)), "utf-8")
        command = [sys.executable, "-m", "tests.app.child", str(directory), str(plan_file)]
        command += ["--confirmed"] if confirmed else []
        command += [] if lease is None else ["--lease", str(lease)]
        self.process = subprocess.Popen(
            [*(BOX if box else ()), *command], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        )

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)
        stdout: IO[str] | None = self.process.stdout
        assert stdout is not None
        stdout.close()


def wait_for_line(file: Path, line: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if file.exists() and line in file.read_text("utf-8").splitlines():
            return
        time.sleep(0.01)  # another process is being watched; there is nothing to wait on
    raise AssertionError(f"{line!r} never appeared")


def killed_in_the_middle(directory: Path, *steps: JsonObject, line: str, confirmed: bool = False) -> str:
    child = Child(directory, *steps, confirmed=confirmed)
    plan = str(child.line()["plan"])
    wait_for_line(directory / "journal.txt", line)
    child.kill()
    return plan


def test_an_effect_cut_off_by_a_kill_is_unknown_and_never_run_twice(tmp_path: Path) -> None:
    plan = killed_in_the_middle(
        tmp_path,
        step("s1", "test.append", {"text": "first"}),
        step("s2", "test.hold", {"text": "a"}),
        step("s3", "test.append", {"text": "last"}, after=["s2"]),
        line="begin a",
    )

    async def work() -> None:
        from chaoscore.app.runs.book import ExecuteRequest

        async with bench(tmp_path) as b:
            answer = await b.execute(plan)
            assert answer["status"] == "NEEDS_ATTENTION"
            assert {s["id"]: s["state"] for s in answer["data"]["steps"]} == {
                "s1": "succeeded",
                "s2": "outcome-unknown",
                "s3": "pending",
            }
            assert (await b.execute(plan))["status"] == "NEEDS_ATTENTION"
            assert b.world.effects() == ["first", "begin a"]
            await b.kernel.services.runs.resolve(ExecuteRequest(plan=plan), "s2", None, "happened", b.context())
            assert (await b.execute(plan))["status"] == "ACHIEVED"
            assert b.world.effects() == ["first", "begin a", "last"]
            assert (await b.kernel.stores.audit.verify()).fault is None

    run(work())


def test_a_read_cut_off_by_a_kill_is_tried_again_and_finished_steps_are_not(tmp_path: Path) -> None:
    plan = killed_in_the_middle(
        tmp_path,
        step("s1", "test.append", {"text": "first"}),
        step("s2", "test.hold_read", {"text": "r"}, after=["s1"]),
        line="begin r",
    )

    async def work() -> None:
        async with bench(tmp_path) as b:
            event = b.world.holds["r"] = asyncio.Event()
            event.set()
            assert (await b.execute(plan))["status"] == "ACHIEVED"
            assert b.world.effects() == ["first", "begin r", "begin r", "end r"]

    run(work())


def test_an_approval_is_used_once_even_when_its_effect_was_cut_off(tmp_path: Path) -> None:
    write_policy(tmp_path, requireConfirmationFor=["test.hold"])
    plan = killed_in_the_middle(tmp_path, step("s1", "test.hold", {"text": "a"}), line="begin a", confirmed=True)

    async def work() -> None:
        from chaoscore.app.runs.book import ExecuteRequest

        async with bench(tmp_path) as b:
            assert (await b.execute(plan))["status"] == "NEEDS_ATTENTION"
            await b.kernel.services.runs.resolve(ExecuteRequest(plan=plan), "s1", None, "retry", b.context())
            assert (await b.execute(plan))["status"] == "WAITING_FOR_APPROVAL"
            assert b.world.effects() == ["begin a"]

    run(work())


def test_where_a_person_is_wanted_nobody_says_what_became_of_it_before_the_person_was_asked(tmp_path: Path) -> None:
    write_policy(tmp_path, approvalMode="human")
    plan = killed_in_the_middle(tmp_path, step("s1", "test.hold", {"text": "a"}), line="begin a")

    async def work() -> None:
        from chaoscore.app.runs.book import ExecuteRequest

        async with bench(tmp_path) as b:
            words: tuple[Event, ...] = ("happened", "retry", "give-up")
            for word in words:
                with pytest.raises(InvalidInput, match="approvalMode is human"):
                    await b.kernel.services.runs.resolve(ExecuteRequest(plan=plan), "s1", None, word, b.context())
            kinds = [event["kind"] for _, event in await b.kernel.stores.audit.tail(None, None, 50, None)]
            assert "outcome-resolved" not in kinds
            assert (await b.execute(plan))["status"] == "NEEDS_ATTENTION"
            assert len((await b.kernel.services.approvals.waiting(None))[0]) == 1

    run(work())


def test_a_dead_owner_is_taken_over_at_once(tmp_path: Path) -> None:
    plan = killed_in_the_middle(tmp_path, step("s1", "test.hold_read", {"text": "r"}), line="begin r")

    async def work() -> None:
        async with bench(tmp_path) as b:
            running = await b.execute(plan, wait_seconds=0)
            assert running["status"] == "RUNNING"
            await until(lambda: b.world.effects() == ["begin r", "begin r"])
            b.world.holds["r"].set()
            assert (await b.execute(plan))["status"] == "ACHIEVED"

    run(work())


@boxes
def test_a_run_held_by_a_dead_process_that_cannot_be_judged_names_it_and_is_taken_over_when_its_lease_ends(
    tmp_path: Path,
) -> None:
    child = Child(tmp_path, step("s1", "test.hold_read", {"text": "r"}), lease=4, box=True)
    plan = str(child.line()["plan"])
    wait_for_line(tmp_path / "journal.txt", "begin r")
    child.kill()

    async def work() -> None:
        async with bench(tmp_path) as b:
            b.world.holds.setdefault("r", asyncio.Event()).set()
            busy = await b.execute(plan, wait_seconds=0)
            assert (busy["ok"], busy["status"]) == (False, "RUN_BUSY")
            assert "process 1 in another container of this machine" in busy["message"]
            assert "can be taken over in" in busy["message"] and "wait_seconds" in busy["nextAction"]
            assert 0 < busy["error"]["details"]["lease_seconds"] <= 4
            assert (await b.execute(plan, wait_seconds=60))["status"] == "ACHIEVED"
            assert b.world.effects() == ["begin r", "begin r", "end r"]

    run(work())


def test_a_run_held_by_a_process_that_stands_still_is_taken_over_when_its_lease_ends(tmp_path: Path) -> None:
    child = Child(tmp_path, step("s1", "test.hold_read", {"text": "r"}), lease=2)
    try:
        plan = str(child.line()["plan"])
        wait_for_line(tmp_path / "journal.txt", "begin r")
        os.kill(child.process.pid, signal.SIGSTOP)

        async def work() -> None:
            async with bench(tmp_path) as b:
                b.world.holds.setdefault("r", asyncio.Event()).set()
                assert (await b.execute(plan, wait_seconds=60))["status"] == "ACHIEVED"

        run(work())
    finally:
        child.kill()


def test_a_call_does_not_wait_for_a_process_that_is_seen_to_live(tmp_path: Path) -> None:
    child = Child(tmp_path, step("s1", "test.hold_read", {"text": "r"}), lease=3)
    try:
        plan = str(child.line()["plan"])
        wait_for_line(tmp_path / "journal.txt", "begin r")

        async def work() -> None:
            async with bench(tmp_path) as b:
                busy = await b.execute(plan, wait_seconds=500)
                assert busy["status"] == "RUN_BUSY"
                assert f"process {child.process.pid}, which lives" in busy["message"]
                assert b.world.effects() == ["begin r"]

        run(work())
    finally:
        child.kill()
