"""The auditor: from what the schedule itself did it says what may have happened, and what happened that may not.

It keeps a log of its own: which policies stood when, what people and callers said, which effects began. What became
durable, and in which order, it reads with SQL of its own after every write. It shares no code with the product.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.sim_approvals.policies import Edition, PolicyHistory

REPEATABLE = frozenset({"sim.put", "sim.read", "sim.list"})
ENDED = frozenset({"succeeded", "failed", "denied", "skipped"})
TURNS_OF_GRACE = 2
"""The gate asks the policy, and the handler begins in the next turn of the loop."""

Key = tuple[str, str, int | None]


class Wrong(AssertionError):
    """Something that must hold does not."""


class Life(Protocol):
    since: int

    @property
    def name(self) -> str: ...


@dataclass
class Said:
    """What somebody said about a question: tried by a door, refused or not. ``counts`` is false for what may never be
    accepted: another version, a wrong option, a question that was changed."""

    options: tuple[str, ...]
    door: str
    counts: bool
    refused: bool = False


@dataclass
class Confirmed:
    """A caller's ``confirmed: true`` while its call goes on."""

    plan: str
    steps: frozenset[str] | None
    process: Life
    since: int
    open: bool = True


@dataclass
class Approval:
    """One yes, for one attempt of one action. ``door`` is ``caller`` for a caller's word."""

    door: str
    at: float
    attempt: int
    seen: Any
    used: bool = False


@dataclass
class Asked:
    """A question as it was stored. ``subjects`` are its actions by option."""

    run: str
    kind: str
    subjects: dict[str, tuple[Key, Any]]
    expires_at: float
    open: bool = True
    word: str | None = None


@dataclass
class Intent:
    """A durable intent; ``approvals`` is how many its action had by then."""

    attempt: int
    digest: str
    at: float
    approvals: int


@dataclass
class Course:
    """One action of a run, as its durable events tell it."""

    intents: list[Intent] = field(default_factory=list)
    begun: dict[int, int] = field(default_factory=dict)
    approvals: list[Approval] = field(default_factory=list)
    denied: str | None = None
    denied_in: int = 0
    retries: int = 0
    state: str = "pending"


@dataclass
class Story:
    """A plan as it was written: each step's capability, what it takes its text from, and that text."""

    steps: dict[str, dict[str, Any]]


