"""What a crash, a peer or a hand left half done is finished by the next call, and nothing a human did is undone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.errors import IllegalTransition
from chaoscore.domain.interaction import states
from chaoscore.domain.interaction.names import ID_CHARS_MAX, instant_ms, instant_text, is_id, slug
from chaoscore.domain.interaction.session import Session
from chaoscore.domain.json import Json
from tests.interaction.conftest import Place
from tests.interaction.steps import answer, ask, begin, faults, prepared


def edit(place: Place, relative: str, **changes: Json) -> None:
    path = place.root / relative
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def locks_of(place: Place) -> list[dict[str, Json]]:
    found: list[dict[str, Json]] = json.loads((place.root / "locks.json").read_text())["locks"]
    return found


def test_a_lost_lock_of_a_waiting_decision_is_made_again(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        edit(place, "locks.json", locks=[])
        await service.active_decision()
        (lock,) = locks_of(place)
        assert (lock["changeId"], lock["blockingDecisionIds"], lock["state"]) == ("c1", [decision], "active")
        assert faults(place.root) == []

    place.tell(story)


def test_a_lock_that_a_human_released_is_not_made_again(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask")
        (lock,) = locks_of(place)
        edit(place, "locks.json", locks=[{**lock, "state": "released"}])
        await service.active_decision()
        assert (await service.begin(BeginRequest("chaos:other", "c1"))).status == "READY"
        assert [lock["state"] for lock in locks_of(place)] == ["released"]

    place.tell(story)


def test_a_session_that_waits_for_nothing_any_more_may_go_on(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        edit(place, f"decisions/{decision}/decision.json", state="expired")
        found = await service.resume_candidates()
        assert found.status == "FOUND"
        assert (locks_of(place)[0]["state"], locks_of(place)[0]["reason"]) == ("active", "ready-to-resume")
        assert (await service.resume("RUN-1")).ok

    place.tell(story)


def test_the_lock_of_a_run_that_is_over_is_released(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        edit(place, "sessions/RUN-1.json", state="completed")
        assert (await service.begin(BeginRequest("chaos:other", "c1"))).status == "READY"
        assert locks_of(place)[0]["state"] == "released"

    place.tell(story)


def test_decisions_of_a_cancelled_run_are_cancelled(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        edit(place, "sessions/RUN-1.json", state="cancelled")
        assert (await service.active_decision()).status == "NO_ACTIVE_DECISION"
        assert (await service.decision_response(decision)).status == "CANCELLED"

    place.tell(story)


def test_looking_writes_nothing_when_nothing_is_wrong(place: Place) -> None:
    touched: list[str] = []

    class Watching(FileOps):
        def rename(self, source: str, target: str) -> None:
            touched.append(target)
            super().rename(source, target)

    place.bench.ops = Watching()

    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask", "answer")
        touched.clear()
        for envelope in (
            await service.active_decision(),
            await service.decision_response(decision),
            await service.resume_candidates(),
            await service.resume_capsule("RUN-1"),
            await service.list_locks(),
            await service.list_sessions(),
        ):
            assert envelope.ok
        assert touched == [] and not (place.root / ".runtime.lock").exists()

    place.tell(story)


def test_lists_and_resources_show_what_has_expired_and_never_write_it(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await service.begin(BeginRequest("chaos:run", "c1", command_run_id="RUN-1", ttl_seconds=60))
        await ask(service)
        place.clock.seconds += 61
        before = {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()}
        assert (await service.list_sessions()).data["pending"] == []
        locks = (await service.list_locks()).data["locks"]
        assert isinstance(locks, list) and locks[0]["state"] == "released"
        body = await service.read_resource("chaos://interactions/active")
        assert body is not None and body["pendingDecisionIds"] == []
        assert {path: path.read_bytes() for path in place.root.rglob("*") if path.is_file()} == before

    place.tell(story)


BUDGET = {"begin": 3, "ask": 5, "answer": 7, "resume": 3, "consume": 4, "complete": 4}


def test_no_operation_syncs_more_often_than_the_original(place: Place) -> None:
    class Counting(FileOps):
        count = 0

        def fsync(self, fd: int) -> None:
            self.count += 1
            super().fsync(fd)

        def fdatasync(self, fd: int) -> None:
            self.count += 1
            super().fdatasync(fd)

    ops = Counting()
    place.bench.ops = ops

    async def story(service: InteractionService) -> None:
        await begin(service, "RUN-0", "c0")
        await ask(service, "RUN-0")  # folders and lock table are there from now on
        counts = {}
        decision = ""
        for step in BUDGET:
            ops.count = 0
            if step == "begin":
                await begin(service)
            elif step == "ask":
                decision = str((await ask(service)).data["decisionId"])
            elif step == "answer":
                await answer(service, decision)
            elif step == "resume":
                await service.resume("RUN-1")
            elif step == "consume":
                await service.mark_consumed(decision)
            else:
                await service.complete(EndRequest("RUN-1"))
            counts[step] = ops.count
        assert all(0 < counts[step] <= BUDGET[step] for step in BUDGET), counts

    place.tell(story)


@given(st.sampled_from(sorted(states.SESSION)), st.sampled_from(sorted(states.SESSION)))
def test_a_session_moves_only_as_its_table_says(before: str, after: str) -> None:
    session = Session("R", "c", None, "unknown", before, "t", "t")
    if before == after or after in states.SESSION[before]:
        assert session.becoming(after, "now").state == after
    else:
        with pytest.raises(IllegalTransition):
            session.becoming(after, "now")
        assert session.state == before


def test_nothing_leaves_a_terminal_state_and_everything_can_get_there() -> None:
    for table, terminal in ((states.SESSION, states.SESSION_TERMINAL), (states.DECISION, states.DECISION_TERMINAL)):
        assert {state for state, after in table.items() if not after} == terminal
        for state in table:
            reached, todo = set[str](), [state]
            while todo:
                at = todo.pop()
                reached.add(at)
                todo += [after for after in table[at] if after not in reached]
            assert reached & terminal, state


@given(st.text(max_size=60), st.integers(1, 60))
def test_a_slug_is_always_part_of_an_id(value: str, most: int) -> None:
    made = slug(value, most)
    assert 1 <= len(made) <= most and is_id(f"RUN-{made}") and len(f"RUN-{made}") <= ID_CHARS_MAX


@given(st.integers(0, 253_402_300_799_999))
def test_an_instant_reads_back_to_the_millisecond(moment: int) -> None:
    assert instant_ms(instant_text(moment)) == moment


@pytest.mark.parametrize("value", ["2026-99-99T00:00:00Z", "2026-01-01", "tomorrow", "2026-01-01T00:00:00", ""])
def test_what_is_not_an_instant_never_expires(value: str) -> None:
    assert instant_ms(value) is None


def test_an_active_pointer_that_a_dead_writer_left_behind_is_right_after_the_next_look(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        decision = await prepared(service, "begin", "ask")
        edit(place, "active.json", activeDecisionId=None, pendingDecisionIds=[], state="ready")
        assert (await service.active_decision()).status == "ACTIVE_DECISION"
        assert json.loads((place.root / "active.json").read_text())["pendingDecisionIds"] == [decision]

    place.tell(story)


def test_a_capsule_that_stayed_behind_follows_its_session_at_the_next_look(place: Place) -> None:
    async def story(service: InteractionService) -> None:
        await prepared(service, "begin", "ask", "answer")
        edit(place, "capsules/RUN-1.json", state="waiting-for-decision", answeredDecisionIds=[])
        await service.active_decision()
        assert json.loads((place.root / "capsules/RUN-1.json").read_text())["state"] == "ready-to-resume"
        edit(place, "sessions/RUN-1.json", state="completed")
        shown = (await service.resume_capsule("RUN-1")).data["capsule"]
        assert isinstance(shown, dict) and shown["state"] == "completed"

    place.tell(story)
