"""Beginning, locking and resuming: who may work on a change, and what a resuming agent is told."""

from __future__ import annotations

import json

import pytest

from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import DecisionRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.capsule import CapsuleOverrides
from tests.interaction.conftest import Place
from tests.interaction.steps import OPTIONS, answer, ask, begin, document, prepared


def test_after_an_answer_the_same_command_is_told_to_resume_and_nothing_is_written(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        before = {path: path.read_bytes() for path in place.root.rglob("*.json")}
        again = await service.begin(BeginRequest("chaos:run again", "c1"))
        assert (again.status, again.data["commandRunId"]) == ("RESUME_AVAILABLE", "RUN-1")
        assert again.data["resumeCapsulePath"] == "capsules/RUN-1.json"
        assert {path: path.read_bytes() for path in place.root.rglob("*.json")} == before

    place.tell(story)


def test_once_resumed_the_same_command_conflicts_and_is_told_how_to_reenter(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer", "resume")
        again = await service.begin(BeginRequest("chaos:run", "c1"))
        assert again.status == "CONFLICTING_COMMAND_ACTIVE" and again.must_stop
        assert again.next_action and "commandRunId RUN-1" in again.next_action
        mine = await begin(service)
        assert (mine.status, mine.data["commandRunId"]) == ("READY", "RUN-1")

    place.tell(story)


def test_the_second_of_two_resuming_agents_is_warned(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        first, second = await service.resume("RUN-1"), await service.resume("RUN-1")
        assert (first.status, first.warnings) == ("RESUMED", ())
        assert second.status == "RESUMED" and "already running" in second.warnings[0]

    place.tell(story)


def test_begin_takes_no_lock_but_a_second_question_on_a_held_change_is_refused(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service, "RUN-1")
        await begin(service, "RUN-2")
        assert not (place.root / "locks.json").exists()
        await ask(service, "RUN-1")
        refused = await ask(service, "RUN-2")
        assert (refused.status, refused.ok) == ("CHANGE_LOCKED", False) and "RUN-1" in refused.message
        assert len(list(place.root.glob("decisions/*"))) == 1

    place.tell(story)


def test_two_locks_that_peers_made_on_one_change_are_tolerated_and_reported(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        table = json.loads((place.root / "locks.json").read_text())
        table["locks"].append({**table["locks"][0], "lockId": "LOCK-2", "lockedByCommandRunId": "RUN-9"})
        (place.root / "locks.json").write_text(json.dumps(table))
        shown = await service.list_locks()
        assert any("more than one run" in warning for warning in shown.warnings)
        assert (await service.resume("RUN-1")).status == "RESUMED"

    place.tell(story)


def test_a_run_cannot_resume_while_another_holds_its_change(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        table = json.loads((place.root / "locks.json").read_text())
        table["locks"][0]["lockedByCommandRunId"] = "RUN-9"
        (place.root / "locks.json").write_text(json.dumps(table))
        assert (await service.resume("RUN-1")).status == "CHANGE_LOCKED"

    place.tell(story)


def test_uncertain_locks_block_what_needs_them_and_nothing_else(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        (place.root / "locks.json").write_text("{half")
        assert (await service.begin(BeginRequest("chaos:run", "c2"))).status == "MALFORMED_STATE"
        assert (await service.begin(BeginRequest("chaos:run"))).status == "READY"
        heard = await answer(service, decision)
        assert heard.ok and any("locks.json" in warning for warning in heard.warnings)
        assert (await service.resume("RUN-1")).status == "MALFORMED_STATE"
        assert (place.root / "locks.json").read_text() == "{half"

    place.tell(story)


def test_a_finished_run_is_never_begun_over(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        await service.complete(EndRequest("RUN-1"))
        before = (place.root / "sessions/RUN-1.json").read_bytes()
        again = await begin(service)
        assert again.status == "SESSION_TERMINAL"
        assert (place.root / "sessions/RUN-1.json").read_bytes() == before

    place.tell(story)


def test_a_resuming_agent_learns_which_required_artifacts_are_missing(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        (place.repository / "docs").mkdir()
        (place.repository / "docs/there.md").write_text("x")
        wanted = ["docs/there.md", "docs/gone.md", "../outside.md"]
        await service.write_capsule("RUN-1", CapsuleOverrides(required_artifacts=wanted))
        await answer(service, decision)
        resumed = await service.resume("RUN-1")
        assert resumed.warnings == ("required artifacts are missing: docs/gone.md, ../outside.md",)

    place.tell(story)


def test_a_resuming_agent_learns_that_an_answer_is_missing_or_belongs_elsewhere(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask", "answer")
        path = place.root / f"decisions/{decision}/response.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "commandRunId": "RUN-9"}))
        assert any("another decision or run" in warning for warning in (await service.resume("RUN-1")).warnings)

    place.tell(story)


def test_the_capsule_follows_its_session_to_the_end_and_stays_sealed(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask", "answer")
        for step, state in (("resume", "waiting-for-decision"), ("consume", "waiting-for-decision")):
            done = await (service.resume("RUN-1") if step == "resume" else service.mark_consumed(decision))
            assert done.ok
            shown = await service.resume_capsule("RUN-1")
            assert shown.warnings == ()
            assert document(place.root, "capsules/RUN-1.json")["state"] == state  # type: ignore[index]
        await service.complete(EndRequest("RUN-1"))
        capsule = document(place.root, "capsules/RUN-1.json")
        assert capsule is not None and capsule["state"] == "completed"
        assert capsule["consumedDecisionIds"] == [decision]
        assert (await service.resume_capsule("RUN-1")).warnings == ()

    place.tell(story)


def test_a_capsule_edited_by_hand_is_shown_with_a_warning(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        path = place.root / "capsules/RUN-1.json"
        path.write_text(path.read_text().replace("resume-command", "rm -rf everything"))
        shown = await service.resume_capsule("RUN-1")
        assert shown.status == "FOUND" and "changed by hand" in shown.warnings[0]

    place.tell(story)


def test_reasons_and_metadata_of_the_caller_are_kept_and_shown(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await begin(service)
        await service.create_decision(
            DecisionRequest(
                "RUN-1", "t", "c", OPTIONS, recommendation="take a", next_step="build", last_completed_step="plan"
            )
        )
        shown = (await service.active_decision()).data["decision"]
        assert isinstance(shown, dict) and shown["recommendation"] == "take a" and shown["context"] == "c"
        session = document(place.root, "sessions/RUN-1.json")
        assert session is not None and (session["nextStep"], session["lastCompletedStep"]) == ("build", "plan")
        await service.cancel(EndRequest("RUN-1", "changed my mind", metadata={"ticket": 7}))
        session = document(place.root, "sessions/RUN-1.json")
        assert session is not None
        ended = session["metadata"]["chaosCore"]["ended"]  # type: ignore[index, call-overload]
        assert (ended["reason"], ended["metadata"]) == ("changed my mind", {"ticket": 7})  # type: ignore[index, call-overload]
        assert "changed my mind" in (place.root / "audit.jsonl").read_text()

    place.tell(story)


def test_a_session_that_may_wait_only_so_long_gives_its_change_back(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await service.begin(BeginRequest("chaos:run", "c1", command_run_id="RUN-1", ttl_seconds=60))
        decision = (await ask(service)).data["decisionId"]
        place.clock.seconds += 61
        assert (await service.active_decision()).status == "NO_ACTIVE_DECISION"
        assert document(place.root, "sessions/RUN-1.json")["state"] == "expired"  # type: ignore[index]
        assert document(place.root, f"decisions/{decision}/decision.json")["state"] == "expired"  # type: ignore[index]
        assert (await service.begin(BeginRequest("chaos:other", "c1"))).status == "READY"

    place.tell(story)


def test_the_lock_of_a_running_session_expires_but_never_while_its_decision_waits(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await service.begin(BeginRequest("chaos:run", "c1", command_run_id="RUN-1", ttl_seconds=60))
        decision = str((await ask(service)).data["decisionId"])
        await answer(service, decision)
        await service.resume("RUN-1")
        place.clock.seconds += 61
        await service.active_decision()
        assert (await service.begin(BeginRequest("chaos:other", "c1"))).status == "READY"
        locks = document(place.root, "locks.json")["locks"]  # type: ignore[index]
        assert [lock["state"] for lock in locks] == ["expired"]  # type: ignore[union-attr, index, call-overload]
        assert document(place.root, "sessions/RUN-1.json")["state"] == "running"  # type: ignore[index]

    place.tell(story)


@pytest.mark.parametrize(
    ("run", "status"),
    [
        ("RUN-chaoscore-x", "KERNEL_SESSION"),
        ("run-chaoscore-x", "KERNEL_SESSION"),
        ("RUN-ChaosCore-x", "KERNEL_SESSION"),
        (" RUN-chaoscore-x", "SCHEMA_VALIDATION_ERROR"),  # no id at all
    ],
)
def test_no_session_begins_under_an_id_that_reads_like_a_run_of_the_kernel(place: Place, run: str, status: str) -> None:
    async def story(service: InteractionService) -> None:
        refused = await begin(service, run)
        assert (refused.ok, refused.status) == (False, status)
        assert not list(place.repository.rglob("*.json"))
        assert (await begin(service, "RUN-my-chaoscore-x")).ok

    place.tell(story)
