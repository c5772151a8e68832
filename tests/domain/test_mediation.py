"""The mediation proof: whatever an effect, a grant, an answer or a result rests on is there before it, or is missed."""

from __future__ import annotations

import copy
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.mediation import NOTHING_RAN, RULES, Mediation
from tests.domain.mediation_logs import (
    CALLER,
    HUMAN,
    Act,
    Entry,
    allowed,
    answered,
    approved,
    asked,
    confirmed,
    ended,
    first_fault,
    logs,
    opened,
    status,
)
from tests.domain.reference_mediation import first_unfounded
from tests.domain.values import json_objects

Log = list[Entry]


def without(log: Log, *places: int) -> Log:
    return [entry for place, entry in enumerate(log) if place not in places]


def altered(log: Log, place: int, *, at: float | None = None, item: int | None = None, **data: Json) -> Log:
    log = copy.deepcopy(log)
    log[place].data.update(data)
    log[place].at = log[place].at if at is None else at
    log[place].item = log[place].item if item is None else item
    return log


def moved(log: Log, place: int, to: int) -> Log:
    log = list(log)
    log.insert(to, log.pop(place))
    return log


def with_more(log: Log, place: int, *more: Entry) -> Log:
    return [*log[:place], *more, *log[place:]]


def dropped(log: Log, place: int, *names: str) -> Log:
    log = copy.deepcopy(log)
    for name in names:
        log[place].data.pop(name)
    return log


def older(log: Log) -> Log:
    """As written before modes, doors, decisions and ``started`` were."""
    log = copy.deepcopy(log)
    for entry in log:
        for name in ("mode", "doors", "decision", "started"):
            entry.data.pop(name, None)
    return [entry for entry in log if not entry.kind.startswith("decision-")]


ACT = Act("r-1", "s1", effect="REQUIRE_APPROVAL", asks=HUMAN)
NO = ACT.entry("action-denied", attempt=1, digest=ACT.digest, error={"code": "DENIED_BY_PERSON", "message": ""})


def denied_by_answer() -> Log:
    """A person said no, then another question about the same."""
    first, second = asked("r-1", "d-0", [ACT]), asked("r-1", "d-1", [ACT])
    return [opened("r-1"), ACT.verdict(), first, second, answered(first, [], [ACT]), answered(second, [ACT])]


def unknown(end: str = "cancelled") -> Log:
    """0 opened, 1 verdict, 2 intent, 3 nobody knows, 4 the run's end, 5 a person says that it happened."""
    act = Act("r-1", "s1")
    verdict = act.verdict()
    intent = act.intent(verdict)
    lost = act.result(intent, "outcome-unknown", "PROCESS_DIED")
    return [opened("r-1"), verdict, intent, lost, status("r-1", end), act.result(intent)]


def nothing_ran(code: str) -> Log:
    return [opened("r-1"), Act("r-1", "s1").result(None, "failed", code), status("r-1", "failed")]


HOLDS: dict[str, Log] = {
    "an empty log": [],
    "an effect that was allowed": allowed(),
    "an effect that a caller confirmed": confirmed(),
    "an effect that a person approved": approved(),
    "an effect that a person approved where a caller could have": approved(asks=CALLER),
    "an approval of an older version": older(approved()),
    "a confirmation of an older version": older(confirmed()),
    "two runs at once": [e for pair in zip(approved("r-1"), approved("r-2"), strict=True) for e in pair],
    "a rerun under another label": [*allowed("r-1"), *allowed("r-2")],
    "an unknown outcome that a person settles after the run was cancelled": unknown(),
    "a predecessor's result": [opened("r-1"), Act("r-1", "s1").result(None), status("r-1", "completed")],
    "a predecessor's result of an older version": older([opened("r-1"), Act("r-1", "s1").result(None)]),
    "a waiting action that fails before it starts": [
        *approved()[:5],
        ACT.entry("action-failed", attempt=1, digest=ACT.digest, error={"code": "LIMIT_EXCEEDED"}, started=False),
    ],
    "a late result that is kept": with_more(allowed(), 4, Act("r-1", "s1").entry("late-result-kept", attempt=1)),
    "a late result after the end": [*allowed(), Act("r-1", "s1").entry("late-result-kept", attempt=1)],
    "events of no run": [
        Entry("memory-written", None),
        Entry("decision-answered", None),
        Entry("intent-recorded", None),
    ],
    "kinds that nobody knows yet": with_more(allowed(), 2, Entry("something-new", "r-1", "s1")),
    **{f"{code} before anything ran": nothing_ran(code) for code in sorted(NOTHING_RAN)},
}


