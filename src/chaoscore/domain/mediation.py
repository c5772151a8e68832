"""The mediation proof: shows from audit events alone that nothing happened past the gate (laws 1, 2, 4 and 5).

``audit.verify_chain`` stands above it and proves that the events are the ones that were written. This module proves
what they say: every effect rests on a verdict given just before it, every effect that needed approval on a grant of its
own that still held, every grant on an answer that approved exactly this, every answer on a question that asked exactly
this, and every result on an intent. It trusts nothing but the events before the one it looks at, so it finds a fault of
the kernel as well as one of whoever holds the key.

It walks once and forgets a run when the run's status event says that it ended; of such a run only the actions remain
whose outcome nobody knew by then, because a person may still say what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chaoscore.domain.json import Json, JsonObject, is_array, is_object

ENDS = frozenset({"run-completed", "run-failed", "run-cancelled"})
NOTHING_RAN = frozenset(
    {
        "ARGUMENTS_INVALID",
        "ITEMS_NOT_ARRAY",
        "LIMIT_EXCEEDED",
        "REFERENCE_MISSING",
        "TOO_MANY_ITEMS",
        "UNKNOWN_CAPABILITY",
    }
)
"""Errors that an action can end with before anything of it ran; all others come from an effect."""

RULES: dict[str, str] = {
    "run-not-open": "everything about a run comes after its run-opened and before its end",
    "intent-without-verdict": "an intent needs its own verdict on the same attempt and digest, given after its grant",
    "intent-refused": "an intent has its verdict's effect, and that is ALLOW or REQUIRE_APPROVAL",
    "intent-repeated": "an attempt begins once, and an action that ended does not begin again",
    "intent-without-grant": "where approval is required, an intent names a grant given before it for its digest",
    "grant-used-twice": "a grant is used once",
    "grant-expired": "a grant is used before it expires",
    "grant-repeated": "a grant is given once",
    "grant-without-decision": "a grant needs an answer in this run that approved its digest, unless a caller confirmed",
    "question-repeated": "a decision is asked once",
    "answer-without-question": "an answer is to a question of this run, as asked, about what it asked",
    "answer-repeated": "the first answer stands",
    "answer-too-late": "a decision that expired, was superseded or cancelled takes no answer",
    "denied-before": "a person's no is final for this digest in this run",
    "door-not-allowed": "a person answers through a door that the verdict names, and a caller is no person",
    "result-without-intent": "a result needs an intent of the same attempt and digest, unless it says that nothing ran",
}
"""What is proved, by the name that a fault carries."""

Key = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """The event that lacks what it should rest on. ``event`` is its sequence number, ``rule`` a name of ``RULES``."""

    event: int
    kind: str
    run: str | None
    step: str | None
    item: int | None
    rule: str
    message: str

    def __str__(self) -> str:
        places = (("run", self.run), ("step", self.step), ("item", self.item))
        where = "".join(f", {name} {place}" for name, place in places if place is not None)
        return f"event {self.event} ({self.kind}{where}): {self.message}"

    def to_json(self) -> dict[str, Json]:
        return {
            "event": self.event,
            "kind": self.kind,
            "run": self.run,
            "step": self.step,
            "item": self.item,
            "rule": self.rule,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True)
class MediationReport:
    """What was looked at up to the end, or up to ``fault``: runs opened, effects begun, grants used for them."""

    runs: int = 0
    effects: int = 0
    approvals: int = 0
    fault: Fault | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "ok": self.fault is None,
            "runs": self.runs,
            "effects": self.effects,
            "approvals": self.approvals,
            "fault": self.fault.to_json() if self.fault is not None else None,
        }


@dataclass(slots=True)
class _Event:
    seq: int
    kind: str
    at: float
    run: str
    key: Key
    data: JsonObject

    def text(self, name: str) -> str | None:
        value = self.data.get(name)
        return value if isinstance(value, str) else None

    def texts(self, name: str) -> frozenset[str]:
        return _texts(self.data.get(name))

    @property
    def attempt(self) -> int | None:
        value = self.data.get("attempt")
        return value if isinstance(value, int) else None

    @property
    def error(self) -> Json:
        error = self.data.get("error")
        return error.get("code") if is_object(error) else None


@dataclass(slots=True)
class _Verdict:
    """``mode`` is ``None`` in events of a version that did not write it."""

    seq: int
    attempt: int | None
    digest: str | None
    effect: str | None
    mode: str | None
    doors: frozenset[str]


@dataclass(slots=True)
class _Grant:
    seq: int
    digest: str | None
    door: str | None
    decision: str | None
    expires_at: float
    used_at: int | None = None


@dataclass(slots=True)
class _Decision:
    question: str | None
    subjects: frozenset[str]
    ended: str | None = None
    answered_at: int | None = None
    approved: frozenset[str] = frozenset()
    door: str | None = None
    approver: str | None = None


@dataclass(slots=True)
class _Action:
    """``intents`` are the attempts begun, each with its digest; ``open``: the newest has no result that is known."""

    verdict: _Verdict | None = None
    intents: tuple[tuple[int | None, str], ...] = ()
    open: bool = False
    ended: bool = False

    def digest_of(self, attempt: int | None) -> str | None:
        return next((digest for begun, digest in self.intents if begun == attempt), None)


@dataclass(slots=True)
class _Run:
    actions: dict[Key, _Action] = field(default_factory=dict)
    grants: dict[str, _Grant] = field(default_factory=dict)
    decisions: dict[str, _Decision] = field(default_factory=dict)
    denied: dict[str, int] = field(default_factory=dict)
    over: bool = False

    def action(self, key: Key) -> _Action:
        found = self.actions.get(key)
        if found is None:
            found = self.actions[key] = _Action()
        return found


class Mediation:
    """One walk over an audit, from its first event. Total: whatever an event holds, ``step`` answers."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._opened = 0
        self._effects = 0
        self._approvals = 0
        self._first: Fault | None = None

    @property
    def open_runs(self) -> int:
        """How many runs are kept in mind."""
        return len(self._runs)

    @property
    def is_sound(self) -> bool:
        """Whether nothing was wrong so far."""
        return self._first is None

    def report(self) -> MediationReport:
        return MediationReport(self._opened, self._effects, self._approvals, self._first)

    def step(self, seq: int, event: JsonObject) -> Fault | None:
        """Look at the next event. Answers what is wrong with it; the report keeps the first fault."""
        kind, label = event.get("kind"), event.get("run")
        look = _LOOKS.get(kind) if isinstance(kind, str) else None
        if look is None or not isinstance(label, str) or not isinstance(kind, str):
            return None
        at, step, item, data = event.get("at"), event.get("step"), event.get("item"), event.get("data")
        seen = _Event(
            seq,
            kind,
            _number(at),
            label,
            (step if isinstance(step, str) else None, item if isinstance(item, int) else None),
            data if is_object(data) else {},
        )
        wrong = look(self, seen)
        if wrong is None:
            return None
        rule, message = wrong
        fault = Fault(seq, kind, label, seen.key[0], seen.key[1], rule, message)
        if self._first is None:
            self._first = fault
        return fault

    # -- the run ---------------------------------------------------------------------------------------------

    def _open(self, event: _Event) -> _Wrong:
        if event.run in self._runs:
            return "run-not-open", "this run was opened before"
        self._runs[event.run] = _Run()
        self._opened += 1
        return None

    def _end(self, event: _Event) -> _Wrong:
        run = self._going(event)
        if run is None:
            return _NOT_OPEN
        left = {key: _Action(intents=a.intents[-1:], open=True) for key, a in run.actions.items() if a.open}
        if left:
            self._runs[event.run] = _Run(left, over=True)
        else:
            del self._runs[event.run]
        return None

    def _going(self, event: _Event) -> _Run | None:
        run = self._runs.get(event.run)
        return run if run is not None and not run.over else None

    # -- verdict, intent, result -----------------------------------------------------------------------------

    def _verdict(self, event: _Event) -> _Wrong:
        run = self._going(event)
        if run is None:
            return _NOT_OPEN
        run.action(event.key).verdict = _Verdict(
            event.seq,
            event.attempt,
            event.text("digest"),
            event.text("effect"),
            event.text("mode"),
            event.texts("doors"),
        )
        return None

    def _intent(self, event: _Event) -> _Wrong:
        run = self._going(event)
        if run is None:
            return _NOT_OPEN
        self._effects += 1
        action, digest, attempt = run.action(event.key), event.text("digest"), event.attempt
        verdict, action.verdict = action.verdict, None
        wrong = _begins_again(action, attempt) or _unjudged(verdict, event)
        action.intents = (*action.intents, (attempt, digest or ""))
        action.open = True
        if wrong is not None or verdict is None or digest is None:
            return wrong
        if digest in run.denied:
            return "denied-before", f"event {run.denied[digest]} denied exactly this"
        return self._approved(run, verdict, event) if verdict.effect == "REQUIRE_APPROVAL" else None

    def _approved(self, run: _Run, verdict: _Verdict, event: _Event) -> _Wrong:
        name = event.text("grant")
        grant = run.grants.get(name) if name is not None else None
        if grant is None:
            what = "it names no grant" if name is None else f"grant {name} was not given in this run before it"
            return "intent-without-grant", f"it needed approval, and {what}"
        if grant.digest != verdict.digest:
            return "intent-without-grant", f"grant {name} (event {grant.seq}) is for something else"
        if grant.used_at is not None:
            return "grant-used-twice", f"grant {name} was used by event {grant.used_at}"
        grant.used_at = event.seq
        self._approvals += 1
        if not event.at < grant.expires_at:
            return "grant-expired", f"grant {name} (event {grant.seq}) had expired"
        if verdict.seq < grant.seq:
            return "intent-without-verdict", f"the policy was not asked again after grant {name} (event {grant.seq})"
        return _wrong_door(verdict, grant)

    def _result(self, event: _Event) -> _Wrong:
        run = self._runs.get(event.run)
        if run is None:
            return _NOT_OPEN
        unknown = event.kind == "action-outcome-unknown"
        action = run.actions.get(event.key)
        begun = action.digest_of(event.attempt) if action is not None else None
        wrong = _unfounded(event, action, begun)
        action = run.action(event.key)
        action.open, action.ended, action.verdict = unknown, not unknown, None
        self._let_go(event, run, action)
        return wrong

    def _refusal(self, event: _Event) -> _Wrong:
        """``action-denied`` and ``action-skipped``: nothing runs from here on."""
        run = self._runs.get(event.run)
        if run is None:
            return _NOT_OPEN
        action = run.action(event.key)
        action.ended, action.open, action.verdict = True, False, None
        digest = event.text("digest")
        if event.error == "DENIED_BY_PERSON" and digest is not None:
            run.denied.setdefault(digest, event.seq)
        self._let_go(event, run, action)
        return None

    def _again(self, event: _Event) -> _Wrong:
        """``action-pending``: another attempt is possible; what became of the last one is settled."""
        run = self._runs.get(event.run)
        if run is None:
            return _NOT_OPEN
        action = run.action(event.key)
        action.open, action.verdict = False, None
        self._let_go(event, run, action)
        return None

    def _late(self, event: _Event) -> _Wrong:
        run = self._going(event)  # of a run that ended, nothing is known any more
        if run is None:
            return None
        action = run.actions.get(event.key)
        if action is None or action.digest_of(event.attempt) is None:
            return "result-without-intent", "a late result of an attempt that no intent began"
        return None

    def _let_go(self, event: _Event, run: _Run, action: _Action) -> None:
        if not run.over or action.open:
            return
        del run.actions[event.key]
        if not run.actions:
            del self._runs[event.run]

    # -- question, answer, grant -----------------------------------------------------------------------------

    def _asked(self, event: _Event) -> _Wrong:
        run, name, question = self._going(event), event.text("decision"), event.text("question")
        if run is None:
            return _NOT_OPEN
        if name is None:
            return "answer-without-question", "it names no decision"
        known = run.decisions.get(name)
        if known is not None:
            return "question-repeated", f"decision {name} was asked before"
        subjects = event.data.get("subjects")
        listed = subjects if is_array(subjects) else ()
        digests = frozenset(d for s in listed if is_object(s) and isinstance(d := s.get("digest"), str))
        run.decisions[name] = _Decision(question, digests)
        before = run.decisions.get(event.text("supersedes") or "")
        if before is not None:
            before.ended = before.ended or "superseded"
        return None

    def _answered(self, event: _Event) -> _Wrong:
        run, name = self._going(event), event.text("decision")
        if run is None:
            return _NOT_OPEN
        decision = run.decisions.get(name) if name is not None else None
        approved, denied = event.texts("approved"), event.texts("denied")
        wrong = _unanswerable(name, decision, event, approved | denied)
        refused = next((digest for digest in sorted(approved) if digest in run.denied), None)
        if wrong is None and refused is not None:
            wrong = "denied-before", f"event {run.denied[refused]} denied {_brief(refused)}, which it approves"
        if wrong is None and approved & denied:
            wrong = "denied-before", f"it approves and denies {_brief(min(approved & denied))}"
        for digest in denied:
            run.denied.setdefault(digest, event.seq)
        if wrong is None and decision is not None:
            decision.answered_at, decision.approved, decision.subjects = event.seq, approved, frozenset()
            decision.door, decision.approver = event.text("door"), event.text("approver")
        return wrong

    def _ended(self, event: _Event) -> _Wrong:
        run = self._runs.get(event.run)
        decision = run.decisions.get(event.text("decision") or "") if run is not None else None
        state = event.text("state")
        if decision is not None and state in ("expired", "superseded", "cancelled"):
            decision.ended, decision.subjects = decision.ended or state, frozenset()
        return None

    def _granted(self, event: _Event) -> _Wrong:
        run, name, digest = self._going(event), event.text("grant"), event.text("digest")
        if run is None:
            return _NOT_OPEN
        if name is None or digest is None:
            return "grant-without-decision", "it does not say what it grants"
        if name in run.grants:
            return "grant-repeated", f"event {run.grants[name].seq} gave grant {name}"
        expires_at = _number(event.data.get("expires_at"))
        grant = _Grant(event.seq, digest, event.text("door"), event.text("decision"), expires_at)
        run.grants[name] = grant
        if digest in run.denied:
            return "denied-before", f"event {run.denied[digest]} denied exactly this"
        verdict = run.action(event.key).verdict
        return _undecided(run, grant, event) or (
            _wrong_door(verdict, grant) if verdict is not None and verdict.digest == digest else None
        )


