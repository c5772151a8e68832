"""What a ``DecisionStore`` must do: the first answer stands, it is never lost, and what was denied is never used."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from chaoscore.domain.action import Action, Grant
from chaoscore.domain.approval import APPROVE, DENY, AskedAction, Difference, RunDecision, RunResponse
from chaoscore.domain.asking import Setting, approval_question
from chaoscore.domain.errors import ChaosError, Conflict, NotFound
from chaoscore.domain.json import JsonObject
from chaoscore.domain.records import Changes, Claim, Wish
from chaoscore.testing.contracts.base import LOCAL, NOBODY, OTHER, StoreContract, World, refused, story

DIGEST = "sha256:" + "a" * 64
SECONDS = 600.0


def decision(world: World, name: str = "DEC-1", run: str = "r-1") -> RunDecision:
    now = world.clock.now()
    shown: JsonObject = {
        "capability": "test.noop",
        "arguments": {"text": "größer", "n": 2**70, "deep": [None, {"": []}]},
    }
    changed = (
        Difference("/arguments/n", 1, 2**70),
        Difference("/x", None, 1, "before"),
        Difference("", 1, None, "after"),
    )
    actions = (AskedAction(APPROVE, "s1", None, DIGEST, shown, changed),)
    question = approval_question(Setting(name, run, "do it", "caller", {}, now, now + SECONDS), actions)
    return RunDecision(
        name, run, "approval", question, question.digest(), actions, "human", ("web",), "/root", now, now + SECONDS
    )


def answered(
    world: World, asked: RunDecision, option: str = APPROVE, by: str = "ada"
) -> tuple[RunDecision, list[Grant]]:
    now = world.clock.now()
    done = asked.answered(RunResponse((option,), "because", "web", by, now))
    grants = [
        Grant(f"{asked.id}/{a.option}", asked.run, a.digest, "web", by, now, now + SECONDS, decision=asked.id)
        for a in done.approved
    ]
    return done, grants


async def asking(world: World, name: str = "DEC-1") -> tuple[Claim, RunDecision]:
    claim, asked = await world.claimed_run(), decision(world, name)
    waiting = Action("s1", None, "test.noop", "waiting-for-decision", digest=DIGEST)
    changes = Changes((waiting,), asked=(asked,), status="waiting-for-decision", wish=Wish(("s1",), True))
    await world.stores.runs.release(claim, changes, (world.event("asked"),))
    return claim, asked


class DecisionStoreContract(StoreContract):
    @story
    async def test_a_question_comes_back_as_it_was_asked(self, world: World) -> None:
        _, asked = await asking(world)
        await world.reopen()
        assert await world.stores.decisions.find_decision(asked.id) == asked
        run = await world.loaded()
        assert run.decisions == (asked,) and run.wish == Wish(("s1",), True)
        assert await world.stores.decisions.find_decision("DEC-none") is None

    @story
    async def test_what_waits_is_listed_briefly_behind_a_place_without_what_ran_out_of_time(self, world: World) -> None:
        claim = await world.claimed_run()
        asked = [decision(world, f"DEC-{number}") for number in range(3)]
        late = replace(decision(world, "DEC-late"), expires_at=world.clock.now())
        changes = Changes((), asked=(asked[0], late, *asked[1:]), status="waiting-for-decision")
        await world.stores.runs.release(claim, changes, ())
        now = world.clock.now()
        page, total, faults = await world.stores.decisions.waiting_after(0, 2, now)
        assert [brief.id for brief in page] == ["DEC-0", "DEC-1"] and (total, faults) == (3, ())
        rest, _, _ = await world.stores.decisions.waiting_after(page[-1].place, 2, now)
        assert [brief.id for brief in rest] == ["DEC-2"]
        first = page[0]
        assert (first.title, first.digest) == (asked[0].question.title, asked[0].question_digest)
        assert (first.capabilities, first.actions, first.mode) == (("test.noop",), 1, "human")
        assert first.summary.startswith("text: größer")

    @story
    async def test_an_answer_comes_with_its_grants_and_events_or_not_at_all(self, world: World) -> None:
        _, asked = await asking(world)
        done, grants = answered(world, asked)
        with refused(Conflict):
            await world.stores.decisions.answer(done, [*grants, *grants], (world.event("twice"),))
        assert await world.stores.decisions.find_decision(asked.id) == asked
        await world.stores.decisions.answer(done, grants, (world.event("answered"),))
        await world.reopen()
        assert await world.stores.decisions.find_decision(asked.id) == done
        assert (await world.loaded()).grants == tuple(grants)
        assert (await world.kinds())[-1] == "answered"

    @story
    async def test_of_many_answers_at_once_one_stands_and_the_others_hear_who_gave_it(self, world: World) -> None:
        _, asked = await asking(world)
        there = await world.another()

        async def attempt(number: int) -> ChaosError | None:
            done, grants = answered(world, asked, APPROVE if number % 2 else DENY, f"person-{number}")
            try:
                await (world.stores, there)[number % 2].decisions.answer(done, grants, ())
            except ChaosError as error:
                return error
            return None

        outcomes = await asyncio.gather(*(attempt(number) for number in range(6)))
        lost = [error for error in outcomes if error is not None]
        assert len(lost) == 5 and all(isinstance(error, Conflict) for error in lost)
        stands = await world.stores.decisions.find_decision(asked.id)
        assert stands is not None and stands.response is not None
        assert all(stands.response.approver in error.message for error in lost)

    @story
    async def test_what_was_denied_cannot_be_used_whoever_granted_it(self, world: World) -> None:
        _, asked = await asking(world)
        claim = await world.claim()
        now = world.clock.now()
        grant = Grant("g-caller", "r-1", DIGEST, "caller", "local:1000", now, now + SECONDS)
        await world.stores.runs.commit(claim, Changes(grants=(grant,)), ())
        done, grants = answered(world, asked, DENY)
        await world.stores.decisions.answer(done, grants, ())
        started = Action("s1", None, "test.noop", "running", digest=DIGEST, grant=grant.id)
        with refused(Conflict):
            await world.stores.runs.commit(claim, Changes((started,), used_grants=(grant.id,)), ())
        with refused(Conflict):
            await world.stores.runs.commit(claim, Changes(grants=(replace(grant, id="g-late"),)), ())
        run = await world.loaded()
        assert (run.actions[0].state, len(run.grants)) == ("waiting-for-decision", 1)

    @story
    async def test_nothing_starts_while_its_question_is_answered_or_runs_out_of_time(self, world: World) -> None:
        _, asked = await asking(world)
        claim = await world.claim()
        free = Action("s1", None, "test.noop", "running", digest="sha256:" + "f" * 64)
        start = Changes((free,), unanswered=(asked.id,))
        done, grants = answered(world, asked, DENY)
        await world.stores.decisions.answer(done, grants, ())
        with refused(Conflict):
            await world.stores.runs.commit(claim, start, (world.event("begun"),))
        later = decision(world, "DEC-2")
        await world.stores.runs.commit(claim, Changes(asked=(later,)), ())
        await world.stores.runs.commit(claim, Changes((replace(free, step="s2"),), unanswered=(later.id,)), ())
        world.clock.advance(SECONDS)
        with refused(Conflict):
            await world.stores.runs.commit(claim, replace(start, unanswered=(later.id,)), (world.event("begun"),))
        states = {action.step: action.state for action in (await world.loaded()).actions}
        assert states == {"s1": "waiting-for-decision", "s2": "running"} and "begun" not in await world.kinds()

    @story
    async def test_a_question_that_was_answered_cannot_be_taken_back(self, world: World) -> None:
        _, asked = await asking(world)
        done, grants = answered(world, asked)
        await world.stores.decisions.answer(done, grants, ())
        claim = await world.claim()
        with refused(Conflict):
            await world.stores.runs.commit(claim, Changes(ended=((asked.id, "superseded"),), status="failed"), ())
        run = await world.loaded()
        assert (run.decisions[0].state, run.status) == ("answered", "waiting-for-decision")

    @story
    async def test_a_question_that_ended_or_ran_out_of_time_takes_no_answer(self, world: World) -> None:
        _, asked = await asking(world)
        done, grants = answered(world, asked)
        world.clock.advance(SECONDS + 1)
        late = replace(done, response=RunResponse((APPROVE,), None, "web", "ada", world.clock.now()))
        with refused(Conflict):
            await world.stores.decisions.answer(late, grants, ())
        claim = await world.claim()
        await world.stores.runs.release(claim, Changes(ended=((asked.id, "expired"),)), ())
        with refused(Conflict):
            await world.stores.decisions.answer(done, grants, ())
        with refused(Conflict):
            await world.stores.runs.record_outside("r-1", Changes(grants=tuple(grants)), ())
        with refused(NotFound):
            await world.stores.decisions.answer(replace(done, id="DEC-none"), [], ())
        assert (await world.loaded()).grants == ()

    @story
    async def test_a_run_is_ready_from_the_answer_until_it_has_heard_it(self, world: World) -> None:
        _, asked = await asking(world)
        decisions, now = world.stores.decisions, world.clock.now()
        assert await decisions.ready_runs(now, 10) == ()
        done, grants = answered(world, asked)
        await decisions.answer(done, grants, ())
        assert await decisions.ready_runs(now, 10) == ("r-1",)
        claim = await world.claim()
        assert await decisions.ready_runs(now, 10) == (), "somebody drives it"
        await world.stores.runs.release(claim, Changes(applied=(asked.id,)), ())
        assert await decisions.ready_runs(now, 10) == ()

    @story
    async def test_a_run_is_ready_when_time_runs_out_and_when_its_driver_is_gone(self, world: World) -> None:
        _, asked = await asking(world)
        world.clock.advance(SECONDS)
        assert await world.stores.decisions.ready_runs(world.clock.now(), 10) == ("r-1",)
        claim = await world.claim()
        changes = Changes(ended=((asked.id, "expired"),), status="running")
        await world.stores.runs.commit(claim, changes, ())
        assert await world.stores.decisions.ready_runs(world.clock.now(), 10) == ()
        world.clock.advance(10_000)
        assert await world.stores.decisions.ready_runs(world.clock.now(), 10) == ("r-1",)
        claim = await world.claim()
        await world.stores.runs.release(claim, Changes(status="completed"), ())
        assert await world.stores.decisions.ready_runs(world.clock.now(), 10) == ()

    @story
    async def test_lists_go_from_the_oldest_to_the_newest_and_show_each_owner_only_what_is_theirs(
        self, world: World
    ) -> None:
        for number, owner in enumerate((LOCAL, OTHER, NOBODY, LOCAL)):
            await world.add_plan(f"p-{number}", owner)
            await world.open_run(f"r-{number}", f"p-{number}", owner)
            asked = (decision(world, f"DEC-{number}", f"r-{number}"),)
            await world.stores.runs.record_outside(f"r-{number}", Changes(asked=asked), ())
        decisions = world.stores.decisions

        async def names(limit: int = 10, **more: object) -> list[str]:
            found, cursor = await decisions.list_decisions(("waiting",), limit, None, **more)  # type: ignore[arg-type]
            while cursor is not None:
                page, cursor = await decisions.list_decisions(("waiting",), limit, cursor, **more)  # type: ignore[arg-type]
                found = (*found, *page)
            return [one.id for one in found]

        for limit in (1, 3, 10):
            assert await names(limit) == ["DEC-0", "DEC-1", "DEC-2", "DEC-3"]
            assert await names(limit, newest_first=True) == ["DEC-3", "DEC-2", "DEC-1", "DEC-0"]
            assert await names(limit, principal=LOCAL) == ["DEC-0", "DEC-3"]
        assert await names(principal=NOBODY) == []
        assert await decisions.count_waiting() == 4
        assert [ref.id for ref in await decisions.waiting_refs()] == await names()
        await world.stores.runs.record_outside("r-1", Changes(ended=(("DEC-1", "cancelled"),)), ())
        assert await names() == ["DEC-0", "DEC-2", "DEC-3"]
