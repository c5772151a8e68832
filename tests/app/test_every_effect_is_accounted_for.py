"""Real runs account for every effect in their audit; one from which the holder of the key took an event does not."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from chaoscore.adapters.sqlite.verifying import Verification, verify_directory
from chaoscore.app.approvals import Answer
from chaoscore.app.plans import NewPlan, PlanReport
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.domain.action import Event
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.limits import Limits
from chaoscore.domain.mediation import MediationReport
from chaoscore.testing.fakes import CountingIds
from tests.app.harness import Bench, bench, run, step, until
from tests.contracts.forging import taken_out

ASK = "test.append"


async def answered(b: Bench, *options: str) -> None:
    (decision,), _ = await b.kernel.services.approvals.waiting(None)
    choice = Choice(options[0] if len(options) == 1 else None, options if len(options) > 1 else (), None, None)
    await b.kernel.services.approvals.answer(
        Answer(decision.id, choice, decision.question_digest, "terminal", "local:1000")
    )


async def approved_and_denied(b: Bench) -> None:
    """Two writes are asked about at once, one of them is approved; a read needs no approval."""
    plan = await b.plan(
        step("s1", ASK, {"text": "one"}), step("s2", ASK, {"text": "two"}), step("s3", "test.give", {"value": 1})
    )
    await b.execute(plan)
    await answered(b, "approve:s1")
    await b.execute(plan)
    assert b.world.effects() == ["one"]


async def confirmed(b: Bench) -> None:
    plan = await b.plan(step("s1", ASK, {"text": "confirmed"}))
    assert (await b.execute(plan, confirmed=True))["status"] == "ACHIEVED"


async def asked_again(b: Bench) -> None:
    """The second question is about arguments that the first action delivered; then the same plan as another run."""
    plan = await b.plan(step("s1", ASK, {"text": "again"}), step("s2", ASK, {"text": {"$from": "s1", "path": "/text"}}))
    for rerun in (False, True):
        await b.execute(plan, rerun=rerun)
        await answered(b, "approve")
        await b.execute(plan)
        await answered(b, "approve")
        assert (await b.execute(plan))["status"] == "ACHIEVED"


async def nothing_ran(b: Bench) -> None:
    """Arguments that do not fit, too many items, a capability that the policy denies, a handler that did nothing."""
    values: list[Json] = [1, 2, 3]
    plan = await b.plan(
        step("s1", "test.give", {"value": values}, on_error="continue"),
        step("s2", ASK, {"text": {"$from": "s1", "path": "/value"}}, on_error="continue"),
        step("s3", ASK, {"text": {"$from": "s1", "path": "/none"}}, on_error="continue"),
        step("s4", "test.explode", on_error="continue"),
        step("s5", "test.refuse", on_error="continue"),
        step(
            "s6",
            "test.give",
            {"value": {"$item": ""}},
            for_each={"$from": "s1", "path": "/value", "max": 2},
            on_error="continue",
        ),
        step(
            "s7",
            "test.give",
            {"value": {"$item": ""}},
            for_each={"$from": "s1", "path": "/value", "max": 5},
            on_error="continue",
        ),
    )
    answer = await b.execute(plan)
    states = {s["id"]: s["state"] for s in answer["data"]["steps"]}
    assert states == {
        "s1": "succeeded",
        "s2": "failed",
        "s3": "failed",
        "s4": "denied",
        "s5": "failed",
        "s6": "failed",
        "s7": "succeeded",
    }


async def unknown(b: Bench) -> None:
    """Nobody knows what became of three effects; one runs again, one happened, one is settled after a cancel."""
    words: tuple[Event, ...] = ("retry", "happened", "give-up")
    for word in words:
        plan = await b.plan(step("s1", "test.hold", {"text": word}))
        assert (await b.execute(plan))["status"] == "NEEDS_ATTENTION"
        b.world.holds[word].set()
        request = ExecuteRequest(plan=plan)
        if word == "give-up":
            await b.kernel.services.runs.cancel(request, b.context())

        async def kept(plan: str = plan) -> bool:
            seen = await b.call("chaoscore_inspect", what="run", plan_id=plan)
            return bool(seen["data"]["unknown"][0]["evidence"])

        await until(kept)
        await b.kernel.services.runs.resolve(request, "s1", None, word, b.context())
        await b.execute(plan)


async def reused(b: Bench) -> None:
    """A plan that replaces another takes over what that one already did."""
    steps: list[JsonObject] = [step("s1", "test.hold", {"text": "held"})]
    b.world.holds.setdefault("held", asyncio.Event()).set()
    predecessor: str | None = None
    for _ in range(2):
        report = await b.kernel.services.plans.make(NewPlan("hold", steps=steps, predecessor=predecessor), b.context())
        assert isinstance(report, PlanReport)
        predecessor = report.plan.plan.label
        assert (await b.execute(report.credential))["status"] == "ACHIEVED"
    assert b.world.effects().count("begin held") == 1


def verified(directory: Path) -> Verification:
    return verify_directory(directory / "data", CountingIds())


def told(directory: Path) -> list[JsonObject]:
    with sqlite3.connect(directory / "data" / "chaoscore.db") as database:
        return [json.loads(body) for (body,) in database.execute("SELECT body FROM audit ORDER BY seq")]


def test_every_effect_of_real_runs_is_accounted_for(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK], deniedCapabilities=["test.explode"]) as b:
            await approved_and_denied(b)
            await confirmed(b)
            await asked_again(b)
            await nothing_ran(b)
            await reused(b)
        async with bench(tmp_path, limits=Limits(step_seconds=0.05)) as b:
            await unknown(b)
            report = await b.kernel.stores.audit.verify()
            assert report.problem is None
            assert report.mediation == verified(tmp_path).report.mediation

    run(work())
    found = verified(tmp_path)
    assert found.is_proven, found.report.problem
    events = told(tmp_path)
    kinds = [str(event["kind"]) for event in events]
    proved = found.report.mediation
    assert proved == MediationReport(
        runs=kinds.count("run-opened"), effects=kinds.count("intent-recorded"), approvals=kinds.count("grant-given")
    )
    assert (proved.runs, proved.approvals) == (10, 6)
    for kind in ("decision-answered", "action-outcome-unknown", "late-result-kept", "action-denied", "run-cancelled"):
        assert kind in kinds, kind
    errors = [data.get("error") for event in events if is_object(data := event.get("data"))]
    codes = {str(error["code"]) for error in errors if is_object(error)}
    assert {"ARGUMENTS_INVALID", "REFERENCE_MISSING", "TOO_MANY_ITEMS", "NOT_PERFORMED"} <= codes, codes


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which a person approved one of two effects."""
    directory = tmp_path_factory.mktemp("approved")

    async def work() -> None:
        async with bench(directory, requireConfirmationFor=[ASK]) as b:
            await approved_and_denied(b)

    run(work())
    return directory


