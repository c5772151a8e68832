"""Audit logs made by hand for the mediation proof: events as they are written, and what each of them rests on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.mediation import Fault, Mediation

HUMAN: dict[str, Json] = {"mode": "human", "doors": ["web", "terminal"]}
CALLER: dict[str, Json] = {"mode": "caller", "doors": ["web", "terminal"]}


@dataclass(eq=False)
class Entry:
    """One event and the earlier ones that it rests on."""

    kind: str
    run: str | None
    step: str | None = None
    item: int | None = None
    data: dict[str, Json] = field(default_factory=dict)
    at: float = 0.0
    rests: tuple[Entry, ...] = ()

    def event(self) -> JsonObject:
        raw: dict[str, Json] = {"kind": self.kind, "at": self.at, "principal": "local:1000", "data": self.data}
        placed: dict[str, Json] = {"run": self.run, "step": self.step, "item": self.item}
        return {**raw, **{name: value for name, value in placed.items() if value is not None}}


@dataclass(eq=False)
class Act:
    """The events of one action of a run. ``was`` is what the next event rests on where it rests on something."""

    run: str
    step: str
    item: int | None = None
    attempt: int = 1
    effect: str = "ALLOW"
    asks: dict[str, Json] = field(default_factory=dict)
    legacy: bool = False

    @property
    def digest(self) -> str:
        return f"sha256:{self.run}/{self.step}/{self.item}/{self.attempt}/{self.effect}"

    def entry(self, kind: str, rests: Iterable[Entry] = (), **data: Json) -> Entry:
        return Entry(kind, self.run, self.step, self.item, data, rests=tuple(rests))

    def verdict(self, effect: str | None = None) -> Entry:
        spoken = effect or self.effect
        asks = self.asks if spoken == "REQUIRE_APPROVAL" else {}
        return self.entry("verdict-given", (), attempt=self.attempt, digest=self.digest, effect=spoken, **asks)

    def waiting(self) -> Entry:
        return self.entry("action-waiting-for-decision", attempt=self.attempt, digest=self.digest, error=None)

    def intent(self, verdict: Entry, grant: Entry | None = None) -> Entry:
        rests = (verdict,) if grant is None else (verdict, grant)
        name = None if grant is None else grant.data["grant"]
        return self.entry(
            "intent-recorded", rests, attempt=self.attempt, digest=self.digest, effect=self.effect, grant=name
        )

    def result(self, intent: Entry | None, state: str = "succeeded", code: str | None = None) -> Entry:
        error: Json = None if code is None else {"code": code, "message": ""}
        digest = None if intent is None and state == "failed" else self.digest
        began: dict[str, Json] = {} if self.legacy else {"started": intent is not None}
        rests = () if intent is None else (intent,)
        return self.entry(f"action-{state}", rests, attempt=self.attempt, digest=digest, error=error, **began)

    def grant(self, answer: Entry | None, door: str = "web") -> Entry:
        """From an answer, or a caller's where there is none."""
        named: dict[str, Json] = {"decision": None if answer is None else answer.data["decision"]}
        return self.entry(
            "grant-given",
            () if answer is None else (answer,),
            grant=f"g-{self.digest}",
            digest=self.digest,
            door=door if answer is not None or self.legacy else "caller",
            approver="local:1000",
            expires_at=900.0,
            **({} if self.legacy else named),
        )


def asked(run: str, name: str, acts: Sequence[Act], supersedes: str | None = None) -> Entry:
    subjects: list[Json] = [
        {"option": f"approve:{act.step}", "step": act.step, "item": act.item, "digest": act.digest} for act in acts
    ]
    question = f"sha256:question-{name}"
    data: dict[str, Json] = {
        "decision": name,
        "question": question,
        "kind": "approval",
        "subjects": subjects,
        "supersedes": supersedes,
    }
    return Entry("decision-asked", run, data=data)


def answered(question: Entry, approved: Sequence[Act], denied: Sequence[Act] = (), door: str = "web") -> Entry:
    data: dict[str, Json] = {
        "decision": question.data["decision"],
        "question": question.data["question"],
        "door": door,
        "approver": "local:1000",
        "options": [f"approve:{act.step}" for act in approved],
        "approved": [act.digest for act in approved],
        "denied": [act.digest for act in denied],
    }
    return Entry("decision-answered", question.run, data=data, rests=(question,))