_Wrong = tuple[str, str] | None
_NOT_OPEN = ("run-not-open", "this run was not opened before it, or has ended")
_LOOKS: Mapping[str, Callable[[Mediation, _Event], _Wrong]] = {
    "run-opened": Mediation._open,
    **dict.fromkeys(ENDS, Mediation._end),
    "verdict-given": Mediation._verdict,
    "intent-recorded": Mediation._intent,
    "action-succeeded": Mediation._result,
    "action-failed": Mediation._result,
    "action-outcome-unknown": Mediation._result,
    "action-denied": Mediation._refusal,
    "action-skipped": Mediation._refusal,
    "action-pending": Mediation._again,
    "late-result-kept": Mediation._late,
    "decision-asked": Mediation._asked,
    "decision-answered": Mediation._answered,
    "decision-ended": Mediation._ended,
    "grant-given": Mediation._granted,
}


def _begins_again(action: _Action, attempt: int | None) -> _Wrong:
    if action.ended:
        return "intent-repeated", "the action had ended already"
    if any(begun == attempt for begun, _ in action.intents):
        return "intent-repeated", f"attempt {attempt} had begun already"
    return None


def _unjudged(verdict: _Verdict | None, event: _Event) -> _Wrong:
    digest, effect = event.text("digest"), event.text("effect")
    if verdict is None:
        return "intent-without-verdict", "no verdict was given on it"
    known = digest is not None and event.attempt is not None
    if not known or (verdict.digest, verdict.attempt) != (digest, event.attempt):
        return "intent-without-verdict", f"the verdict before it (event {verdict.seq}) is on something else"
    if verdict.effect not in ("ALLOW", "REQUIRE_APPROVAL"):
        return "intent-refused", f"the verdict (event {verdict.seq}) is {verdict.effect}"
    if effect != verdict.effect:
        return "intent-refused", f"it says {effect}, the verdict (event {verdict.seq}) {verdict.effect}"
    return None


