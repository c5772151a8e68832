"""What a ``PlanStore`` must do."""

from __future__ import annotations

from dataclasses import replace

from chaoscore.domain.errors import Conflict
from chaoscore.domain.evaluation import Check
from chaoscore.domain.plan import Author, ForEach, Reference, Step
from chaoscore.testing.contracts.base import LOCAL, NOBODY, OTHER, StoreContract, World, refused, story

EVERYTHING = (
    Step("s1", "fs.list", {"path": "/x", "glob": "*.md"}, why="to see what is there"),
    Step(
        "s2",
        "fs.read_text",
        {"path": {"$item": "/path"}, "deep": [1, 2.5, None, True, {"größe": 2**70, "half": "\ud800"}]},
        after=("s1",),
        expect=(Check("/text", "exists"), Check("/lines", "length", 3, every=True), Check("/n", "in", [1, "a"])),
        on_error="continue",
        for_each=ForEach(Reference("s1", "/entries"), 100),
    ),
)


class PlanStoreContract(StoreContract):
    @story
    async def test_a_plan_reads_back_exactly_as_it_was_stored(self, world: World) -> None:
        author = Author("provider", "openai", "some-model", 1_234)
        plan = replace(
            world.plan(steps=EVERYTHING),
            author=author,
            intent={"goal": "目标", "parts": []},
            change_id="c1",
            predecessor="p-0",
            recalled=True,
            version=3,
        )
        await world.stores.plans.add_plan(plan, "plan_secret", None, ())
        await world.reopen()
        found = await world.stores.plans.find_plan("plan_secret", LOCAL)
        assert found is not None and found.plan == plan
        assert await world.stores.plans.plan_by_label(plan.label) == found

    @story
    async def test_a_missing_and_a_foreign_plan_answer_alike(self, world: World) -> None:
        credential = await world.add_plan()
        assert await world.stores.plans.find_plan(credential, OTHER) is None
        assert await world.stores.plans.find_plan(credential, NOBODY) is None
        assert await world.stores.plans.find_plan("plan_missing", LOCAL) is None
        assert await world.stores.plans.plan_by_label("p-missing") is None

    @story
    async def test_the_id_of_a_named_owner_is_kept_and_that_of_an_anonymous_one_is_not(self, world: World) -> None:
        named = await world.add_plan("p-1", LOCAL)
        nameless = await world.add_plan("p-2", NOBODY)
        mine = await world.stores.plans.find_plan(named, LOCAL)
        theirs = await world.stores.plans.find_plan(nameless, NOBODY)
        assert mine is not None and mine.handle == named
        assert theirs is not None and theirs.handle is None
        for file, content in (await world.bytes_at_rest()).items():
            assert nameless.encode() not in content, file

    @story
    async def test_an_anonymous_plan_is_found_only_through_its_connection_until_it_has_a_run(
        self, world: World
    ) -> None:
        credential = await world.add_plan("p-1", NOBODY, connection="session-1")
        plans = world.stores.plans
        assert await plans.find_plan(credential, NOBODY) is None
        assert await plans.find_plan(credential, NOBODY, "session-2") is None
        assert await plans.find_plan(credential, NOBODY, "session-1") is not None
        await world.open_run("r-1", "p-1", NOBODY)
        assert await plans.find_plan(credential, NOBODY) is not None
        assert await plans.find_plan(credential, NOBODY, "session-2") is not None

    @story
    async def test_an_anonymous_plan_without_a_binding_is_found_from_everywhere(self, world: World) -> None:
        credential = await world.add_plan("p-1", NOBODY)
        assert await world.stores.plans.find_plan(credential, NOBODY, "session-2") is not None

    @story
    async def test_a_label_names_one_plan_for_ever(self, world: World) -> None:
        await world.add_plan("p-1")
        with refused(Conflict):
            await world.add_plan("p-1", OTHER)
        assert await world.kinds() == ["plan-stored"]

    @story
    async def test_a_plan_is_found_by_another_process_of_the_same_user(self, world: World) -> None:
        there = await world.another()
        credential = await world.add_plan()
        assert await there.plans.find_plan(credential, LOCAL) is not None

    @story
    async def test_a_plan_and_its_event_are_stored_together(self, world: World) -> None:
        await world.add_plan("p-1")
        await world.add_plan("p-2")
        assert await world.kinds() == ["plan-stored", "plan-stored"]
