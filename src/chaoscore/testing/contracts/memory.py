"""What a ``MemoryStore`` must do: keep, version, expire, forget, and find whatever a substring search would find."""

from __future__ import annotations

import asyncio
import json

from chaoscore.domain.errors import Conflict, InvalidInput
from chaoscore.domain.json import Json
from chaoscore.domain.memory import Memory, NewMemory, RecallQuery
from chaoscore.testing.contracts.base import StoreContract, World, refused, story

HERE = "shared"
SAMPLES: dict[str, Json] = {
    "deploy/staging": {"command": "make deploy ENV=staging", "owner": "Ада Лавлейс"},
    "部署流程": "先在测试环境部署，再部署到生产环境",
    "東京メモ": {"場所": "東京タワー", "予定": ["朝食", "会議"]},
    "회의록": "서울 회의는 화요일에 열린다",
    "quotes": 'she said "hello\\world" and left\nfor good',
    "symbols": "100% of a_b* costs €5 (net) AND OR NOT NEAR(x) -y col:z ^w {}",
    "straße": "Die GRÖSSE der Straße",
    "numbers": [3.25, 1_234_567, True, None],
    "wide": "ｆｕｌｌ　ｗｉｄｔｈ",
    "accent": "cafe\u0301 de\u0301ja\u0300 vu",
}