def _unfounded(event: _Event, action: _Action | None, begun: str | None) -> _Wrong:
    """What is wrong with a result, given the digest that its attempt began with."""
    if begun is not None:
        if event.text("digest") != begun:
            return "result-without-intent", "its digest is not the one that this attempt began with"
        return None
    if event.data.get("started") is True:
        return "result-without-intent", "it says that the action had started, and no intent began this attempt"
    judged = action.verdict if action is not None else None
    if event.kind == "action-failed" and event.error in NOTHING_RAN and (judged is None or judged.effect != "ALLOW"):
        return None
    # A predecessor's result is taken over before a verdict is recorded.
    if event.kind == "action-succeeded" and event.error is None and judged is None:
        return None
    return "result-without-intent", f"no intent began attempt {event.attempt}"


def _unanswerable(name: str | None, decision: _Decision | None, event: _Event, about: frozenset[str]) -> _Wrong:
    if decision is None:
        return "answer-without-question", f"decision {name} was not asked in this run before it"
    if decision.answered_at is not None:
        return "answer-repeated", f"event {decision.answered_at} answered decision {name}"
    if decision.ended is not None:
        return "answer-too-late", f"decision {name} was {decision.ended}"
    if decision.question is None or event.text("question") != decision.question:
        return "answer-without-question", f"decision {name} asked another question"
    unasked = sorted(about - decision.subjects)
    if unasked:
        return "answer-without-question", f"decision {name} did not ask about {_brief(unasked[0])}"
    return None