@pytest.mark.parametrize("name", list(HOLDS))
def test_a_log_holds(name: str) -> None:
    assert first_fault(HOLDS[name]) is None


BREAKS: dict[str, tuple[Log, str, int]] = {
    # -- an effect and its verdict
    "no verdict": (without(allowed(), 1), "intent-without-verdict", 2),
    "a verdict that comes after": (moved(allowed(), 1, 2), "intent-without-verdict", 2),
    "a verdict on another digest": (altered(allowed(), 1, digest="sha256:x"), "intent-without-verdict", 3),
    "a verdict on another attempt": (altered(allowed(), 1, attempt=2), "intent-without-verdict", 3),
    "a verdict on another item": (altered(allowed(), 1, item=4), "intent-without-verdict", 3),
    "a verdict of another run": (
        [opened("r-2"), Act("r-2", "s1").verdict(), *without(allowed(), 1)],
        "intent-without-verdict",
        4,
    ),
    "a verdict that says no": (altered(allowed(), 1, effect="DENY"), "intent-refused", 3),
    "a later verdict that says no": (with_more(allowed(), 2, Act("r-1", "s1").verdict("DENY")), "intent-refused", 4),
    "an effect that says no": (
        altered(altered(allowed(), 1, effect="DENY"), 2, effect="DENY"),
        "intent-refused",
        3,
    ),
    "allowed, where approval was required": (altered(approved(), 8, effect="ALLOW", grant=None), "intent-refused", 9),
    "an intent that says nothing": (dropped(allowed(), 2, "digest", "attempt"), "intent-without-verdict", 3),
    "the same attempt twice": (
        with_more(allowed(), 3, *allowed()[1:3]),
        "intent-repeated",
        5,
    ),
    "one verdict for two intents": (
        altered(with_more(allowed(), 3, *allowed()[2:3]), 3, attempt=2),
        "intent-without-verdict",
        4,
    ),
    "an action that ended begins again": (
        altered(altered(with_more(allowed(), 4, *allowed()[1:3]), 4, attempt=2), 5, attempt=2),
        "intent-repeated",
        6,
    ),
    # -- an approval
    "no grant named": (altered(approved(), 8, grant=None), "intent-without-grant", 9),
    "a grant that was never given": (without(approved(), 6), "intent-without-grant", 8),
    "a grant that comes after": (moved(approved(), 6, 8), "intent-without-grant", 8),
    "a grant given after the verdict": (moved(approved(), 6, 7), "intent-without-verdict", 9),
    "a verdict that was not asked again after the grant": (without(approved(), 7), "intent-without-verdict", 8),
    "a grant for something else": (altered(confirmed(), 1, digest="sha256:x"), "intent-without-grant", 4),
    "a grant of another run": (
        [*confirmed("r-2")[:2], *altered(without(confirmed(), 1), 2, grant=confirmed("r-2")[1].data["grant"])],
        "intent-without-grant",
        5,
    ),
    "a grant that was used before": (
        [
            *without(confirmed(), 5),
            *(
                copy.deepcopy(entry)
                for entry in altered(altered(altered(confirmed(), 2, item=1), 3, item=1), 4, item=1)[2:]
            ),
        ],
        "grant-used-twice",
        7,
    ),
    "a grant that had expired": (altered(approved(), 8, at=900.0), "grant-expired", 9),
    "a grant without an end": (dropped(confirmed(), 1, "expires_at"), "grant-expired", 4),
    "a grant that was given twice": (with_more(confirmed(), 2, confirmed()[1]), "grant-repeated", 3),
    # -- a grant and its decision
    "no answer": (without(approved(), 5), "grant-without-decision", 6),
    "an answer that comes after": (moved(approved(), 5, 6), "grant-without-decision", 6),
    "an answer to another decision": (altered(approved(), 6, decision="d-x"), "grant-without-decision", 7),
    "an answer that approved nothing": (altered(approved(), 5, approved=[]), "grant-without-decision", 7),
    "an answer of another run": (
        [*approved("r-2")[:6], *altered(without(approved(), 3, 5), 4, decision="d-r-2")],
        "grant-without-decision",
        11,
    ),
    "a grant through another door than the answer": (
        altered(approved(), 6, door="terminal"),
        "grant-without-decision",
        7,
    ),
    "a grant by another approver": (altered(approved(), 6, approver="local:0"), "grant-without-decision", 7),
    "a person's grant without a decision": (
        altered(confirmed(), 1, door="web"),
        "grant-without-decision",
        2,
    ),
    "a grant that does not say what for": (dropped(approved(), 6, "digest"), "grant-without-decision", 7),
    # -- an answer and its question
    "no question": (without(approved(), 3), "answer-without-question", 5),
    "a question that comes after": (moved(approved(), 3, 5), "answer-without-question", 5),
    "another question": (altered(approved(), 5, question="sha256:x"), "answer-without-question", 6),
    "another question was asked": (altered(approved(), 3, question="sha256:x"), "answer-without-question", 6),
    "a question without its digest": (dropped(approved(), 3, "question"), "answer-without-question", 6),
    "an approval of what was not asked": (altered(approved(), 3, subjects=[]), "answer-without-question", 6),
    "a denial of what was not asked": (altered(approved(), 5, denied=["sha256:x"]), "answer-without-question", 6),
    "a question that names nothing": (dropped(approved(), 3, "decision"), "answer-without-question", 4),
    "a decision that is asked twice": (with_more(approved(), 4, approved()[3]), "question-repeated", 5),
    "two answers": (with_more(approved(), 6, approved()[5]), "answer-repeated", 7),
    **{
        f"an answer to what was {state}": (
            with_more(approved(), 5, ended(approved()[3], state)),
            "answer-too-late",
            7,
        )
        for state in ("expired", "superseded", "cancelled")
    },
    "an answer to what another question replaced": (
        with_more(approved(), 5, asked("r-1", "d-2", [ACT], supersedes="d-r-1")),
        "answer-too-late",
        7,
    ),
    # -- a person's no
    "an approval of what an answer denied": (denied_by_answer(), "denied-before", 6),
    "an answer that says both": (altered(approved(), 5, denied=[ACT.digest]), "denied-before", 6),
    "an approval of a denied action": (with_more(approved(), 5, NO), "denied-before", 7),
    "a grant of a denied action": (with_more(approved(), 6, NO), "denied-before", 8),
    "a caller's grant after a person's no": (
        [*denied_by_answer()[:5], altered(confirmed(), 1, digest=ACT.digest)[1]],
        "denied-before",
        6,
    ),
    "an effect that was denied after its grant": (
        with_more(
            approved(),
            7,
            asked("r-1", "d-2", [ACT]),
            answered(asked("r-1", "d-2", [ACT]), [], [ACT]),
        ),
        "denied-before",
        11,
    ),
    # -- doors
    "a door that the verdict does not name": (
        altered(altered(approved(), 5, door="folder"), 6, door="folder"),
        "door-not-allowed",
        7,
    ),
    "a caller where a person must answer": (
        altered(altered(confirmed(), 2, mode="human"), 1, door="caller"),
        "door-not-allowed",
        4,
    ),
    "a caller's answer to a decision for a person": (
        altered(altered(approved(), 5, door="caller"), 6, door="caller"),
        "door-not-allowed",
        7,
    ),
    "a caller's door, even if the verdict names it": (
        [
            *(
                altered(entries, place, doors=["caller"])[place]
                if (entries := altered(altered(approved(), 5, door="caller"), 6, door="caller"))[place].kind
                == "verdict-given"
                else entries[place]
                for place in range(11)
            )
        ],
        "door-not-allowed",
        7,
    ),
    "an older grant where a person must answer": (dropped(approved(), 6, "decision"), "door-not-allowed", 7),
    # -- results
    "a success without an intent": (without(allowed(), 2), "result-without-intent", 3),
    "a success without an intent or a verdict": (without(allowed(), 1, 2), "result-without-intent", 2),
    "a success of an older version without an intent": (older(without(allowed(), 2)), "result-without-intent", 3),
    "a result of another attempt": (altered(allowed(), 3, attempt=2), "result-without-intent", 4),
    "a result of another digest": (altered(allowed(), 3, digest="sha256:x"), "result-without-intent", 4),
    "a result that comes before its intent": (moved(allowed(), 3, 2), "result-without-intent", 3),
    "a failure of an effect without an intent": (nothing_ran("CAPABILITY_FAILED"), "result-without-intent", 2),
    "a failure without an error": (
        [opened("r-1"), Act("r-1", "s1").result(None, "failed")],
        "result-without-intent",
        2,
    ),
    "a failure that started and says that nothing ran": (
        altered(nothing_ran("LIMIT_EXCEEDED"), 1, started=True),
        "result-without-intent",
        2,
    ),
    "a failure that says that nothing ran although it was allowed to": (
        older([*allowed()[:2], *nothing_ran("LIMIT_EXCEEDED")[1:]]),
        "result-without-intent",
        3,
    ),
    "an unknown outcome without an intent": (without(unknown(), 1, 2), "result-without-intent", 2),
    "a late result without an intent": (
        [opened("r-1"), Act("r-1", "s1").entry("late-result-kept", attempt=1)],
        "result-without-intent",
        2,
    ),
    "a predecessor's result that failed": (
        altered([opened("r-1"), Act("r-1", "s1").result(None)], 1, error={"code": "X"}),
        "result-without-intent",
        2,
    ),
    # -- the run
    "a run that was not opened": (without(allowed(), 0), "run-not-open", 1),
    "a run that is opened again": (with_more(allowed(), 1, opened("r-1")), "run-not-open", 2),
    "a verdict after the end": ([*allowed(), allowed()[1]], "run-not-open", 6),
    "an effect after the end": ([*unknown()[:5], Act("r-1", "s2").verdict()], "run-not-open", 6),
    "a settled outcome that is settled again": ([*unknown(), unknown()[5]], "run-not-open", 7),
    "an end after the end": ([*unknown()[:5], status("r-1", "cancelled")], "run-not-open", 6),
    "a question of a run that ended": ([*allowed(), asked("r-1", "d-9", [ACT])], "run-not-open", 6),
    "an answer after the end": ([*without(approved(), *range(5, 10)), approved()[5]], "run-not-open", 7),
    "a grant after the end": ([*allowed(), confirmed()[1]], "run-not-open", 6),
}


