"""Approvals as decisions: what is asked, who may answer, what an answer does, and what becomes of the run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaoscore.app.approvals import Answer, AnswerDoor
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.domain.approval import DENY, DENY_ALL, RunDecision
from chaoscore.domain.errors import ChaosError, Conflict, InvalidInput, NotFound, PinRefused
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.principal import Principal
from chaoscore.testing.fakes import FakeClock
from tests.app.harness import Bench, bench, run, step, until, write_policy

ASK = "test.append"


async def waiting(b: Bench) -> list[RunDecision]:
    found, _ = await b.kernel.services.approvals.waiting(None)
    return list(found)


async def answer(
    b: Bench, decision: RunDecision, *options: str, door: AnswerDoor = "terminal", pin: str | None = None, **more: Any
) -> RunDecision:
    choice = Choice(options[0] if len(options) == 1 else None, options if len(options) > 1 else (), None, None)
    given = Answer(decision.id, choice, decision.question_digest, door, "local:1000", pin)
    return await b.kernel.services.approvals.answer(replace(given, **more))


def two_writes() -> tuple[JsonObject, ...]:
    return (
        step("s1", ASK, {"text": "one"}),
        step("s2", ASK, {"text": "two"}),
        step("s3", "test.give", {"value": {"$from": "s2", "path": "/text"}}),
    )


def test_one_waiting_action_is_a_confirmation_that_shows_exactly_what_will_happen(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(
                step("s1", "test.give", {"value": "from afar"}),
                step("s2", ASK, {"text": {"$from": "s1", "path": "/value"}}, why="to keep it"),
            )
            told = await b.execute(plan)
            (decision,) = await waiting(b)
            question = decision.question
            assert (question.interaction_type, question.option_ids) == ("confirmation", ("approve", "deny"))
            assert question.title.endswith(question.title.split("· ")[1]) and decision.run in question.title
            assert question.source_command.split()[0].endswith(decision.run)
            for words in ("from afar", "to keep it", ASK, "requireConfirmationFor", "step s1", "untrusted"):
                assert words in question.context, words
            (action,) = decision.actions
            assert action.shown["arguments"] == {"text": "from afar"}
            assert told["data"]["decisions"][0]["decision"] == decision.id
            assert f"chaoscore decide {decision.id}" in told["nextAction"]

    run(work())


def test_all_waiting_actions_whose_arguments_are_known_are_one_question(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(*two_writes(), step("s4", ASK, {"text": "four"}, after=["s1"]))
            await b.execute(plan)
            (decision,) = await waiting(b)
            assert decision.question.option_ids == ("approve:s1", "approve:s2", "approve:s4", DENY_ALL)
            await answer(b, decision, "approve:s1", "approve:s4")
            done = await b.execute(plan)
            assert b.world.effects() == ["one", "four"]
            states = {s["id"]: s["state"] for s in done["data"]["steps"]}
            assert states == {"s1": "succeeded", "s2": "denied", "s3": "skipped", "s4": "succeeded"}
            assert done["status"] == "PARTIAL"

    run(work())


def test_an_action_whose_arguments_come_later_asks_then_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(
                step("s1", ASK, {"text": "one"}), step("s2", ASK, {"text": {"$from": "s1", "path": "/text"}})
            )
            await b.execute(plan)
            (first,) = await waiting(b)
            again = await b.execute(plan)
            assert [d.id for d in await waiting(b)] == [first.id] and again["status"] == "WAITING_FOR_APPROVAL"
            await answer(b, first, "approve")
            await b.execute(plan)
            (second,) = await waiting(b)
            assert second.id != first.id and second.actions[0].step == "s2"
            await answer(b, second, "approve")
            assert (await b.execute(plan))["status"] == "ACHIEVED"
            assert b.world.effects() == ["one", "one"]

    run(work())


def test_the_first_answer_stands_and_the_second_hears_who_gave_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            (decision,) = await waiting(b)

            async def attempt(option: str, approver: str) -> RunDecision | ChaosError:
                try:
                    return await answer(b, decision, option, approver=approver)
                except ChaosError as error:
                    return error

            results = await asyncio.gather(attempt("approve", "ada"), attempt("deny", "bob"))
            won = [r for r in results if isinstance(r, RunDecision)]
            lost = [r for r in results if isinstance(r, Conflict)]
            assert len(won) == len(lost) == 1
            assert won[0].response is not None and won[0].response.approver in lost[0].message

    run(work())


def test_a_no_is_final_whatever_the_caller_confirms(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(*two_writes())
            await b.execute(plan)
            (decision,) = await waiting(b)
            await answer(b, decision, DENY_ALL)
            done = await b.execute(plan, confirmed=True)
            assert b.world.effects() == []
            assert [s["state"] for s in done["data"]["steps"]] == ["denied", "denied", "skipped"]
            errors = {s["id"]: s["error"]["code"] for s in done["data"]["steps"]}
            assert errors["s1"] == "DENIED_BY_PERSON"

    run(work())


def test_a_no_counts_even_where_the_policy_was_loosened_before_the_run_heard_of_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            (decision,) = await waiting(b)
            await answer(b, decision, DENY)
            write_policy(tmp_path, requireConfirmationFor=[])
            await b.execute(plan)
            assert b.world.effects() == []

    run(work())


def test_a_no_is_for_the_action_whatever_the_policy_says_later(tmp_path: Path) -> None:
    async def work(later: list[Json]) -> None:
        directory = tmp_path / str(len(later))
        directory.mkdir()
        async with bench(directory, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "one"}), step("s2", ASK, {"text": "two"}, after=["s1"]))
            await b.execute(plan)
            (decision,) = await waiting(b)
            await answer(b, decision, "approve:s1", door="web")
            write_policy(directory, requireConfirmationFor=later)
            await b.execute(plan)
            for left in await waiting(b):
                assert [action.step for action in left.actions] == ["s1"], "a person is asked again about their no"
                await answer(b, left, "approve")
            done = await b.execute(plan, confirmed=True)
            assert b.world.effects() == ["one"]
            assert done["data"]["steps"][1]["error"]["code"] == "DENIED_BY_PERSON"

    run(work([]))
    run(work(["test.*"]))


@pytest.mark.parametrize("options", [(), ("nothing",), (DENY_ALL, "approve:s1"), ("approve",)])
def test_an_answer_that_is_none_changes_nothing(tmp_path: Path, options: tuple[str, ...]) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            await b.execute(await b.plan(*two_writes()))
            (decision,) = await waiting(b)
            with pytest.raises(InvalidInput):
                await b.kernel.services.approvals.answer(
                    Answer(decision.id, Choice(None, options), decision.question_digest, "terminal", "ada")
                )
            assert [d.id for d in await waiting(b)] == [decision.id]

    run(work())


def test_an_answer_to_another_version_of_the_question_does_not_count(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            await b.execute(await b.plan(step("s1", ASK, {"text": "x"})))
            (decision,) = await waiting(b)
            with pytest.raises(InvalidInput, match="something else than what was shown"):
                await answer(b, decision, "approve", digest="sha256:" + "0" * 64)

    run(work())


def test_what_changed_since_is_asked_again_and_the_person_sees_the_difference(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            (first,) = await waiting(b)
            await answer(b, first, "approve")
            write_policy(tmp_path, requireConfirmationFor=["test.*"])
            await b.execute(plan)
            assert b.world.effects() == []
            (second,) = await waiting(b)
            (action,) = second.actions
            assert {d.pointer for d in action.changed} >= {"/verdict/rule"}
            assert "changed since it was last shown" in second.question.context
            await answer(b, second, "approve")
            assert (await b.execute(plan))["status"] == "ACHIEVED"
            assert b.world.effects() == ["x"]

    run(work())


def test_a_question_nobody_answers_in_time_counts_as_no(tmp_path: Path) -> None:
    async def work() -> None:
        clock = FakeClock()
        async with bench(tmp_path, clock=clock, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}), step("s2", "test.give", {"value": 1}))
            await b.execute(plan)
            (decision,) = await waiting(b)
            clock.advance(b.kernel.services.limits.decision_seconds + 1)
            assert await waiting(b) == []
            with pytest.raises(Conflict, match="expired"):
                await answer(b, decision, "approve")
            done = await b.execute(plan)
            assert done["data"]["steps"][0]["error"]["code"] == "APPROVAL_EXPIRED"
            assert done["data"]["steps"][1]["state"] == "succeeded"
            assert b.world.effects() == []

    run(work())


def test_a_grant_that_ran_out_is_asked_for_again(tmp_path: Path) -> None:
    async def work() -> None:
        clock = FakeClock()
        async with bench(tmp_path, clock=clock, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            (first,) = await waiting(b)
            await answer(b, first, "approve")
            clock.advance(b.kernel.services.limits.grant_seconds + 1)
            assert (await b.execute(plan))["status"] == "WAITING_FOR_APPROVAL"
            (second,) = await waiting(b)
            assert second.id != first.id
            await answer(b, second, "approve")
            assert (await b.execute(plan))["status"] == "ACHIEVED"

    run(work())


def test_a_cancelled_run_asks_nobody_any_more(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            (decision,) = await waiting(b)
            assert (await b.execute(plan, cancel=True))["status"] == "CANCELLED"
            assert await waiting(b) == []
            with pytest.raises(Conflict):
                await answer(b, decision, "approve")
            assert b.world.effects() == []

    run(work())


def test_in_human_mode_only_listed_doors_count_and_they_ask_for_the_pin(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK], approvalMode="human") as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            told = await b.execute(plan, confirmed=True)
            assert any("confirmed does nothing" in warning for warning in told["warnings"])
            (decision,) = await waiting(b)
            doors: tuple[AnswerDoor, ...] = ("caller", "folder", "bridge", "elicitation")
            for door in doors:
                with pytest.raises(InvalidInput, match="approvalDoors"):
                    await answer(b, decision, "approve", door=door)
            for pin in (None, "000000"):
                with pytest.raises(PinRefused):
                    await answer(b, decision, "approve", pin=pin)
            assert b.world.effects() == [] and len(await waiting(b)) == 1

    run(work())


def test_an_unknown_outcome_is_a_question_and_each_answer_does_what_it_says(tmp_path: Path) -> None:
    async def work(word: str, effects: list[str], status: str) -> None:
        directory = tmp_path / word
        directory.mkdir()
        async with bench(directory) as b:
            plan = await b.plan(step("s1", "test.explode"), step("s2", ASK, {"text": "x"}))
            told = await b.execute(plan)
            assert told["status"] == "NEEDS_ATTENTION"
            (decision,) = await waiting(b)
            assert decision.kind == "outcome" and decision.question.option_ids == ("happened", "retry", "give-up")
            assert "attempt 1" in decision.question.context
            await answer(b, decision, word)
            done = await b.execute(plan)
            assert (b.world.effects(), done["status"]) == (effects, status)
            again = [d.kind for d in await waiting(b)]
            assert again == (["outcome"] if word == "retry" else [])

    run(work("happened", ["exploding", "x"], "ACHIEVED"))
    run(work("retry", ["exploding", "x", "exploding"], "NEEDS_ATTENTION"))
    run(work("give-up", ["exploding", "x"], "FAILED"))


def test_who_may_say_what_became_of_an_action_follows_the_policy(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, approvalMode="human", approvalDoors=["folder"]) as b:
            plan = await b.plan(step("s1", "test.explode"))
            await b.execute(plan)
            (decision,) = await waiting(b)
            with pytest.raises(InvalidInput, match="approvalDoors"):
                await answer(b, decision, "give-up", door="elicitation")
            write_policy(tmp_path, approvalMode="human", approvalDoors=["elicitation"])
            await b.execute(plan)
            (again,) = await waiting(b)
            assert again.id != decision.id and again.actions[0].digest == decision.actions[0].digest
            await answer(b, again, "give-up", door="elicitation")
            assert (await b.execute(plan))["status"] == "FAILED"

    run(work())


def test_a_word_that_was_refused_is_not_in_the_audit(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, approvalMode="human") as b:
            plan = await b.plan(step("s1", "test.explode"))
            await b.execute(plan)
            before = await b.kernel.stores.audit.tail(None, None, 100, None)
            with pytest.raises(InvalidInput, match="human"):
                await b.kernel.services.runs.resolve(ExecuteRequest(plan=plan), "s1", None, "happened", b.context())
            assert await b.kernel.stores.audit.tail(None, None, 100, None) == before

    run(work())


def test_a_policy_that_wants_a_person_by_now_takes_no_word_past_the_question(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, approvalMode="caller") as b:
            plan = await b.plan(step("s1", "test.explode"))
            await b.execute(plan)
            write_policy(tmp_path, approvalMode="human")
            with pytest.raises(InvalidInput, match="human"):
                await b.kernel.services.runs.resolve(ExecuteRequest(plan=plan), "s1", None, "happened", b.context())
            assert len(await waiting(b)) == 1

    run(work())


def test_a_worker_goes_on_as_soon_as_somebody_answered_and_only_with_what_was_asked(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b, b.kernel.going_on():
            plan = await b.plan(step("s1", ASK, {"text": "one"}), step("s2", "test.give", {"value": 1}))
            await b.execute(plan, step_ids=["s1"])
            (decision,) = await waiting(b)
            await answer(b, decision, "approve")
            await until(lambda: b.world.effects() == ["one"])

            async def rested() -> bool:
                seen = await b.call("chaoscore_inspect", what="run", plan_id=plan)
                return seen["data"]["status"] == "running" and not seen["data"]["in_motion"]

            await until(rested)
            seen = await b.call("chaoscore_inspect", what="run", plan_id=plan)
            assert [s["state"] for s in seen["data"]["steps"]] == ["succeeded", "pending"]

    run(work())


def test_an_answer_given_through_another_process_is_heard_by_the_worker(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as server, server.kernel.going_on():
            plan = await server.plan(step("s1", ASK, {"text": "one"}))
            await server.execute(plan)
            async with bench(tmp_path) as other:
                (decision,) = await waiting(other)
                await answer(other, decision, "approve")
                await until(lambda: server.world.effects() == ["one"])

    run(work())


def test_an_answer_that_comes_while_the_run_still_moves_is_not_lost(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "one"}), step("s2", "test.hold_read", {"text": "h"}))
            await b.execute(plan, step_ids=["s1"])
            (decision,) = await waiting(b)
            moving = asyncio.create_task(b.execute(plan))
            await until(lambda: "begin h" in b.world.effects())
            await answer(b, decision, "approve")
            b.world.holds["h"].set()
            done = await moving
            assert done["status"] == "ACHIEVED" and "one" in b.world.effects()

    run(work())


def test_what_was_approved_while_the_run_did_something_else_is_not_asked_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "one"}), step("s2", "test.hold_read", {"text": "h"}))
            await b.execute(plan, step_ids=["s1"])
            (decision,) = await waiting(b)
            moving = asyncio.create_task(b.execute(plan, step_ids=["s2"]))
            await until(lambda: "begin h" in b.world.effects())
            await answer(b, decision, "approve")
            b.world.holds["h"].set()
            await moving
            assert await waiting(b) == [] and "one" not in b.world.effects()
            assert (await b.execute(plan))["status"] == "ACHIEVED" and "one" in b.world.effects()

    run(work())


def test_every_grant_names_its_decision_and_the_audit_tells_who_answered(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            plan = await b.plan(step("s1", ASK, {"text": "x"}))
            await b.execute(plan)
            (decision,) = await waiting(b)
            await answer(b, decision, "approve", approver="ada")
            await b.execute(plan)
            events = [event for _, event in await b.kernel.stores.audit.tail(None, decision.run, 100, None)]
            by_kind = {str(event["kind"]): event for event in events}
            answered = by_kind["decision-answered"]["data"]
            grant = by_kind["grant-given"]["data"]
            assert isinstance(answered, dict) and isinstance(grant, dict)
            assert (answered["approver"], answered["door"]) == ("ada", "terminal")
            assert answered["approved"] == [grant["digest"]] and grant["decision"] == decision.id
            assert (await b.kernel.stores.audit.verify()).fault is None

    run(work())


def test_a_question_of_somebody_else_reads_like_one_that_is_not_there_and_nothing_shows_a_key(tmp_path: Path) -> None:
    key = "sk-proj-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"

    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            await b.execute(await b.plan(step("s1", ASK, {"text": "x"})))
            (decision,) = await waiting(b)
            stranger = replace(b.context(), principal=Principal("anonymous", "anonymous"))
            told: list[str] = []
            for name in (decision.id, decision.id[:-1] + "0", key):
                with pytest.raises(NotFound) as missing:
                    await b.kernel.resources.read(f"chaos://decisions/{name}", stranger)
                told.append(str(missing.value).replace(name, "X"))
            assert told[0] == told[1] and key not in told[2]

    run(work())


def test_a_no_to_one_item_of_a_fan_out_stops_no_other_item_that_was_approved(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path, requireConfirmationFor=[ASK]) as b:
            each: JsonObject = {"$from": "s1", "path": "/value", "max": 60}
            plan = await b.plan(
                step("s1", "test.give", {"value": [f"item {n}" for n in range(60)]}),
                step("s2", ASK, {"text": {"$item": ""}}, for_each=each),
            )
            await b.execute(plan)
            first, second = await waiting(b)
            await answer(b, first, *first.question.option_ids[1:-1])
            await b.execute(plan)
            await answer(b, second, *second.question.option_ids[:-1])
            done = await b.execute(plan)
            assert sorted(b.world.effects()) == sorted(f"item {n}" for n in range(1, 60))
            assert done["data"]["steps"][1]["state"] == "denied"

    run(work())


def test_a_worker_that_is_poked_in_the_moment_it_is_told_to_stop_stops(tmp_path: Path) -> None:
    async def work() -> None:
        async with bench(tmp_path) as b:
            for turns in range(6):
                going = asyncio.create_task(b.kernel.worker.run())
                await asyncio.sleep(0.02)
                b.kernel.worker.poke()
                for _ in range(turns):
                    await asyncio.sleep(0)
                going.cancel()
                done, _ = await asyncio.wait({going}, timeout=1.0)
                assert done, f"it goes on when it is stopped {turns} turns after a poke"

    run(work())