def ended(question: Entry, state: str) -> Entry:
    return Entry("decision-ended", question.run, data={"decision": question.data["decision"], "state": state})


def opened(run: str) -> Entry:
    return Entry("run-opened", run, data={"rerun": False})


def status(run: str, state: str) -> Entry:
    return Entry(f"run-{state}", run, data={"outcome": "achieved", "counts": {}})


# -- whole logs ------------------------------------------------------------------------------------------------------


def allowed(run: str = "r-1") -> list[Entry]:
    act = Act(run, "s1")
    verdict = act.verdict()
    intent = act.intent(verdict)
    return [opened(run), verdict, intent, act.result(intent), status(run, "completed")]


def confirmed(run: str = "r-1") -> list[Entry]:
    """A calling agent's ``confirmed: true``."""
    act = Act(run, "s1", effect="REQUIRE_APPROVAL", asks=CALLER)
    grant, verdict = act.grant(None), act.verdict()
    intent = act.intent(verdict, grant)
    return [opened(run), grant, verdict, intent, act.result(intent), status(run, "completed")]


def approved(run: str = "r-1", asks: dict[str, Json] = HUMAN) -> list[Entry]:
    """A person answered: 0 opened, 1 verdict, 2 waiting, 3 asked, 4 status, 5 answered, 6 grant, 7 verdict, 8 intent,
    9 result, 10 status."""
    act = Act(run, "s1", effect="REQUIRE_APPROVAL", asks=asks)
    question = asked(run, f"d-{run}", [act])
    answer = answered(question, [act])
    grant, verdict = act.grant(answer), act.verdict()
    intent = act.intent(verdict, grant)
    return [
        opened(run),
        act.verdict(),
        act.waiting(),
        question,
        status(run, "waiting-for-decision"),
        answer,
        grant,
        verdict,
        intent,
        act.result(intent),
        status(run, "completed"),
    ]


# -- generated logs --------------------------------------------------------------------------------------------------

Script = Callable[[str, str, random.Random], list[Entry]]


def _effect(act: Act, verdict: Entry, grant: Entry | None, chance: random.Random) -> list[Entry]:
    intent = act.intent(verdict, grant)
    state, code = chance.choice(
        [("succeeded", None), ("failed", "CAPABILITY_FAILED"), ("outcome-unknown", "TIMED_OUT")]
    )
    return [verdict, intent, act.result(intent, state, code)]


def _allow(run: str, step: str, chance: random.Random) -> list[Entry]:
    act = Act(run, step, chance.choice([None, 0, 7]), legacy=chance.random() < 0.3)
    return _effect(act, act.verdict(), None, chance)


def _confirm(run: str, step: str, chance: random.Random) -> list[Entry]:
    act = Act(run, step, effect="REQUIRE_APPROVAL", asks=CALLER)
    grant = act.grant(None)
    return [grant, *_effect(act, act.verdict(), grant, chance)]


def _older(run: str, step: str, chance: random.Random) -> list[Entry]:
    act = Act(run, step, effect="REQUIRE_APPROVAL", legacy=True)
    grant = act.grant(None, "terminal")
    return [act.verdict(), act.waiting(), grant, *_effect(act, act.verdict(), grant, chance)]


def _ask(run: str, step: str, chance: random.Random) -> list[Entry]:
    """Two items of a step in one question: one approved, one approved or denied."""
    acts = [Act(run, step, item, effect="REQUIRE_APPROVAL", asks=chance.choice([HUMAN, CALLER])) for item in (0, 1)]
    question = asked(run, f"d-{run}-{step}", acts)
    out = [event for act in acts for event in (act.verdict(), act.waiting())]
    if chance.random() < 0.3:
        earlier = asked(run, f"d0-{run}-{step}", acts[:1])
        question.data["supersedes"] = earlier.data["decision"]
        out += [earlier, ended(earlier, "superseded")]
    yes = acts[: chance.choice([1, 2])]
    no = acts[len(yes) :]
    answer = answered(question, yes, no, chance.choice(["web", "terminal"]))
    grants = [act.grant(answer, str(answer.data["door"])) for act in yes]
    out += [question, answer, *grants]
    for act in no:
        out.append(act.entry("action-denied", attempt=1, digest=act.digest, error={"code": "DENIED_BY_PERSON"}))
    for act, grant in zip(yes, grants, strict=True):
        out += _effect(act, act.verdict(), grant, chance)
    return out


