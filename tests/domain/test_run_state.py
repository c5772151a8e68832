"""The order of a run: what may start, what waits, what is skipped, and how the whole is judged."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.domain.action import FINISHED, Action, ActionError, Event
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.evaluation import Check
from chaoscore.domain.json import Json
from chaoscore.domain.limits import Limits
from chaoscore.domain.plan import Author, ForEach, Plan, Reference, Step
from chaoscore.domain.run import (
    DENIED_BY_PERSON,
    DENIED_BY_POLICY,
    Key,
    Propose,
    RunState,
    Settle,
    recover,
)

OPEN_SCHEMA: dict[str, Json] = {"type": "object"}
READ = Capability(
    "test.read", "reads", "low", OPEN_SCHEMA, OPEN_SCHEMA, Annotations(True, True, False, False), builtin=True
)
WRITE = Capability("test.write", "writes", "high", OPEN_SCHEMA, OPEN_SCHEMA, builtin=True)
CAPABILITIES = {"test.read": READ, "test.write": WRITE}


def read(step: str, **more: object) -> Step:
    return Step(step, "test.read", {}, **more)  # type: ignore[arg-type]


def write(step: str, **more: object) -> Step:
    return Step(step, "test.write", {}, **more)  # type: ignore[arg-type]


def run_of(*steps: Step, limits: Limits | None = None, actions: tuple[Action, ...] = ()) -> RunState:
    plan = Plan("p-1", "test", tuple(steps), Author("caller"), "", 0.0, "local:1")
    return RunState(plan, CAPABILITIES, limits or Limits(), actions)


def done(step: Step, output: Json = None, item: int | None = None) -> Action:
    return Action(step.id, item, step.capability, "succeeded", output=output)


def failed(step: Step, item: int | None = None, code: str = "X") -> Action:
    return Action(step.id, item, step.capability, "failed", error=ActionError(code, "it failed"))


def starts(state: RunState, busy: frozenset[Key] = frozenset(), asked: frozenset[Key] = frozenset()) -> list[Key]:
    moves = state.moves(busy=busy, asked=asked)
    return [(move.step.id, move.item) for move in moves if isinstance(move, Propose)]


def skips(state: RunState) -> list[Key]:
    moves = state.moves(busy=frozenset(), asked=frozenset())
    return [(move.step.id, move.item) for move in moves if isinstance(move, Settle) and move.event == "skip"]


def test_reads_that_do_not_depend_on_each_other_start_together() -> None:
    assert starts(run_of(read("s1"), read("s2"), read("s3"))) == [("s1", None), ("s2", None), ("s3", None)]


def test_actions_that_are_not_reads_start_one_at_a_time_in_plan_order() -> None:
    first, second = write("s1"), write("s2")
    state = run_of(first, second)
    assert starts(state) == [("s1", None)]
    assert starts(state, busy=frozenset({("s1", None)})) == []
    state.put(done(first))
    assert starts(state) == [("s2", None)]


def test_a_write_waits_for_an_earlier_write_whose_reads_have_not_ended() -> None:
    source = read("s1")
    state = run_of(source, write("s2", after=("s1",)), write("s3"))
    assert starts(state) == [("s1", None)]
    state.put(done(source))
    assert starts(state) == [("s2", None)]


def test_what_does_not_depend_on_a_waiting_action_goes_on() -> None:
    first, second, third = write("s1"), write("s2", after=("s1",)), write("s3")
    state = run_of(first, second, third)
    state.put(Action("s1", None, "test.write", "waiting-for-decision"))
    assert starts(state, asked=frozenset({("s1", None)})) == [("s3", None)]
    state.put(done(third))
    assert state.status() == "waiting-for-decision"
    assert state.evaluate().outcome == "blocked"


def test_a_waiting_action_is_put_to_the_gate_again_in_a_new_pass() -> None:
    state = run_of(write("s1"))
    state.put(Action("s1", None, "test.write", "waiting-for-decision"))
    assert starts(state) == [("s1", None)]


def test_a_failed_step_stops_the_run_unless_it_says_continue() -> None:
    first, second = read("s1"), read("s2")
    state = run_of(first, second)
    state.put(failed(first))
    assert starts(state) == []
    assert skips(state) == [("s2", None)]
    tolerant = read("s1", on_error="continue")
    state = run_of(tolerant, second, read("s3", after=("s1",)))
    state.put(failed(tolerant))
    assert starts(state) == [("s2", None)]
    assert skips(state) == [("s3", None)]


def test_a_denial_by_policy_stops_the_run_and_a_denial_by_a_person_only_its_dependants() -> None:
    first, second, third = write("s1"), read("s2"), read("s3", after=("s1",))
    for code, expected in ((DENIED_BY_POLICY, []), (DENIED_BY_PERSON, [("s2", None)])):
        state = run_of(first, second, third)
        state.put(Action("s1", None, "test.write", "denied", error=ActionError(code, "no")))
        assert starts(state) == expected


def test_an_unknown_outcome_stops_its_dependants_and_lets_siblings_finish() -> None:
    first, second, third = write("s1"), write("s2"), read("s3", after=("s1",))
    state = run_of(first, second, third)
    state.put(Action("s1", None, "test.write", "outcome-unknown"))
    assert starts(state) == [("s2", None)]
    state.put(done(second))
    assert starts(state) == []
    assert state.status() == "needs-attention"


def test_a_failed_check_fails_the_step_and_its_dependants_never_run() -> None:
    first = read("s1", expect=(Check("/n", "eq", 1),))
    state = run_of(first, read("s2", after=("s1",)))
    state.put(done(first, {"n": 2}))
    assert state.view("s1").state == "failed"
    assert skips(state) == [("s2", None)]
    assert state.evaluate().checks_failed == 1


def each(source: str, path: str = "", most: int = 100, **more: object) -> Step:
    fan = ForEach(Reference(source, path), most)
    return Step("s2", "test.read", {"v": {"$item": ""}}, for_each=fan, **more)  # type: ignore[arg-type]


def test_a_fan_out_runs_once_per_item_and_gives_results_in_order() -> None:
    source, fan = read("s1"), each("s1", "/entries")
    state = run_of(source, fan)
    state.put(done(source, {"entries": ["a", "b"]}))
    moves = state.moves(busy=frozenset(), asked=frozenset())
    assert [m.arguments for m in moves if isinstance(m, Propose)] == [{"v": "a"}, {"v": "b"}]
    state.put(done(fan, "B", 1))
    assert state.view("s2").state == "running"
    state.put(done(fan, "A", 0))
    assert (state.view("s2").state, state.view("s2").output) == ("succeeded", ["A", "B"])


def test_a_fan_out_over_nothing_succeeds_with_nothing() -> None:
    source, fan = read("s1"), each("s1")
    state = run_of(source, fan)
    state.put(done(source, []))
    assert state.view("s2").output == []
    assert state.status() == "completed"


def test_more_items_than_allowed_fail_the_step_before_any_runs() -> None:
    source, fan = read("s1"), each("s1", most=2)
    state = run_of(source, fan)
    state.put(done(source, [1, 2, 3]))
    (move,) = state.moves(busy=frozenset(), asked=frozenset())
    assert isinstance(move, Settle)
    assert (move.event, move.item, move.error.code) == ("fail", None, "TOO_MANY_ITEMS")


def test_a_failed_item_fails_the_step_unless_it_says_continue() -> None:
    source = read("s1")
    strict, lenient = each("s1"), each("s1", on_error="continue")
    state = run_of(source, strict)
    state.put(done(source, [1, 2]))
    state.put(failed(strict, 0))
    assert skips(state) == [("s2", 1)]
    state.put(Action("s2", 1, "test.read", "skipped"))
    assert state.view("s2").state == "failed"
    state = run_of(source, lenient)
    state.put(done(source, [1, 2]))
    state.put(failed(lenient, 0))
    assert starts(state) == [("s2", 1)]
    state.put(done(lenient, "two", 1))
    assert (state.view("s2").state, state.view("s2").output) == ("succeeded", [None, "two"])


def test_a_reference_that_leads_nowhere_fails_before_anything_runs() -> None:
    source = read("s1")
    reader = Step("s2", "test.write", {"v": {"$from": "s1", "path": "/missing"}})
    state = run_of(source, reader)
    state.put(done(source, {"here": 1}))
    (move,) = state.moves(busy=frozenset(), asked=frozenset())
    assert isinstance(move, Settle)
    assert (move.event, move.error.code) == ("fail", "REFERENCE_MISSING")


def test_only_the_named_steps_advance() -> None:
    state = run_of(read("s1"), read("s2"))
    moves = state.moves(busy=frozenset(), asked=frozenset(), scope=frozenset({"s2"}))
    assert [(m.step.id) for m in moves] == ["s2"]


def test_what_confirmed_speaks_of_are_the_actions_whose_arguments_are_known() -> None:
    later = Step("s3", "test.write", {"v": {"$from": "s1", "path": ""}})
    source = read("s1")
    state = run_of(source, write("s2", after=("s1",)), later)
    assert [p.step.id for p in state.known()] == ["s1", "s2"]
    state.put(done(source, 1))
    assert [p.step.id for p in state.known()] == ["s2", "s3"]


def test_after_a_crash_a_read_is_tried_again_and_anything_else_is_unknown() -> None:
    running = Action("s1", None, "test.read", "running", attempt=1, started_at=1.0)
    again = recover(running, READ, 2.0)
    assert (again.state, again.attempt) == ("pending", 2)
    assert recover(replace(running, capability="test.write"), WRITE, 2.0).state == "outcome-unknown"
    assert recover(running, None, 2.0).state == "outcome-unknown"


def test_a_cancelled_run_settles_what_has_not_started_and_nothing_else() -> None:
    state = run_of(write("s1"), write("s2"), write("s3"))
    state.put(Action("s1", None, "test.write", "outcome-unknown"))
    state.put(Action("s2", None, "test.write", "waiting-for-decision"))
    assert [(s.step.id, s.event) for s in state.cancellations()] == [("s2", "cancel"), ("s3", "cancel")]


ENDS: tuple[Event, ...] = ("succeed", "succeed", "fail", "lose")


@st.composite
def plans(draw: st.DrawFn) -> tuple[Step, ...]:
    steps: list[Step] = []
    for index in range(draw(st.integers(1, 7))):
        earlier = [step.id for step in steps]
        after = tuple(draw(st.lists(st.sampled_from(earlier), unique=True, max_size=2))) if earlier else ()
        kind = draw(st.sampled_from([read, write]))
        steps.append(kind(f"s{index}", after=after, on_error=draw(st.sampled_from(["stop", "continue"]))))
    return tuple(steps)


@given(plans(), st.data())
@settings(max_examples=300)
def test_every_run_ends_keeps_writes_apart_and_respects_dependencies(
    steps: tuple[Step, ...], data: st.DataObject
) -> None:
    state = run_of(*steps, limits=Limits(concurrency_max=3))
    busy: dict[Key, Step] = {}
    asked: set[Key] = set()
    for _ in range(200):
        moves = state.moves(busy=frozenset(busy), asked=frozenset(asked))
        started = 0
        for move in moves:
            if isinstance(move, Settle):
                before = state.action((move.step.id, move.item)) or Action(
                    move.step.id, move.item, move.step.capability
                )
                state.put(before.after(move.event, error=move.error))
                continue
            assert all(state.view(name).usable for name in move.step.after)
            if data.draw(st.integers(0, 5)) == 0:
                asked.add((move.step.id, None))
                state.put(Action(move.step.id, None, move.step.capability, "waiting-for-decision"))
                break
            busy[(move.step.id, move.item)] = move.step
            state.put(Action(move.step.id, None, move.step.capability, "running"))
            started += 1
        if started == len(moves):  # a start frees nothing, so whoever started all has nothing to ask for again
            assert not state.moves(busy=frozenset(busy), asked=frozenset(asked))
        assert len(busy) <= 3
        assert sum(1 for step in busy.values() if not state.is_read(step)) <= 1
        if not busy and not moves:
            break
        if busy:
            key = data.draw(st.sampled_from(sorted(busy)))
            step = busy.pop(key)
            event: Event = data.draw(st.sampled_from(ENDS))
            running = state.action(key)
            assert running is not None
            if event == "lose" and state.is_read(step):
                event = "fail"
            state.put(running.after(event, output=1, error=None if event == "succeed" else ActionError("X", "x")))
    else:
        raise AssertionError("the run never came to rest")
    status = state.status()
    unknown = any(action.state == "outcome-unknown" for action in state.actions())
    assert (status == "needs-attention") == unknown
    if not asked and not unknown:
        assert all(view.state in FINISHED for view in state.views())
        assert status in ("completed", "failed")


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 4), st.booleans(), st.booleans())
def test_whoever_starts_all_that_may_start_has_nothing_to_ask_for_again(
    first: int, second: int, concurrency: int, first_writes: bool, second_writes: bool
) -> None:
    kinds = {True: write, False: read}
    source = read("s0")
    fans = [
        kinds[writes](name, for_each=ForEach(Reference("s0", path), 10))
        for name, path, writes in (("s1", "/a", first_writes), ("s2", "/b", second_writes))
    ]
    output: Json = {"a": list(range(first)), "b": list(range(second))}
    state = run_of(source, *fans, limits=Limits(concurrency_max=concurrency), actions=(done(source, output),))
    ended = 0
    while moves := state.moves(busy=frozenset(), asked=frozenset()):
        busy = frozenset((move.step.id, move.item) for move in moves)
        for move in moves:
            assert isinstance(move, Propose)
            state.put(Action(move.step.id, move.item, move.step.capability, "running"))
        assert state.moves(busy=busy, asked=frozenset()) == []
        for move in moves:
            state.put(done(move.step, item=move.item))
        ended += len(moves)
    assert ended == first + second