def _undecided(run: _Run, grant: _Grant, event: _Event) -> _Wrong:
    """What is wrong with the decision that a grant should come from. Events of older versions do not name one."""
    if grant.decision is None:
        if "decision" in event.data and grant.door != "caller":
            return "grant-without-decision", f"door {grant.door} gave it without a decision"
        return None
    decision = run.decisions.get(grant.decision)
    if decision is None or decision.answered_at is None:
        return "grant-without-decision", f"decision {grant.decision} was not answered in this run before it"
    if grant.digest not in decision.approved:
        return (
            "grant-without-decision",
            f"the answer to decision {grant.decision} (event {decision.answered_at}) did not approve this",
        )
    if (grant.door, event.text("approver")) != (decision.door, decision.approver):
        return (
            "grant-without-decision",
            f"the answer to decision {grant.decision} (event {decision.answered_at}) came from somebody else",
        )
    return None


def _wrong_door(verdict: _Verdict, grant: _Grant) -> _Wrong:
    if verdict.mode != "human":
        return None
    if grant.decision is None:
        return (
            "door-not-allowed",
            f"a person must answer (event {verdict.seq}), and door {grant.door} names no decision",
        )
    if grant.door == "caller" or grant.door not in verdict.doors:
        allowed = ", ".join(sorted(verdict.doors)) or "none"
        return (
            "door-not-allowed",
            f"door {grant.door} may not answer; the verdict (event {verdict.seq}) names {allowed}",
        )
    return None


def _texts(value: Json) -> frozenset[str]:
    return frozenset(text for text in value if isinstance(text, str)) if is_array(value) else frozenset()


def _number(value: Json) -> float:
    """Seconds; what is no number or none that a clock tells is not a number, and nothing is before that."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return float("nan")
    return float(value)


def _brief(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