def _expire(run: str, step: str, chance: random.Random) -> list[Entry]:
    act = Act(run, step, effect="REQUIRE_APPROVAL", asks=HUMAN)
    question = asked(run, f"d-{run}-{step}", [act])
    denied = act.entry("action-denied", attempt=1, digest=act.digest, error={"code": "APPROVAL_EXPIRED"})
    return [act.verdict(), act.waiting(), question, ended(question, "expired"), denied]


def _again(run: str, step: str, chance: random.Random) -> list[Entry]:
    """Nobody knew, then a person said: run it again."""
    first, second = Act(run, step), Act(run, step, attempt=2)
    verdict = first.verdict()
    intent = first.intent(verdict)
    late = first.entry("late-result-kept", (intent,), attempt=1)
    return [
        verdict,
        intent,
        first.result(intent, "outcome-unknown", "PROCESS_DIED"),
        *([late] if chance.random() < 0.5 else []),
        second.entry("outcome-resolved", word="retry", attempt=1),
        second.entry("action-pending", attempt=2, digest=first.digest, error=None, started=False),
        *_effect(second, second.verdict(), None, chance),
    ]


def _nothing(run: str, step: str, chance: random.Random) -> list[Entry]:
    act = Act(run, step)
    return chance.choice(
        [
            [act.result(None, "failed", "ARGUMENTS_INVALID")],
            [act.result(None)],  # a predecessor's result
            [act.verdict("DENY"), act.entry("action-denied", attempt=1, error={"code": "DENIED_BY_POLICY"})],
            [act.entry("action-skipped", attempt=1, error={"code": "RUN_STOPPED"})],
        ]
    )


SCRIPTS: tuple[Script, ...] = (_allow, _confirm, _older, _ask, _expire, _again, _nothing)
NEEDS_ITS_RUN: tuple[str, ...] = (
    "verdict-given",
    "intent-recorded",
    "grant-given",
    "decision-asked",
    "decision-answered",
)
NEEDS_ITS_RUN += tuple(f"action-{state}" for state in ("succeeded", "failed", "outcome-unknown", "denied", "skipped"))
NEEDS_ITS_RUN += ("action-pending", "run-completed", "run-failed", "run-cancelled")


def merged(lists: list[list[Entry]], chance: random.Random) -> list[Entry]:
    """All entries, each list in its own order."""
    left = [list(reversed(entries)) for entries in lists if entries]
    out: list[Entry] = []
    while left:
        pick = chance.randrange(len(left))
        out.append(left[pick].pop())
        if not left[pick]:
            left.pop(pick)
    return out


def run_log(run: str, scripts: Sequence[Script], end: str | None, chance: random.Random) -> list[Entry]:
    steps = [script(run, f"s{number}", chance) for number, script in enumerate(scripts)]
    first = opened(run)
    out = [first, *merged(steps, chance), *([] if end is None else [status(run, end)])]
    for entry in out[1:]:
        if entry.kind in NEEDS_ITS_RUN:
            entry.rests = (*entry.rests, first)
    return out


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """A valid log of several runs at once."""
    chance = draw(st.randoms(use_true_random=False))
    runs = draw(
        st.lists(
            st.tuples(
                st.lists(st.sampled_from(SCRIPTS), max_size=4),
                st.sampled_from([None, "completed", "failed", "cancelled"]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    out = merged([run_log(f"r-{n}", scripts, end, chance) for n, (scripts, end) in enumerate(runs, 1)], chance)
    for at, entry in enumerate(out):
        entry.at = float(at)
    return out


def first_fault(entries: Iterable[Entry]) -> Fault | None:
    """What the checker finds first, with sequence numbers from 1."""
    mediation = Mediation()
    for seq, entry in enumerate(entries, 1):
        fault = mediation.step(seq, entry.event())
        if fault is not None:
            assert mediation.report().fault == fault
            return fault
    return None