@pytest.mark.parametrize("name", list(BREAKS))
def test_what_is_missing_altered_or_out_of_order_is_found_where_it_is_missed(name: str) -> None:
    log, rule, at = BREAKS[name]
    fault = first_fault(log)
    assert fault is not None
    assert (fault.rule, fault.event) == (rule, at), str(fault)


def test_every_rule_is_shown_to_be_broken_by_some_log() -> None:
    assert {rule for _, rule, _ in BREAKS.values()} == set(RULES)


def test_a_fault_names_the_event_the_run_the_step_and_the_item() -> None:
    log = without([opened("r-7"), (act := Act("r-7", "s2", 3)).verdict(), act.intent(act.verdict())], 1)
    fault = first_fault(log)
    assert str(fault) == "event 2 (intent-recorded, run r-7, step s2, item 3): no verdict was given on it"
    assert fault is not None and fault.to_json() == {
        "event": 2,
        "kind": "intent-recorded",
        "run": "r-7",
        "step": "s2",
        "item": 3,
        "rule": "intent-without-verdict",
        "message": "no verdict was given on it",
    }


def test_the_report_counts_and_keeps_the_first_of_many_faults() -> None:
    mediation = Mediation()
    log = [*approved("r-1"), *confirmed("r-2"), *without(allowed("r-3"), 1), *without(allowed("r-4"), 1)]
    for seq, entry in enumerate(log, 1):
        mediation.step(seq, entry.event())
    report = mediation.report()
    assert (report.runs, report.effects, report.approvals) == (4, 4, 2)
    assert report.fault is not None and (report.fault.run, report.fault.event) == ("r-3", 19)