class MemoryStoreContract(StoreContract):
    # -- keeping ---------------------------------------------------------------------------------------------

    @story
    async def test_a_value_reads_back_exactly(self, world: World) -> None:
        now = world.clock.now()
        value: Json = {"n": [2**70, -0.0, 1e-300, None, False], "ключ": "值\u2028", "": {}}
        memory = NewMemory("a key / with: anything", value, ("b", "a"), 60.0, None, "procedural", "import", "trusted")
        written = await world.stores.memory.put(HERE, memory, now, ())
        assert written == Memory(
            memory.key, value, ("b", "a"), 1, now, now, now + 60.0, "procedural", "import", "trusted"
        )
        await world.reopen()
        assert await _get(world, memory.key) == written

    @story
    async def test_every_write_of_a_key_is_a_new_version_and_the_earlier_ones_are_kept(self, world: World) -> None:
        began = world.clock.now()
        for number in range(1, 5):
            written = await _put(world, "k", number, tags=(f"t{number}",))
            assert (written.version, written.created_at, written.updated_at) == (number, began, world.clock.now())
            world.clock.advance(1)
        earlier = await world.stores.memory.history(HERE, "k", 10)
        assert [(memory.version, memory.value, memory.tags) for memory in earlier] == [
            (3, 3, ("t3",)),
            (2, 2, ("t2",)),
            (1, 1, ("t1",)),
        ]
        assert [memory.version for memory in await world.stores.memory.history(HERE, "k", 1)] == [3]
        assert await world.stores.memory.history(HERE, "missing", 10) == ()

    @story
    async def test_a_write_that_expects_another_version_is_refused_and_shows_the_current_one(
        self, world: World
    ) -> None:
        await _put(world, "k", "one", expect_version=0)
        with refused(Conflict) as refusal:
            await _put(world, "k", "two", expect_version=0)
        current = refusal.error.details["current"]
        assert isinstance(current, dict) and (current["value"], current["version"]) == ("one", 1)
        await _put(world, "k", "two", expect_version=1)
        with refused(Conflict):
            await _put(world, "k", "three", expect_version=1)
        with refused(Conflict) as refusal:
            await _put(world, "new", "x", expect_version=3)
        assert refusal.error.details["current"] is None
        assert await _values(world, "k") == ["two"]

    @story
    async def test_of_many_that_expect_one_version_one_wins(self, world: World) -> None:
        await _put(world, "counter", 0)
        there = await world.another()

        async def count(store_number: int) -> int:
            store = (world.stores, there)[store_number % 2].memory
            conflicts = 0
            while True:
                current = (await store.recall(HERE, RecallQuery(key="counter"), world.clock.now())).memories[0]
                assert isinstance(current.value, int)
                new = NewMemory("counter", current.value + 1, expect_version=current.version)
                try:
                    await store.put(HERE, new, world.clock.now(), ())
                except Conflict:
                    conflicts += 1
                    continue
                return conflicts

        await asyncio.gather(*(count(number) for number in range(16)))
        assert await _values(world, "counter") == [16]

    @story
    async def test_namespaces_do_not_see_each_other(self, world: World) -> None:
        memory = world.stores.memory
        await memory.put("shared", NewMemory("k", "apple here"), world.clock.now(), ())
        await memory.put("oauth:you", NewMemory("k", "apple there", ("t",)), world.clock.now(), ())
        for query in (RecallQuery(key="k"), RecallQuery(text="apple"), RecallQuery(text="pple"), RecallQuery()):
            assert [m.value for m in (await memory.recall("shared", query, world.clock.now())).memories] == [
                "apple here"
            ]
        assert (await memory.recall("shared", RecallQuery(tags=("t",)), world.clock.now())).memories == ()
        assert await memory.forget("shared", "k", world.clock.now(), ())
        assert (await memory.recall("oauth:you", RecallQuery(key="k"), world.clock.now())).memories != ()

    @story
    async def test_a_forgotten_key_is_gone_with_its_history(self, world: World) -> None:
        await _put(world, "k", "first secret")
        await _put(world, "k", "second secret")
        assert await world.stores.memory.forget(HERE, "k", world.clock.now(), (world.event("memory-forgotten"),))
        assert not await world.stores.memory.forget(HERE, "k", world.clock.now(), (world.event("memory-forgotten"),))
        assert await world.stores.memory.history(HERE, "k", 10) == ()
        for query in (RecallQuery(key="k"), RecallQuery(text="secret"), RecallQuery()):
            assert (await world.stores.memory.recall(HERE, query, world.clock.now())).memories == ()
        assert (await _put(world, "k", "anew", expect_version=0)).version == 1
        assert (await world.kinds()).count("memory-forgotten") == 1

    @story
    async def test_a_write_and_its_event_are_stored_together(self, world: World) -> None:
        await _put(world, "k", 1)
        with refused(Conflict):
            await world.stores.memory.put(
                HERE, NewMemory("k", 2, expect_version=9), world.clock.now(), (world.event("never"),)
            )
        assert await world.kinds() == ["memory-written"]

    @story
    async def test_what_breaks_a_bound_is_refused(self, world: World) -> None:
        for memory in (
            NewMemory("", 1),
            NewMemory("k" * 201, 1),
            NewMemory("\ud800", 1),
            NewMemory("k", "x" * 300_000),
            NewMemory("k", 1, ("",)),
            NewMemory("k", 1, ttl_seconds=-1),
        ):
            with refused(InvalidInput):
                await world.stores.memory.put(HERE, memory, world.clock.now(), ())
        assert (await world.stores.memory.recall(HERE, RecallQuery(), world.clock.now())).memories == ()

    # -- expiring --------------------------------------------------------------------------------------------

    @story
    async def test_an_expired_memory_is_as_good_as_gone(self, world: World) -> None:
        await _put(world, "k", "short lived", tags=("t",))
        await _put(world, "k", "short lived too", tags=("t",), ttl_seconds=10)
        world.clock.advance(9.5)
        assert await _values(world, "k") == ["short lived too"]
        world.clock.advance(0.5)
        for query in (RecallQuery(key="k"), RecallQuery(text="lived"), RecallQuery(tags=("t",)), RecallQuery()):
            assert (await world.stores.memory.recall(HERE, query, world.clock.now())).memories == ()
        assert await world.stores.memory.history(HERE, "k", 10) == ()
        assert not await world.stores.memory.forget(HERE, "k", world.clock.now(), ())
        written = await _put(world, "k", "anew", expect_version=0)
        assert (written.version, written.created_at) == (1, world.clock.now())

    @story
    async def test_sweeping_deletes_expired_memories_a_few_at_a_time(self, world: World) -> None:
        for number in range(5):
            await _put(world, f"short{number}", "x", ttl_seconds=10)
        await _put(world, "long", "x", ttl_seconds=1_000)
        await _put(world, "kept", "x")
        memory = world.stores.memory
        assert await memory.sweep(world.clock.now(), 10) == 0
        world.clock.advance(10)
        assert [await memory.sweep(world.clock.now(), 2) for _ in range(4)] == [2, 2, 1, 0]
        assert [m.key for m in (await memory.recall(HERE, RecallQuery(), world.clock.now())).memories] == [
            "kept",
            "long",
        ]

    # -- finding ---------------------------------------------------------------------------------------------

    @story
    async def test_without_a_question_everything_is_listed_newest_first(self, world: World) -> None:
        for number in range(7):
            await _put(world, f"k{number}", number)
        await _put(world, "k2", "again")
        assert await _pages(world, RecallQuery(limit=3)) == [["k2", "k6", "k5"], ["k4", "k3", "k1"], ["k0"]]

    @story
    async def test_a_memory_has_all_the_tags_that_are_asked_for(self, world: World) -> None:
        await _put(world, "a", 1, tags=("red", "round"))
        await _put(world, "b", 2, tags=("red",))
        await _put(world, "c", 3, tags=("Red", "round"))
        assert await _pages(world, RecallQuery(tags=("red",))) == [["b", "a"]]
        assert await _pages(world, RecallQuery(tags=("red", "round"))) == [["a"]]
        assert await _pages(world, RecallQuery(tags=("ed",))) == [[]]
        assert await _pages(world, RecallQuery(text="1", tags=("red",))) == [["a"]]
        assert await _pages(world, RecallQuery(key="b", tags=("round",))) == [[]]

    @story
    async def test_every_substring_of_key_and_value_is_found(self, world: World) -> None:
        for key, value in SAMPLES.items():
            await _put(world, key, value)
        for key, value in SAMPLES.items():
            for text in [key, *_texts(value)]:
                for length in (1, 2, 3, 4, 7):
                    for start in range(0, max(1, len(text) - length + 1), 3):
                        piece = text[start : start + length]
                        if piece.strip():
                            assert key in await _found(world, piece), (key, piece)

    @story
    async def test_case_does_not_matter(self, world: World) -> None:
        await _put(world, "k", "Deploy to STAGING, größer Straße")
        for text in ("deploy TO staging", "EPLOY", "GRÖSSER", "strasse", "STRASSE"):
            assert await _found(world, text) == ["k"], text

    @story
    async def test_a_two_character_chinese_word_is_found(self, world: World) -> None:
        await _put(world, "一", "先在测试环境部署")
        await _put(world, "二", "今天没有安排")
        assert await _found(world, "部署") == ["一"]
        assert await _found(world, "安排") == ["二"]
        assert await _found(world, "部安") == []

    @story
    async def test_what_a_user_writes_is_text_and_never_a_query(self, world: World) -> None:
        await _put(world, "k", "plain words")
        await _put(world, "odd", 'the "quoted" a* OR b NOT c NEAR(d, 2) (e) {f} : ^g + - \\ \' ; -- %_')
        assert "odd" in await _found(world, '"')
        for text in ('"quoted"', "a*", "OR b NOT", "NEAR(d, 2)", "(e) {f}", ":", "^g +", "' ; --", "%_", "\\ '"):
            assert await _found(world, text) == ["odd"], text
        for text in ("pl*", "p_ain", "pl%", "value:plain*"):
            assert await _found(world, text) == ([] if "value" not in text else ["k"]), text
        for text in ('"' * 50, "((((", "NOT", "a AND", "*", "\x00", "\ud800", "x" * 5_000, " \t "):
            await _found(world, text)

    @story
    async def test_whole_words_come_before_pieces_of_words(self, world: World) -> None:
        await _put(world, "art", "something else")
        await _put(world, "one", "the art of it")
        for number in range(5):
            await _put(world, f"n{number}", "start of the party")
        assert (await _found(world, "art"))[:2] == ["art", "one"]

    @story
    async def test_the_text_as_written_comes_before_its_words_apart_and_those_before_some_of_them(
        self, world: World
    ) -> None:
        await _put(world, "phrase", "we use blue green deployment")
        await _put(world, "apart", "green lawns under a blue sky, deployment later")
        await _put(world, "some", "a green door")
        await _put(world, "none", "nothing of it")
        assert await _found(world, "blue green deployment") == ["phrase", "apart", "some"]

    @story
    async def test_a_sentence_finds_what_its_telling_words_are_about(self, world: World) -> None:
        await _put(world, "staging", "the database password rotates on Mondays")
        await _put(world, "lunch", "what is for the team to eat")
        found = await _found(world, "what is the rotation of the database password for our team?")
        assert found[0] == "staging"

    @story
    async def test_pages_of_a_search_show_every_match_once(self, world: World) -> None:
        for number in range(23):
            await _put(world, f"key{number:02}", f"common word {'extra ' * (number % 4)}")
        pages = await _pages(world, RecallQuery(text="common", limit=5))
        assert [len(page) for page in pages] == [5, 5, 5, 5, 3]
        assert sorted(key for page in pages for key in page) == [f"key{number:02}" for number in range(23)]

    @story
    async def test_a_memory_written_meanwhile_does_not_shift_the_next_page(self, world: World) -> None:
        for number in range(9):
            await _put(world, f"k{number}", "common")
        first = await world.stores.memory.recall(HERE, RecallQuery(text="common", limit=4), world.clock.now())
        await _put(world, "newest", "common")
        rest = await _pages(world, RecallQuery(text="common", limit=4, cursor=first.cursor))
        seen = [memory.key for memory in first.memories] + [key for page in rest for key in page]
        assert sorted(set(seen) - {"newest"}) == [f"k{number}" for number in range(9)]
        assert len(seen) == len(set(seen))

    @story
    async def test_what_was_replaced_is_not_found_by_its_old_text(self, world: World) -> None:
        await _put(world, "k", "the old zebra")
        await _put(world, "k", "the new camel")
        assert await _found(world, "zebra") == []
        assert await _found(world, "camel") == ["k"]

    @story
    async def test_a_cursor_that_does_not_continue_this_question_is_refused(self, world: World) -> None:
        for number in range(4):
            await _put(world, f"k{number}", "word", tags=("t",))
        for query in (RecallQuery(limit=1), RecallQuery(text="word", limit=1), RecallQuery(tags=("t",), limit=1)):
            page = await world.stores.memory.recall(HERE, query, world.clock.now())
            assert page.cursor is not None
            for wrong in ("x", page.cursor[:-3], page.cursor + "A", "{}", "9" * 900):
                with refused(InvalidInput) as refusal:
                    await _recall(world, query, wrong)
                assert refusal.error.details["key"] == "cursor"
            with refused(InvalidInput):
                await _recall(world, RecallQuery(text="another", limit=1), page.cursor)

    @story
    async def test_another_process_finds_it_at_once(self, world: World) -> None:
        there = await world.another()
        await _put(world, "k", "written here")
        found = await there.memory.recall(HERE, RecallQuery(text="written"), world.clock.now())
        assert [memory.key for memory in found.memories] == ["k"]


