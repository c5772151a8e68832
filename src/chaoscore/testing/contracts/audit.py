"""What an ``AuditStore`` must do: keep events in order for good, show them to whom they concern, and tell when anybody
tampered with them. How tampering is done depends on the adapter; its own tests do that.
"""

from __future__ import annotations

import asyncio

from chaoscore.domain.json import Json
from chaoscore.domain.principal import Principal
from chaoscore.testing.contracts.base import LOCAL, NOBODY, OTHER, StoreContract, World, story


class AuditStoreContract(StoreContract):
    @story
    async def test_an_event_reads_back_as_it_was_recorded(self, world: World) -> None:
        event = world.event("verdict-given", run="r-1", reasons=["größer", 2**70, None], half="\ud800")
        await world.stores.audit.append((event,))
        await world.reopen()
        ((seq, shown),) = await world.stores.audit.tail(None, None, 10, None)
        assert seq == 1
        assert shown == event.to_json()

    @story
    async def test_events_are_shown_newest_first_and_page_by_page(self, world: World) -> None:
        for number in range(7):
            await world.stores.audit.append((world.event(f"e{number}"),))
        first = await world.stores.audit.tail(None, None, 3, None)
        assert [(seq, event["kind"]) for seq, event in first] == [(7, "e6"), (6, "e5"), (5, "e4")]
        second = await world.stores.audit.tail(None, None, 10, first[-1][0])
        assert [seq for seq, _ in second] == [4, 3, 2, 1]
        assert await world.stores.audit.tail(None, None, 10, 1) == ()

    @story
    async def test_a_principal_sees_its_own_events_and_the_operator_all(self, world: World) -> None:
        audit = world.stores.audit
        await audit.append((world.event("mine", LOCAL, "r-1"), world.event("theirs", OTHER, "r-2")))
        await audit.append((world.event("mine too", LOCAL), world.event("theirs in mine", OTHER, "r-1")))

        async def kinds(principal: Principal | None, run: str | None) -> list[Json]:
            return [event["kind"] for _, event in await audit.tail(principal, run, 10, None)]

        assert await kinds(LOCAL, None) == ["mine too", "mine"]
        assert await kinds(LOCAL, "r-1") == ["mine"]
        assert await kinds(LOCAL, "r-2") == []
        assert await kinds(None, "r-1") == ["theirs in mine", "mine"]
        assert len(await kinds(None, None)) == 4

    @story
    async def test_an_anonymous_caller_sees_nothing_but_the_events_of_one_run(self, world: World) -> None:
        audit = world.stores.audit
        await audit.append((world.event("mine", NOBODY, "r-1"), world.event("another's", NOBODY, "r-2")))
        assert await audit.tail(NOBODY, None, 10, None) == ()
        assert [event["kind"] for _, event in await audit.tail(NOBODY, "r-1", 10, None)] == ["mine"]

    @story
    async def test_an_untouched_chain_is_whole(self, world: World) -> None:
        empty = await world.stores.audit.verify()
        assert (empty.events, empty.fault) == (0, None)
        for number in range(5):
            await world.stores.audit.append((world.event(f"e{number}"), world.event("and")))
        report = await world.stores.audit.verify()
        assert (report.events, report.head.seq, report.fault) == (10, 10, None)
        await world.reopen()
        assert await world.stores.audit.verify() == report

    @story
    async def test_processes_that_write_at_once_write_one_chain(self, world: World) -> None:
        there = await world.another()
        await asyncio.gather(
            *(store.audit.append((world.event("e"),)) for _ in range(20) for store in (world.stores, there))
        )
        for stores in (world.stores, there):
            report = await stores.audit.verify()
            assert (report.events, report.fault) == (40, None)

    @story
    async def test_nothing_recorded_is_nothing_written(self, world: World) -> None:
        await world.stores.audit.append(())
        assert (await world.stores.audit.verify()).events == 0

    @story
    async def test_equal_values_are_named_alike_and_different_ones_are_not(self, world: World) -> None:
        there = await world.another()
        name = world.stores.audit.redact({"a": 1, "b": [2]})
        assert there.audit.redact({"b": [2], "a": 1})["digest"] == name["digest"]
        assert world.stores.audit.redact({"a": 1, "b": [3]})["digest"] != name["digest"]
        assert world.stores.audit.redact(2**53)["digest"] != world.stores.audit.redact(2**53 + 1)["digest"]

    @story
    async def test_a_redacted_value_shows_its_beginning_and_no_secret(self, world: World) -> None:
        key = "sk-" + "a1B2" * 10
        value: Json = {
            "url": "https://example.org/x",
            "authorization": "Basic Zm9vOmJhcg==",
            "note": f"the key is {key} ok",
            "plan": world.ids.credential("plan"),
            "text": "words and words " * 100,
            "password": "hunter2",
        }
        shown = world.stores.audit.redact(value)
        text = str(shown)
        for secret in (key, "Zm9vOmJhcg", "hunter2", str(world.ids.credential("plan"))[:25]):
            assert secret not in text
        assert "https://example.org/x" in text
        assert len(text) < 400
        odd_values: list[Json] = [None, True, 3, 2.5, 2**2_000, "", [], {}, "\ud800", [[[[[1]]]]], list(range(1_000))]
        for odd in odd_values:
            assert len(str(world.stores.audit.redact(odd)["preview"])) <= 200