@given(logs())
def test_a_valid_log_holds(log: Log) -> None:
    fault = first_fault(log)
    assert fault is None, str(fault)


@given(logs(), st.data())
def test_an_event_that_something_rests_on_is_missed_by_the_first_that_does(log: Log, data: st.DataObject) -> None:
    bearing = [place for place, entry in enumerate(log) if any(entry in other.rests for other in log)]
    if not bearing:
        return
    place = data.draw(st.sampled_from(bearing))
    missed = next(at for at, other in enumerate(log) if log[place] in other.rests)
    fault = first_fault(without(log, place))
    assert fault is not None, f"nobody missed {log[place].kind}"
    assert fault.event == missed, f"without event {place + 1} ({log[place].kind}): {fault}"


_VALUES: dict[str, st.SearchStrategy[Json]] = {
    "attempt": st.sampled_from([1, 2, None]),
    "effect": st.sampled_from(["ALLOW", "DENY", "REQUIRE_APPROVAL", None]),
    "digest": st.sampled_from(["sha256:r-1/s0/None/1/ALLOW", "sha256:r-1/s0/0/1/REQUIRE_APPROVAL", "x", None]),
    "door": st.sampled_from(["web", "terminal", "caller", "folder", None]),
    "mode": st.sampled_from(["human", "caller", None]),
    "grant": st.sampled_from(["g-sha256:r-1/s0/0/1/REQUIRE_APPROVAL", "g-x", None]),
    "decision": st.sampled_from(["d-r-1-s0", "d0-r-1-s0", "d-x", None]),
    "question": st.sampled_from(["sha256:question-d-r-1-s0", "x", None]),
    "started": st.sampled_from([True, False, None]),
    "expires_at": st.sampled_from([0.0, 5.0, None]),
    "approved": st.sampled_from([[], ["sha256:r-1/s0/0/1/REQUIRE_APPROVAL"], ["sha256:r-1/s0/1/1/REQUIRE_APPROVAL"]]),
    "denied": st.sampled_from([[], ["sha256:r-1/s0/0/1/REQUIRE_APPROVAL"], ["sha256:r-1/s0/1/1/REQUIRE_APPROVAL"]]),
}