@pytest.mark.parametrize(
    ("kind", "missed_by", "rule"),
    [
        ("run-opened", "verdict-given", "run-not-open"),
        ("verdict-given", "intent-recorded", "intent-without-verdict"),
        ("intent-recorded", "action-succeeded", "result-without-intent"),
        ("grant-given", "intent-recorded", "intent-without-grant"),
        ("decision-answered", "grant-given", "grant-without-decision"),
        ("decision-asked", "decision-answered", "answer-without-question"),
    ],
)
def test_an_event_that_the_holder_of_the_key_took_out_is_missed(
    kind: str, missed_by: str, rule: str, approved: Path, tmp_path: Path
) -> None:
    shutil.copytree(approved / "data", tmp_path / "data")
    events = told(tmp_path)
    assert verified(tmp_path).is_proven
    last = max(seq for seq, event in enumerate(events, 1) if event["kind"] == kind)
    taken_out(tmp_path / "data", last)
    found = verified(tmp_path)
    assert found.is_whole, "the chain itself holds"
    assert not found.is_proven and found.report.mediation is not None
    fault = found.report.mediation.fault
    assert fault is not None and (fault.kind, fault.rule) == (missed_by, rule), str(fault)
    rewritten = told(tmp_path)[fault.event - 1]
    assert (rewritten["kind"], rewritten["run"], rewritten.get("step")) == (missed_by, fault.run, fault.step)
    assert str(found.report.problem).startswith(f"event {fault.event} ({missed_by}, run {fault.run}")


def test_what_is_wrong_with_the_chain_is_told_first_and_what_came_before_it_too(approved: Path, tmp_path: Path) -> None:
    shutil.copytree(approved / "data", tmp_path / "data")
    events = told(tmp_path)
    intent = max(seq for seq, event in enumerate(events, 1) if event["kind"] == "intent-recorded")
    taken_out(tmp_path / "data", intent)
    with sqlite3.connect(tmp_path / "data" / "chaoscore.db") as database:
        database.execute("UPDATE audit SET mac = 'x' WHERE seq = (SELECT max(seq) FROM audit)")
    report = verified(tmp_path).report
    assert report.fault is not None and "was altered" in report.fault and report.problem == report.fault
    assert report.mediation is not None and report.mediation.fault is not None
    assert report.mediation.fault.event < (report.at or 0)
