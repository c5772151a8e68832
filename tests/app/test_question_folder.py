"""Questions of runs as files: they lie in the folder, are answered there, and the database decides what counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaoscore.app.approvals import Answer
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.bootstrap_interaction import Interactions, open_interactions
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.interaction.capsule import CapsuleOverrides
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json
from chaoscore.settings.interaction import InteractionSettings
from tests.app.harness import Bench, bench, run, step, until

ASK = "test.append"


def settings(root: Path) -> InteractionSettings:
    return InteractionSettings(root.parent, root, root / "schema")


async def one_waiting(b: Bench) -> RunDecision:
    (decision,), _ = await b.kernel.services.approvals.waiting(None)
    return decision


def decision_file(root: Path, decision: RunDecision) -> Path:
    return root / "decisions" / decision.id / "decision.json"


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text("utf-8")))


def panel_answers(root: Path, decision: RunDecision, option: str, **more: Json) -> Path:
    """What a Decision Center that knows nothing of us writes: the response alone, without a hash."""
    path = decision_file(root, decision).with_name("response.json")
    document: dict[str, Json] = {
        "schemaVersion": 1,
        "decisionId": decision.id,
        "commandRunId": decision.question.command_run_id,
        "selectedOptionId": option,
        "selectedOptionIds": [],
        "freeformValue": None,
        "rationale": None,
        "selectedBy": "human",
        "selectedAt": decision.question.created_at,
        "source": "vscode-decision-center",
        "validatesAgainstDecisionHash": None,
        "metadata": {},
        **more,
    }
    path.write_text(json.dumps(document), "utf-8")
    return path


def shown(root: Path, decision: RunDecision) -> bool:
    return decision_file(root, decision).exists()


def test_a_question_lies_in_the_folder_and_follows_what_becomes_of_it(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        async with bench(tmp_path, root=root, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            session = root / "sessions" / f"{decision.question.command_run_id}.json"
            assert read(decision_file(root, decision))["state"] == "waiting"
            assert read(session)["state"] == "waiting-for-decision"
            given = Answer(decision.id, Choice("approve"), decision.question_digest, "terminal", "local:1000")
            await b.kernel.services.approvals.answer(given)
            await b.execute(plan)
            await until(lambda: read(session)["state"] == "completed")
            assert read(decision_file(root, decision))["state"] == "consumed"
            response = read(decision_file(root, decision).with_name("response.json"))
            assert (response["selectedOptionId"], response["selectedBy"]) == ("approve", "local:1000")

    run(work())


def test_an_answer_left_in_the_folder_is_taken_before_the_run_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        async with bench(tmp_path, root=root, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            panel_answers(root, decision, "approve")
            assert (await b.execute(plan))["status"] == "ACHIEVED"
            found = await b.kernel.services.approvals.find(decision.id)
            assert found.response is not None and (found.response.door, found.response.approver) == (
                "folder",
                "folder:human",
            )

    run(work())


def test_a_worker_hears_an_answer_in_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        async with bench(tmp_path, root=root, requireConfirmationFor=[ASK]) as b, b.kernel.going_on():
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            panel_answers(root, decision, "approve")
            await until(lambda: b.world.effects() == ["x"])

    run(work())


@pytest.mark.parametrize("key", ["title", "context", "options"])
def test_an_answer_beside_a_question_that_somebody_changed_does_not_count(tmp_path: Path, key: str) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        async with bench(tmp_path, root=root, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            document = read(decision_file(root, decision))
            if key == "options":
                document["options"][0]["label"] = "Deny"
            else:
                document[key] = "something harmless"
            decision_file(root, decision).write_text(json.dumps(document), "utf-8")
            panel_answers(root, decision, "approve")
            assert (await b.execute(plan))["status"] == "WAITING_FOR_APPROVAL"
            seen = await b.call("chaoscore_inspect", what="decisions")
            assert "not the one that was asked" in seen["data"]["decisions"][0]["folder_problem"]
            assert b.world.effects() == []

    run(work())


def test_a_status_in_the_folder_approves_nothing(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        async with bench(tmp_path, root=root, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            for state in ("answered", "consumed"):
                document = read(decision_file(root, decision))
                decision_file(root, decision).write_text(json.dumps({**document, "state": state}), "utf-8")
                assert (await b.execute(plan))["status"] == "WAITING_FOR_APPROVAL"
            assert b.world.effects() == []

    run(work())


def test_in_human_mode_the_folder_counts_only_where_the_policy_lists_it(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work(doors: list[Json], effects: list[str]) -> None:
        directory = tmp_path / str(len(effects))
        directory.mkdir()
        policy: dict[str, Json] = {"requireConfirmationFor": [ASK], "approvalMode": "human", "approvalDoors": doors}
        async with bench(directory, root=root, limits=None, provider=None, clock=None, **policy) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            panel_answers(root, decision, "approve")
            await b.execute(plan)
            assert b.world.effects() == effects

    run(work(["web", "terminal"], []))
    run(work(["web", "folder"], ["x"]))


def test_no_tool_of_the_decision_server_moves_a_session_of_the_kernel(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        async with (
            bench(tmp_path, root=root, requireConfirmationFor=[ASK], approvalMode="human") as b,
            open_interactions(settings(root)) as runtime,
        ):
            await b.execute(await b.plan(step("s1", ASK, {"text": "x"})))
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            before = decision_file(root, decision).read_bytes()
            for status in await attempts(runtime, decision):
                assert status == "KERNEL_SESSION"
            assert decision_file(root, decision).read_bytes() == before

    run(work())


async def attempts(runtime: Interactions, decision: RunDecision) -> list[str]:
    service, name = runtime.service, decision.question.command_run_id
    option = Choice("approve")
    return [
        envelope.status
        for envelope in (
            await service.begin(BeginRequest("anything", command_run_id=name)),
            await service.create_decision(DecisionRequest(name, "t", "c", [{"id": "a", "label": "A"}])),
            await service.mark_consumed(decision.id),
            await service.resume(name),
            await service.complete(EndRequest(name)),
            await service.cancel(EndRequest(name)),
            await service.write_capsule(name, CapsuleOverrides()),
            await service.answer(AnswerRequest(decision.id, option, "somebody", "mcp-tool")),
            await service.answer(AnswerRequest(decision.id, option, "somebody", "manual-file")),
        )
    ]


def test_the_bridge_answers_where_the_policy_lists_it(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        policy: dict[str, Json] = {"approvalMode": "human", "approvalDoors": ["bridge"]}
        async with (
            bench(
                tmp_path, root=root, limits=None, provider=None, clock=None, requireConfirmationFor=[ASK], **policy
            ) as b,
            open_interactions(settings(root)) as runtime,
        ):
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            answered = await runtime.service.answer(AnswerRequest(decision.id, Choice("approve"), "ada", "mcp-tool"))
            assert answered.ok, answered
            assert (await b.execute(plan))["status"] == "ACHIEVED"
            found = await b.kernel.services.approvals.find(decision.id)
            assert found.response is not None and found.response.door == "bridge"

    run(work())


def test_what_never_reached_the_folder_is_put_there_by_whoever_serves_next(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        root.write_text("in the way", "utf-8")  # the folder cannot be made
        async with bench(tmp_path, root=root, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            assert (await b.execute(plan))["status"] == "WAITING_FOR_APPROVAL"
            decision = await one_waiting(b)
        root.unlink()
        async with bench(tmp_path, root=tmp_path / "elsewhere") as b, b.kernel.going_on():
            await until(lambda: shown(root, decision))
            assert not (tmp_path / "elsewhere").exists(), "a run keeps the folder that it began with"

    run(work())


def test_other_peoples_files_around_a_question_are_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "interactions"

    async def work() -> None:
        async with bench(tmp_path, root=root, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            decision = await one_waiting(b)
            await until(lambda: shown(root, decision))
            response = decision_file(root, decision).with_name("response.json")
            response.write_text("{ not json", "utf-8")
            assert (await b.execute(plan))["status"] == "WAITING_FOR_APPROVAL"
            assert response.read_text("utf-8") == "{ not json"

    run(work())


def test_no_file_of_a_question_holds_a_key_that_the_plan_or_the_answer_holds(tmp_path: Path) -> None:
    root, key = tmp_path / "interactions", "sk-proj-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"

    async def work() -> None:
        async with bench(tmp_path, root=root, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": key}, why=f"because {key}"))
            await b.execute(plan)
            decision = await one_waiting(b)
            assert key not in repr(decision)
            given = Choice("approve", (), None, f"I know {key}")
            await b.kernel.services.approvals.answer(
                Answer(decision.id, given, decision.question_digest, "web", f"web:{key}")
            )
            assert (await b.execute(plan))["status"] == "ACHIEVED"
            answered = decision_file(root, decision).parent / "response.json"
            await until(answered.exists)
            assert b.world.effects() == [key], "what runs is what the plan says"

    run(work())
    written = [path for path in root.rglob("*") if path.is_file()]
    assert any(path.name == "response.json" for path in written)
    assert [path for path in written if key in path.read_text("utf-8")] == []