@st.composite
def mangled(draw: st.DrawFn) -> Log:
    """A valid log to which up to three things were done."""
    log = copy.deepcopy(draw(logs()))
    for _ in range(draw(st.integers(0, 3))):
        if not log:
            break
        place, other = (draw(st.integers(0, len(log) - 1)) for _ in range(2))
        match draw(st.sampled_from(["remove", "repeat", "move", "alter", "alter", "drop"])):
            case "remove":
                log.pop(place)
            case "repeat":
                log.insert(other, copy.deepcopy(log[place]))
            case "move":
                log.insert(other, log.pop(place))
            case "alter":
                names = sorted(set(log[place].data) & set(_VALUES))
                if names:
                    name = draw(st.sampled_from(names))
                    log[place].data[name] = draw(_VALUES[name])
            case _:
                names = sorted(log[place].data)
                if names:
                    log[place].data.pop(draw(st.sampled_from(names)))
    return log


@given(mangled())
def test_the_checker_finds_exactly_what_the_plain_definition_finds(log: Log) -> None:
    fault = first_fault(log)
    assert (None if fault is None else fault.event) == first_unfounded([entry.event() for entry in log]), str(fault)


@given(st.lists(st.tuples(st.sampled_from([entry.kind for entry in approved()]), json_objects, json_objects)))
def test_whatever_an_event_holds_it_is_answered(log: list[tuple[str, JsonObject, JsonObject]]) -> None:
    mediation = Mediation()
    mediation.step(1, {"kind": "run-opened", "run": "r-1"})
    for seq, (kind, event, data) in enumerate(log, 2):
        mediation.step(seq, {**event, "kind": kind, "run": "r-1", "data": data})
    mediation.report().to_json()


@pytest.mark.parametrize("odd", [10**400, float("nan"), float("inf"), "soon", None, True, -1])
def test_times_that_no_clock_tells_never_hold(odd: Json) -> None:
    for log in (altered(confirmed(), 1, expires_at=odd), altered(approved(), 6, expires_at=odd)):
        fault = first_fault(log)
        assert fault is not None and fault.rule == "grant-expired"


def many_runs(events: int) -> Callable[[], None]:
    """So many events, in runs of eleven, one after another, walked."""
    log = [entry.event() for entry in approved("r-@")]
    labelled: list[JsonObject] = []
    for number in range(events // len(log)):
        labelled += [{**event, "run": f"r-{number}"} for event in log]

    def walk() -> None:
        mediation = Mediation()
        for seq, event in enumerate(labelled, 1):
            assert mediation.step(seq, event) is None
        assert mediation.open_runs == 0

    return walk


def one_long_run(events: int) -> Callable[[], None]:
    """One run, a fan-out of so many events."""
    log: list[JsonObject] = [opened("r-1").event()]
    for item in range(events // 3):
        act = Act("r-1", "s1", item)
        verdict = act.verdict()
        intent = act.intent(verdict)
        log += [entry.event() for entry in (verdict, intent, act.result(intent))]

    def walk() -> None:
        mediation = Mediation()
        for seq, event in enumerate(log, 1):
            assert mediation.step(seq, event) is None

    return walk


@pytest.mark.parametrize("shape", [many_runs, one_long_run])
def test_ten_times_as_many_events_take_about_ten_times_as_long(shape: Callable[[int], Callable[[], None]]) -> None:
    def fastest(walk: Callable[[], None]) -> float:
        took = []
        for _ in range(3):
            began = time.perf_counter()
            walk()
            took.append(time.perf_counter() - began)
        return min(took)

    small, large = fastest(shape(10_000)), fastest(shape(100_000))
    assert large < 40 * small, (small, large)  # quadratic time would be a hundred times


def test_a_hundred_thousand_events_of_runs_that_end_take_constant_memory() -> None:
    walk = many_runs(100_000)
    tracemalloc.start()
    walk()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000, peak
