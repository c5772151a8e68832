"""What a ``RunStore`` must do: one run per plan, one owner per run, everything or nothing per transaction."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from chaoscore.domain.action import Action, ActionError
from chaoscore.domain.errors import Busy, Conflict, InvalidInput, LeaseLost, NotFound
from chaoscore.domain.evaluation import Evaluation, StepReason
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.policy.model import Verdict
from chaoscore.domain.records import Changes
from chaoscore.testing.contracts.base import (
    LEASE_SECONDS,
    LOCAL,
    NOBODY,
    OTHER,
    StoreContract,
    World,
    refused,
    story,
)

JUDGED = Evaluation("partial", {"succeeded": 1, "failed": 1}, 3, 1, (StepReason("s2", "failed", "größer"),))

ODD: tuple[Json, ...] = ({}, [], "", 0, False, 0.5)


class RunStoreContract(StoreContract):
    # -- one run per plan ------------------------------------------------------------------------------------

    @story
    async def test_opening_a_plan_again_joins_its_unfinished_run(self, world: World) -> None:
        await world.add_plan()
        first, made = await world.stores.runs.open_run(world.run("r-1"), "run_1", False, (world.event("opened"),))
        again, made_again = await world.stores.runs.open_run(world.run("r-2"), "run_2", False, (world.event("opened"),))
        assert (made, made_again) == (True, False)
        assert first == again and again.label == "r-1"
        assert await world.stores.runs.load_run("r-2") is None
        assert await world.kinds() == ["plan-stored", "opened"]

    @story
    async def test_two_processes_that_open_at_once_get_one_run(self, world: World) -> None:
        await world.add_plan()
        there = await world.another()
        stores = [world.stores, there] * 4
        answers = await asyncio.gather(
            *(
                store.runs.open_run(world.run(f"r-{number}"), f"run_{number}", False, ())
                for number, store in enumerate(stores)
            )
        )
        assert len({run.label for run, _ in answers}) == 1
        assert sum(made for _, made in answers) == 1

    @story
    async def test_a_rerun_waits_for_the_end_of_the_run_before(self, world: World) -> None:
        claim = await world.claimed_run()
        with refused(Conflict):
            await world.stores.runs.open_run(world.run("r-2"), "run_2", True, ())
        await world.stores.runs.release(claim, Changes(status="completed"), ())
        finished, made = await world.stores.runs.open_run(world.run("r-3"), "run_3", False, ())
        assert (finished.label, finished.status, made) == ("r-1", "completed", False)
        fresh, made = await world.stores.runs.open_run(world.run("r-2"), "run_2", True, ())
        assert (fresh.label, fresh.status, made) == ("r-2", "running", True)
        newest = await world.stores.runs.run_of_plan("p-1")
        assert newest is not None and newest.label == "r-2"

    @story
    async def test_a_run_is_found_by_whoever_owns_it_and_nobody_else(self, world: World) -> None:
        await world.add_plan()
        mine = await world.open_run("r-1", "p-1", LOCAL)
        await world.add_plan("p-2", NOBODY)
        nameless = await world.open_run("r-2", "p-2", NOBODY)
        runs = world.stores.runs
        found, theirs = await runs.find_run(mine, LOCAL), await runs.find_run(nameless, NOBODY)
        assert found is not None and (found.label, found.handle) == ("r-1", mine)
        assert theirs is not None and (theirs.label, theirs.handle) == ("r-2", None)
        assert await runs.find_run(mine, OTHER) is None
        assert await runs.find_run(mine, NOBODY) is None
        assert await runs.find_run("run_missing", LOCAL) is None
        assert await runs.load_run("r-missing") is None
        assert await runs.run_of_plan("p-missing") is None

    # -- one owner per run -----------------------------------------------------------------------------------

    @story
    async def test_a_live_owner_keeps_others_away(self, world: World) -> None:
        await world.claimed_run()
        other = world.processes.another(200)
        with refused(Busy) as refusal:
            await world.claim(processes=other)
        assert refusal.error.details["run"] == "r-1"
        world.clock.advance(LEASE_SECONDS - 1)
        with refused(Busy):
            await world.claim(processes=other)

    @story
    async def test_a_dead_owner_is_replaced_at_once(self, world: World) -> None:
        claim = await world.claimed_run()
        world.processes.bury(world.processes.current())
        taken = await world.claim(processes=world.processes.another(200))
        assert taken.fence > claim.fence
        with refused(LeaseLost):
            await world.stores.runs.commit(claim, Changes(status="failed"), ())

    @story
    async def test_an_owner_of_whom_nothing_is_certain_is_replaced_when_its_lease_is_over(self, world: World) -> None:
        await world.add_plan()
        await world.open_run()
        far = world.processes.elsewhere()
        claim = await world.stores.runs.claim("r-1", far, world.clock.now(), LEASE_SECONDS)
        with refused(Busy):
            await world.claim()
        world.clock.advance(LEASE_SECONDS)
        taken = await world.claim()
        assert taken.fence > claim.fence

    @story
    async def test_the_same_process_claims_again_and_its_earlier_claim_is_over(self, world: World) -> None:
        first = await world.claimed_run()
        second = await world.claim()
        assert second.fence > first.fence
        with refused(LeaseLost):
            await world.stores.runs.commit(first, Changes(), (world.event("late"),))
        await world.stores.runs.commit(second, Changes(), (world.event("good"),))
        assert (await world.kinds())[2:] == ["good"]

    @story
    async def test_nothing_is_written_once_the_fence_has_moved_on(self, world: World) -> None:
        late = await world.claimed_run()
        world.clock.advance(LEASE_SECONDS + 1)
        await world.claim(processes=world.processes.another(200))
        before = await world.loaded()
        runs, changes = world.stores.runs, Changes(actions=(world.action(),), status="failed")
        with refused(LeaseLost):
            await runs.commit(late, changes, (world.event("late"),))
        with refused(LeaseLost):
            await runs.release(late, changes, (world.event("late"),))
        with refused(LeaseLost):
            await runs.renew(late, world.clock.now() + 1_000)
        assert await world.loaded() == before
        assert "late" not in await world.kinds()

    @story
    async def test_a_late_owner_that_nobody_replaced_may_go_on(self, world: World) -> None:
        claim = await world.claimed_run()
        world.clock.advance(LEASE_SECONDS * 10)
        await world.stores.runs.commit(claim, Changes(actions=(world.action(),)), ())
        assert len((await world.loaded()).actions) == 1

    @story
    async def test_renewing_keeps_others_away_for_longer(self, world: World) -> None:
        claim = await world.claimed_run()
        world.clock.advance(LEASE_SECONDS - 1)
        await world.stores.runs.renew(claim, world.clock.now() + LEASE_SECONDS)
        world.clock.advance(LEASE_SECONDS - 1)
        with refused(Busy):
            await world.claim(processes=world.processes.another(200))

    @story
    async def test_a_released_run_is_free_and_its_last_owner_writes_no_more(self, world: World) -> None:
        claim = await world.claimed_run()
        await world.stores.runs.release(claim, Changes(status="waiting-for-decision"), ())
        run = await world.loaded()
        assert (run.process, run.lease_until, run.status) == (None, None, "waiting-for-decision")
        with refused(LeaseLost):
            await world.stores.runs.commit(claim, Changes(status="running"), ())
        await world.claim(processes=world.processes.another(200))

    @story
    async def test_only_one_of_many_gets_a_free_run(self, world: World) -> None:
        await world.add_plan()
        await world.open_run()
        there = await world.another()
        answers = await asyncio.gather(
            *(
                store.runs.claim("r-1", world.processes.another(300 + i).current(), world.clock.now(), LEASE_SECONDS)
                for i, store in enumerate([world.stores, there] * 4)
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(answer, Busy) for answer in answers) == 7

    @story
    async def test_a_run_that_is_not_there_cannot_be_claimed(self, world: World) -> None:
        with refused(NotFound):
            await world.claim("r-missing")

    # -- everything or nothing -------------------------------------------------------------------------------

    @story
    async def test_everything_of_an_action_reads_back_exactly(self, world: World) -> None:
        claim = await world.claimed_run()
        verdict = Verdict(
            "REQUIRE_APPROVAL",
            "requireConfirmationFor",
            ("ask", "größer"),
            "human",
            ("web",),
            {"roots": ["/a"]},
            ("/url",),
        )
        plain = Action("s1", None, "test.noop")
        whole = Action(
            "s2",
            3,
            "fs.write_text",
            "outcome-unknown",
            4,
            {"path": "/x", "n": [2**70, -0.0, 1e300, "\ud800", None]},
            "sha256:x",
            verdict,
            {"null": None, "text": "line\u2028"},
            ActionError("TIMED_OUT", "no result"),
            "g-9",
            1.25,
            2.5,
            {"event": "result", "output": [None]},
        )
        outputs = [Action(f"o{n}", n, "test.noop", output=value) for n, value in enumerate(ODD)]
        await world.stores.runs.commit(claim, Changes(actions=(plain, whole, *outputs)), ())
        await world.reopen()
        assert {a.key: a for a in (await world.loaded()).actions} == {a.key: a for a in (plain, whole, *outputs)}

    @story
    async def test_status_evaluation_and_times_read_back(self, world: World) -> None:
        claim = await world.claimed_run()
        opened = await world.loaded()
        world.clock.advance(5)
        await world.stores.runs.release(claim, Changes(status="failed", evaluation=JUDGED), ())
        run = await world.loaded()
        assert (run.status, run.evaluation) == ("failed", JUDGED)
        assert (run.created_at, run.updated_at) == (opened.created_at, world.clock.now())

    @story
    async def test_a_later_state_of_an_action_takes_the_place_of_the_earlier_one(self, world: World) -> None:
        claim = await world.claimed_run()
        started = world.action(started_at=world.clock.now())
        ended = replace(started, state="succeeded", output={"ok": True}, finished_at=world.clock.now())
        await world.stores.runs.commit(claim, Changes(actions=(started, world.action("s2", 0))), ())
        await world.stores.runs.commit(claim, Changes(actions=(ended,)), ())
        assert sorted((await world.loaded()).actions, key=lambda a: a.step) == [ended, world.action("s2", 0)]

    @story
    async def test_changes_and_their_events_are_one_transaction(self, world: World) -> None:
        claim = await world.claimed_run()
        await world.stores.runs.commit(claim, Changes(grants=(world.grant(),)), (world.event("granted"),))
        changes = Changes(actions=(world.action(),), used_grants=("g-1", "g-missing"), status="failed")
        before = await world.loaded()
        with refused(Conflict):
            await world.stores.runs.commit(claim, changes, (world.event("never"),))
        assert await world.loaded() == before
        assert "never" not in await world.kinds()

    @story
    async def test_a_refused_change_takes_nothing_away_from_those_beside_it(self, world: World) -> None:
        claim = await world.claimed_run()
        runs = world.stores.runs
        answers = await asyncio.gather(
            *(
                runs.commit(
                    claim,
                    Changes(actions=(world.action(f"s{n}"),), used_grants=("g-missing",) if n % 3 == 0 else ()),
                    (world.event(f"e{n}"),),
                )
                for n in range(12)
            ),
            return_exceptions=True,
        )
        good = {f"s{n}" for n in range(12) if n % 3}
        assert [isinstance(answer, Conflict) for answer in answers] == [n % 3 == 0 for n in range(12)]
        assert {action.step for action in (await world.loaded()).actions} == good
        assert [kind for kind in await world.kinds() if kind[0] == "e"] == [f"e{n}" for n in range(12) if n % 3]

    # -- grants ----------------------------------------------------------------------------------------------

    @story
    async def test_a_grant_is_used_once(self, world: World) -> None:
        claim = await world.claimed_run()
        await world.stores.runs.commit(claim, Changes(grants=(world.grant(),)), ())
        await world.stores.runs.commit(claim, Changes(actions=(world.action(),), used_grants=("g-1",)), ())
        used = (await world.loaded()).grants
        assert [(grant.id, grant.used_at) for grant in used] == [("g-1", world.clock.now())]
        with refused(Conflict):
            await world.stores.runs.commit(claim, Changes(actions=(world.action("s2"),), used_grants=("g-1",)), ())
        assert [action.step for action in (await world.loaded()).actions] == ["s1"]

    @story
    async def test_an_expired_grant_cannot_be_used(self, world: World) -> None:
        claim = await world.claimed_run()
        await world.stores.runs.commit(claim, Changes(grants=(world.grant(seconds=10),)), ())
        world.clock.advance(10)
        with refused(Conflict):
            await world.stores.runs.commit(claim, Changes(used_grants=("g-1",)), ())

    @story
    async def test_a_grant_is_good_for_its_own_run_only(self, world: World) -> None:
        claim = await world.claimed_run()
        await world.add_plan("p-2")
        await world.open_run("r-2", "p-2")
        other = await world.claim("r-2")
        await world.stores.runs.commit(other, Changes(grants=(world.grant("g-2", "r-2"),)), ())
        with refused(Conflict):
            await world.stores.runs.commit(claim, Changes(used_grants=("g-2",)), ())
        assert (await world.loaded("r-2")).grants == (world.grant("g-2", "r-2"),)

    @story
    async def test_a_grant_is_given_once(self, world: World) -> None:
        claim = await world.claimed_run()
        await world.stores.runs.commit(claim, Changes(grants=(world.grant(),)), ())
        with refused(Conflict):
            await world.stores.runs.commit(claim, Changes(grants=(world.grant(),)), ())

    # -- changes by others -----------------------------------------------------------------------------------

    @story
    async def test_a_grant_may_be_added_to_a_run_that_somebody_drives(self, world: World) -> None:
        claim = await world.claimed_run()
        await world.stores.runs.record_outside("r-1", Changes(grants=(world.grant(),)), (world.event("granted"),))
        assert (await world.loaded()).grants == (world.grant(),)
        await world.stores.runs.commit(claim, Changes(used_grants=("g-1",)), ())

    @story
    async def test_what_a_live_owner_writes_is_not_changed_from_outside(self, world: World) -> None:
        await world.claimed_run()
        before = await world.loaded()
        for changes in (
            Changes(actions=(world.action(),)),
            Changes(status="cancelled"),
            Changes(evaluation=JUDGED),
            Changes(grants=(world.grant(),), used_grants=("g-1",)),
        ):
            with refused(Busy):
                await world.stores.runs.record_outside("r-1", changes, (world.event("never"),))
        assert await world.loaded() == before
        assert "never" not in await world.kinds()

    @story
    async def test_a_run_that_nobody_drives_is_changed_from_outside(self, world: World) -> None:
        claim = await world.claimed_run()
        await world.stores.runs.release(claim, Changes(status="waiting-for-decision"), ())
        await world.stores.runs.record_outside("r-1", Changes(status="cancelled"), (world.event("cancelled"),))
        assert (await world.loaded()).status == "cancelled"

    @story
    async def test_a_change_from_outside_fences_off_an_owner_that_is_dead_or_late(self, world: World) -> None:
        late = await world.claimed_run()
        world.clock.advance(LEASE_SECONDS + 1)
        await world.stores.runs.record_outside("r-1", Changes(status="cancelled"), ())
        with refused(LeaseLost):
            await world.stores.runs.commit(late, Changes(status="completed"), ())
        assert (await world.loaded()).status == "cancelled"

    @story
    async def test_a_run_that_is_not_there_is_not_changed_from_outside(self, world: World) -> None:
        with refused(NotFound):
            await world.stores.runs.record_outside("r-missing", Changes(status="cancelled"), ())

    @story
    async def test_late_evidence_is_kept_beside_the_action_and_changes_no_state(self, world: World) -> None:
        claim = await world.claimed_run()
        unknown = world.action(state="outcome-unknown", attempt=2)
        await world.stores.runs.commit(claim, Changes(actions=(unknown,)), ())
        evidence: JsonObject = {"event": "result", "output": {"id": 7}}
        await world.stores.runs.add_evidence("r-1", "s1", None, 2, evidence, (world.event("late-result-kept"),))
        assert (await world.loaded()).actions == (replace(unknown, evidence=evidence),)
        # the owner, which has not heard of it, writes the action again
        await world.stores.runs.commit(claim, Changes(actions=(replace(unknown, grant="g-1"),)), ())
        assert (await world.loaded()).actions == (replace(unknown, grant="g-1", evidence=evidence),)
        # a new attempt is another matter
        retried = replace(unknown, state="pending", attempt=3)
        await world.stores.runs.commit(claim, Changes(actions=(retried,)), ())
        assert (await world.loaded()).actions == (retried,)
        assert (await world.kinds())[-1] == "late-result-kept"

    @story
    async def test_evidence_for_a_run_that_is_not_there_is_refused(self, world: World) -> None:
        with refused(NotFound):
            await world.stores.runs.add_evidence("r-missing", "s1", None, 1, {}, (world.event("never"),))
        assert await world.kinds() == []

    # -- lists -----------------------------------------------------------------------------------------------

    @story
    async def test_runs_are_listed_newest_first_page_by_page(self, world: World) -> None:
        for number in range(7):
            await world.add_plan(f"p-{number}")
            await world.open_run(f"r-{number}", f"p-{number}")
        await world.add_plan("p-other", OTHER)
        await world.open_run("r-other", "p-other", OTHER)
        seen: list[str] = []
        cursor: str | None = None
        pages = 0
        while True:
            page, cursor = await world.stores.runs.list_runs(LOCAL, 3, cursor)
            seen += [run.label for run in page]
            pages += 1
            if cursor is None:
                break
        assert seen == [f"r-{number}" for number in range(6, -1, -1)]
        assert pages == 3
        newest = (await world.stores.runs.list_runs(LOCAL, 1, None))[0][0]
        assert (newest.plan, newest.objective, newest.status) == ("p-6", "do it", "running")
        assert newest.handle is not None and newest.plan_handle is not None

    @story
    async def test_an_anonymous_caller_has_no_list(self, world: World) -> None:
        await world.add_plan("p-1", NOBODY)
        await world.open_run("r-1", "p-1", NOBODY)
        assert await world.stores.runs.list_runs(NOBODY, 10, None) == ((), None)

    @story
    async def test_the_operator_lists_everybodys_runs(self, world: World) -> None:
        for label, owner in (("r-1", LOCAL), ("r-2", OTHER), ("r-3", NOBODY)):
            await world.add_plan(f"p-{label}", owner)
            await world.open_run(label, f"p-{label}", owner)
        first, cursor = await world.stores.runs.list_runs(None, 2, None)
        rest, end = await world.stores.runs.list_runs(None, 2, cursor)
        assert [run.label for run in (*first, *rest)] == ["r-3", "r-2", "r-1"] and end is None
        with refused(InvalidInput):
            await world.stores.runs.list_runs(LOCAL, 2, cursor)

    @story
    async def test_a_cursor_that_is_not_of_this_list_is_refused(self, world: World) -> None:
        for number in range(3):
            await world.add_plan(f"p-{number}")
            await world.open_run(f"r-{number}", f"p-{number}")
        _, cursor = await world.stores.runs.list_runs(LOCAL, 1, None)
        assert cursor is not None
        for wrong in ("", "x", "ä", cursor[:-2], "A" + cursor, cursor + "A", "9" * 1_000):
            with refused(InvalidInput) as refusal:
                await world.stores.runs.list_runs(LOCAL, 1, wrong)
            assert refusal.error.details["key"] == "cursor"
        with refused(InvalidInput):
            await world.stores.runs.list_runs(OTHER, 1, cursor)