class Auditor:
    def __init__(
        self, policy: PolicyHistory, turn: Callable[[], int], now: Callable[[], float], grant_seconds: float
    ) -> None:
        self.policy = policy
        self.log: list[str] = []
        self.faults: list[str] = []
        self.said: dict[str, list[Said]] = {}
        self.confirmed: list[Confirmed] = []
        self.resolved: list[tuple[tuple[str, str, int | None, str], int]] = []
        self.stories: dict[str, Story] = {}
        self.asked: dict[str, Asked] = {}
        self.courses: dict[Key, Course] = {}
        self.runs: dict[str, str] = {}
        self.ended: dict[str, str] = {}
        self.effects = 0
        self._turn, self._now, self._grant_seconds = turn, now, grant_seconds
        self._path: Path | None = None
        self._database: sqlite3.Connection | None = None
        self._seen = 0

    def watch(self, path: Path) -> None:
        self._database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def say(self, text: str) -> None:
        self.log.append(f"{self._turn():6} {self._now() % 1e6:10.3f} {text}")

    def wrong(self, text: str) -> None:
        self.say(f"WRONG: {text}")
        self.faults.append(text)

    def check(self) -> None:
        if self.faults:
            raise Wrong(self.faults[0])

    def course(self, key: Key) -> Course:
        return self.courses.setdefault(key, Course())

    # -- what was told -----------------------------------------------------------------------------------------

    def planned(self, plan: str, steps: list[dict[str, Any]]) -> None:
        self.stories[plan] = Story({step["id"]: step for step in steps})

    def says(self, decision: str, options: tuple[str, ...], door: str, counts: bool) -> Said:
        said = Said(options, door, counts)
        self.said.setdefault(decision, []).append(said)
        return said

    def confirms(self, process: Life, plan: str, steps: list[str] | None) -> Confirmed:
        confirmed = Confirmed(plan, None if steps is None else frozenset(steps), process, self._turn())
        self.confirmed.append(confirmed)
        return confirmed

    # -- what became durable -----------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the events that were written since."""
        if self._database is None:
            return
        statement = "SELECT seq, body FROM audit WHERE seq > ? ORDER BY seq"
        for seq, body in self._database.execute(statement, (self._seen,)).fetchall():
            self._seen = seq
            event = json.loads(body)
            self._durable(seq, event)

    def _durable(self, seq: int, event: dict[str, Any]) -> None:
        kind, run, data = event["kind"], event.get("run"), event.get("data", {})
        if run is None:
            return
        key: Key = (run, event.get("step", ""), event.get("item"))
        if kind not in ("verdict-given",):
            brief = {k: data[k] for k in ("decision", "attempt", "door", "options", "word", "state") if k in data}
            error = (data.get("error") or {}).get("code", "")
            self.say(f"  [{seq}] {kind} {':'.join(str(p) for p in key if p not in ('', None))} {brief or ''} {error}")
        if kind == "run-opened":
            self.runs[run] = self._plan_of(event["plan"])
        elif kind == "decision-asked":
            self._question(run, data["decision"])
        elif kind == "decision-answered":
            self._answered(run, data)
        elif kind == "decision-ended":
            self._ended(data["decision"], data["state"])
        elif kind == "grant-given":
            self._granted(key, data)
        elif kind == "intent-recorded":
            self._intended(key, data)
        elif kind == "outcome-resolved":
            self._resolved(key, data)
        elif kind.startswith("action-"):
            self._settled(key, kind.removeprefix("action-"), data["attempt"])
        elif kind in ("run-completed", "run-failed", "run-cancelled"):
            self.ended[run] = kind.removeprefix("run-")

    def _plan_of(self, label: str) -> str:
        assert self._database is not None
        (handle,) = self._database.execute("SELECT handle FROM plans WHERE label = ?", (label,)).fetchone()
        return str(handle)

    def _question(self, run: str, name: str) -> None:
        assert self._database is not None
        statement = "SELECT kind, body, expires_at FROM decisions WHERE id = ?"
        kind, body, expires_at = self._database.execute(statement, (name,)).fetchone()
        subjects: dict[str, tuple[Key, Any]] = {}
        for action in json.loads(body)["actions"]:
            key: Key = (run, action["step"], action["item"])
            shown = action["shown"]
            subjects[action["option"]] = (key, shown)
            if shown["arguments"] != {"text": self._text(key)}:
                self.wrong(f"decision {name} shows other arguments for {key}: {shown['arguments']}")
            if kind == "approval":
                self._asked_again(name, key, shown)
        self.asked[name] = Asked(run, kind, subjects, expires_at)

    def _asked_again(self, name: str, key: Key, shown: Any) -> None:
        course = self.course(key)
        if course.denied is not None:
            self.wrong(f"{key} is asked again with {name}, and a no stands: {course.denied}")
        for approval in course.approvals:
            fresh = self._now() < approval.at + self._grant_seconds and not approval.used
            if fresh and approval.seen is not None and _same(approval.seen, shown):
                self.wrong(f"{key} is asked again with {name}, and it was approved at {approval.at}")
        for other, asked in self.asked.items():
            if asked.open and asked.kind == "approval" and self._now() < asked.expires_at:
                twice = [seen for subject, seen in asked.subjects.values() if subject == key and _same(seen, shown)]
                if twice:
                    self.wrong(f"{key} is asked with {name}, and decision {other} asks the same and still waits")

    def _answered(self, run: str, data: dict[str, Any]) -> None:
        name, options, door = data["decision"], tuple(data["options"]), data["door"]
        asked = self.asked[name]
        if not asked.open:
            self.wrong(f"decision {name} took a second answer")
        if self._now() >= asked.expires_at:
            self.wrong(f"decision {name} took an answer after its time")
        asked.open = False
        said = [s for s in self.said.get(name, ()) if (set(s.options), s.door) == (set(options), door)]
        if not any(s.counts and not s.refused for s in said):
            self.wrong(f"decision {name} was answered {options} by {door}, and nobody said that")
        for option, (key, shown) in asked.subjects.items():
            course = self.course(key)
            if asked.kind == "outcome":
                asked.word = options[0]
            elif option in options:
                course.approvals.append(Approval(door, self._now(), shown["attempt"], shown))
            else:
                self._deny(key, f"decision {name}, answered at {self._now()}")

    def _ended(self, name: str, state: str) -> None:
        asked = self.asked[name]
        if not asked.open:
            self.wrong(f"decision {name} is {state} after an answer")
        asked.open = False
        if state == "expired" and asked.kind == "approval":
            for key, _ in asked.subjects.values():
                self._deny(key, f"decision {name}, expired")

    def _deny(self, key: Key, why: str) -> None:
        course = self.course(key)
        if course.denied is None:
            course.denied, course.denied_in = why, self._turn()

    def _granted(self, key: Key, data: dict[str, Any]) -> None:
        if data["decision"] is not None:
            return
        run, step, _ = key
        course = self.course(key)
        live = [c for c in self.confirmed if c.open and c.plan == self.runs[run] and (not c.steps or step in c.steps)]
        if not live:
            self.wrong(f"{key} was granted to a caller who confirmed nothing")
        elif not any(edition.doors() is None for c in live for edition in self._possible(c)):
            self.wrong(f"{key} was granted to a caller where only a person may")
        if course.denied is not None and all(c.since > course.denied_in for c in live):
            self.wrong(f"{key} was granted to a caller against {course.denied}")
        source = self._source(key)
        if source is not None and self.course((run, source, None)).state != "succeeded":
            self.wrong(f"{key} was granted to a caller before its arguments were known")
        course.approvals.append(Approval("caller", self._now(), len(course.intents) + 1, None))

    def _possible(self, call: Confirmed) -> list[Edition]:
        """What the process may have taken for the policy during the call: where a file could not be used, any good one
        that it may have read before."""
        editions = self.policy.in_force(call.since)
        if all(edition.document is not None for edition in editions):
            return editions
        return self.policy.good(call.process.since)

    def _intended(self, key: Key, data: dict[str, Any]) -> None:
        course = self.course(key)
        if course.denied is not None:
            self.wrong(f"{key} begins although a no stands: {course.denied}")
        for name, asked in self.asked.items():
            late = asked.open and asked.kind == "approval" and self._now() >= asked.expires_at
            if late and any(subject == key for subject, _ in asked.subjects.values()):
                self.wrong(f"{key} begins although decision {name} ran out of time")
        if data["attempt"] != len(course.intents) + 1:
            self.wrong(f"{key} begins attempt {data['attempt']} after {len(course.intents)} attempts")
        if course.state in ENDED:
            self.wrong(f"{key} begins and had {course.state} already")
        course.intents.append(Intent(data["attempt"], data["digest"], self._now(), len(course.approvals)))
        course.state = "running"

    def _answered_so(self, key: Key, word: str, attempt: int) -> bool:
        """Whether a question about this attempt has that answer, which the run has not heard yet."""
        asked = [a for a in self.asked.values() if a.kind == "outcome" and a.word == word]
        return any((key, attempt) == (k, shown["attempt"]) for a in asked for k, shown in a.subjects.values())

    def _settled(self, key: Key, state: str, attempt: int) -> None:
        course = self.course(key)
        if state in ("denied", "skipped") and course.begun.get(attempt):
            self.wrong(f"{key} is {state} and happened")
        if course.state in ENDED:
            self.wrong(f"{key} is {state} and had {course.state} already")
        course.state = state

    def _resolved(self, key: Key, data: dict[str, Any]) -> None:
        course, word, name = self.course(key), data["word"], data.get("decision")
        if data["attempt"] != len(course.intents):
            self.wrong(f"{key} was resolved for attempt {data['attempt']} of {len(course.intents)}")
        if name is None:
            since = next((turn for said, turn in self.resolved if said == (*key, word)), None)
            if since is None:
                self.wrong(f"{key} was resolved with {word}, and nobody said that")
            elif not self._answered_so(key, word, data["attempt"]) and all(
                edition.document is not None and edition.doors() for edition in self.policy.in_force(since)
            ):
                self.wrong(f"{key} was resolved with {word} where only a person may answer")
        if name is not None:
            asked = self.asked[name]
            if asked.word != word or [(subject, shown["attempt"]) for subject, shown in asked.subjects.values()] != [
                (key, data["attempt"])
            ]:
                self.wrong(f"{key} was resolved with {word} by {name}, which says {asked.word}")
            asked.word = None
        course.retries += word == "retry"

    # -- what happened -----------------------------------------------------------------------------------------

    def begins(self, process: Life, capability: str, text: str, digest: str) -> None:
        """An effect begins now."""
        self.look()
        self.effects += 1
        found = [(key, n) for key, c in self.courses.items() for n, i in enumerate(c.intents) if i.digest == digest]
        self.say(f"  * {capability} {text} begins in {process.name} ({found[0][0] if found else '?'})")
        if not found:
            self.wrong(f"{capability} {text} happens without an intent")
            return
        key, number = found[-1]
        course = self.course(key)
        intent = course.intents[number]
        attempt = intent.attempt
        step = self._step(key)
        if step["capability"] != capability or text != self._text(key):
            self.wrong(f"{key} happens as {capability} {text}")
        course.begun[attempt] = course.begun.get(attempt, 0) + 1
        if course.begun[attempt] > 1:
            self.wrong(f"{key} happens twice in attempt {attempt}")
        times = sum(course.begun.values())
        if capability not in REPEATABLE and times > 1 + course.retries:
            self.wrong(f"{key} happens {times} times after {course.retries} retries that somebody asked for")
        self._permitted(process, capability, key, course, intent)

    def _permitted(self, process: Life, capability: str, key: Key, course: Course, intent: Intent) -> None:
        before = [a for a in course.approvals[: intent.approvals] if a.attempt == intent.attempt and not a.used]
        used = [a for a in before if intent.at < a.at + self._grant_seconds]
        reasons: list[str] = []
        for edition in self.policy.in_force(self._turn() - TURNS_OF_GRACE):
            reason = self._against(edition, process, capability, used)
            if reason is None:
                return
            reasons.append(reason)
        self.wrong(f"{key} happens in attempt {intent.attempt}: {'; '.join(reasons)}")

    def _against(self, edition: Edition, process: Life, capability: str, approvals: list[Approval]) -> str | None:
        """Why the action may not happen under this policy; uses an approval where that lets it happen."""
        standing = [edition] if edition.document is not None else self.policy.good(process.since)
        reason = "the policy cannot be used"
        for document in standing:
            effect = document.effect(capability)
            if effect == "ALLOW" and edition.document is not None:
                return None
            if effect == "DENY":
                reason = "policy denies it"
                continue
            doors = document.doors()
            fitting = [a for a in approvals if doors is None or a.door in doors]
            if fitting:
                fitting[0].used = True
                return None
            reason = f"it needs approval ({doors or 'caller'}) and has {[a.door for a in approvals] or 'none'}"
        return reason

    def _step(self, key: Key) -> dict[str, Any]:
        step: dict[str, Any] = self.stories[self.runs[key[0]]].steps[key[1]]
        return step

    def _source(self, key: Key) -> str | None:
        """The step whose output this action's text is, or whose items it is one of."""
        step = self._step(key)
        if "for_each" in step:
            return str(step["for_each"]["$from"])
        value = step["arguments"]["text"]
        return str(value["$from"]) if isinstance(value, dict) and "$from" in value else None

    def _text(self, key: Key) -> str:
        """What the action must be about, from the plan alone: every capability answers what it was given."""
        run, _, item = key
        source = self._source(key)
        if source is None:
            return str(self._step(key)["arguments"]["text"])
        text = self._text((run, source, None))
        return text if item is None else f"{text}/{item}"

    # -- the end -----------------------------------------------------------------------------------------------

    def at_the_end(self) -> None:
        """Everything came to its end, and says what happened."""
        self.look()
        for run in self.runs:
            if run not in self.ended:
                self.wrong(f"run {run} never came to an end")
        for key, course in self.courses.items():
            if course.state == "running":
                self.wrong(f"{key} is running for ever")
        self.check()


def _same(one: Any, other: Any) -> bool:
    """Whether a person was shown the same thing twice."""
    parts = ("capability", "arguments", "attempt", "definition")
    verdict = ("effect", "rule", "mode", "doors")
    return all(one[name] == other[name] for name in parts) and all(
        one["verdict"].get(name) == other["verdict"].get(name) for name in verdict
    )


def rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return database.execute(statement).fetchall()