async def _put(world: World, key: str, value: Json, tags: tuple[str, ...] = (), **more: object) -> Memory:
    memory = NewMemory(key, value, tags, **more)  # type: ignore[arg-type]
    return await world.stores.memory.put(HERE, memory, world.clock.now(), (world.event("memory-written"),))


async def _get(world: World, key: str) -> Memory:
    (memory,) = (await world.stores.memory.recall(HERE, RecallQuery(key=key), world.clock.now())).memories
    return memory


async def _values(world: World, key: str) -> list[Json]:
    found = await world.stores.memory.recall(HERE, RecallQuery(key=key), world.clock.now())
    return [memory.value for memory in found.memories]


async def _found(world: World, text: str) -> list[str]:
    return [key for page in await _pages(world, RecallQuery(text=text, limit=100)) for key in page]


async def _recall(world: World, query: RecallQuery, cursor: str) -> None:
    continued = RecallQuery(query.key, query.text, query.tags, query.limit, cursor)
    await world.stores.memory.recall(HERE, continued, world.clock.now())


async def _pages(world: World, query: RecallQuery) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor = query.cursor
    while True:
        asked = RecallQuery(query.key, query.text, query.tags, query.limit, cursor)
        page = await world.stores.memory.recall(HERE, asked, world.clock.now())
        pages.append([memory.key for memory in page.memories])
        cursor = page.cursor
        if cursor is None:
            return pages
        assert len(pages) < 100, "the list never ends"


def _texts(value: Json) -> list[str]:
    """Every string in a value, and numbers as written."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, member in value.items() for text in (key, *_texts(member))]
    if isinstance(value, list):
        return [text for element in value for text in _texts(element)]
    return [json.dumps(value)]
