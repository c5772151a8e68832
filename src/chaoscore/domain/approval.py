"""What a run asks a person: approve these actions, or say what became of one whose outcome is unknown.

A ``RunDecision`` is a row beside the run; ``question`` is the very document that every door shows and that lies in the
interactions folder, and ``question_digest`` is what an answer must match. ``chaoscore.app.runs.asking`` writes them,
``chaoscore.app.approvals`` takes the answers. What a person may choose, and what a choice means, is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from chaoscore.domain.action import Event
from chaoscore.domain.errors import Conflict, InvalidInput
from chaoscore.domain.interaction.decision import Decision
from chaoscore.domain.interaction.response import Choice, accepted
from chaoscore.domain.json import Json, JsonObject, equal, is_array, is_object, pointer_join
from chaoscore.domain.policy.model import ApprovalMode

DecisionKind = Literal["approval", "outcome"]
DecisionState = Literal["waiting", "answered", "expired", "superseded", "cancelled"]

APPROVE, DENY, DENY_ALL = "approve", "deny", "deny-all"
OUTCOME_WORDS: dict[str, Event] = {"retry": "retry", "happened": "happened", "give-up": "give-up"}
ACTIONS_PER_DECISION_MAX = 50
DIFFERENCES_MAX = 50


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which two JSON values differ; a side that has nothing there is ``absent``."""

    pointer: str
    before: Json = None
    after: Json = None
    absent: Literal["before", "after"] | None = None

    def to_json(self) -> dict[str, Json]:
        out: dict[str, Json] = {"pointer": self.pointer}
        if self.absent != "before":
            out["before"] = self.before
        if self.absent != "after":
            out["after"] = self.after
        return out


@dataclass(frozen=True, slots=True)
class AskedAction:
    """One action that a decision is about. ``option`` is the id that approves it, ``digest`` what a grant fits.

    ``shown`` is what the person saw, secrets left out: capability, arguments, verdict, where each value came from.
    ``changed`` are the differences to what was shown, or approved, before.
    """

    option: str
    step: str
    item: int | None
    digest: str
    shown: JsonObject
    changed: tuple[Difference, ...] = ()

    @property
    def key(self) -> tuple[str, int | None]:
        return (self.step, self.item)

    def to_json(self) -> dict[str, Json]:
        return {
            "option": self.option,
            "step": self.step,
            "item": self.item,
            "digest": self.digest,
            **self.shown,
            "changed": [difference.to_json() for difference in self.changed],
        }


@dataclass(frozen=True, slots=True)
class RunResponse:
    """A person's answer as it was accepted. ``at`` is seconds since the epoch, UTC."""

    options: tuple[str, ...]
    rationale: str | None
    door: str
    approver: str
    at: float

    def to_json(self) -> dict[str, Json]:
        return {
            "options": list(self.options),
            "rationale": self.rationale,
            "door": self.door,
            "approver": self.approver,
            "at": self.at,
        }


@dataclass(frozen=True, slots=True)
class RunDecision:
    """``root`` is the interactions folder that mirrors it, ``None`` where there is none. ``applied``: the run has taken
    the answer, or the end without one, into account. Times are seconds since the epoch."""

    id: str
    run: str
    kind: DecisionKind
    question: Decision
    question_digest: str
    actions: tuple[AskedAction, ...]
    mode: ApprovalMode
    doors: tuple[str, ...]
    root: str | None
    created_at: float
    expires_at: float
    state: DecisionState = "waiting"
    response: RunResponse | None = None
    applied: bool = False

    def is_open(self, now: float) -> bool:
        return self.state == "waiting" and now < self.expires_at

    def has_expired(self, now: float) -> bool:
        return self.state == "expired" or (self.state == "waiting" and now >= self.expires_at)

    @property
    def approved(self) -> tuple[AskedAction, ...]:
        """The actions that the response approves."""
        if self.kind != "approval" or self.response is None:
            return ()
        return tuple(action for action in self.actions if action.option in self.response.options)

    @property
    def denied(self) -> tuple[AskedAction, ...]:
        """The actions that the response does not approve; what was not selected is denied."""
        if self.kind != "approval" or self.response is None:
            return ()
        return tuple(action for action in self.actions if action.option not in self.response.options)

    @property
    def word(self) -> Event | None:
        """What is to be done about an unknown outcome, once somebody said so."""
        if self.kind != "outcome" or self.response is None:
            return None
        return OUTCOME_WORDS[self.response.options[0]]

    def chosen(self, given: Choice) -> tuple[str, ...]:
        """The options of an answer as they are kept. Raises ``InvalidInput`` naming the key."""
        choice = accepted(self.question, given)
        options = choice.option_ids or ((choice.option_id,) if choice.option_id is not None else ())
        if DENY_ALL in options and len(options) > 1:
            raise InvalidInput(
                f"selectedOptionIds: {DENY_ALL!r} stands alone; choose it, or the actions to approve",
                key="selectedOptionIds",
            )
        return options

    def answered(self, response: RunResponse) -> RunDecision:
        """Raises ``Conflict`` saying who answered, or how it ended, when it no longer waits."""
        self.require_open(response.at)
        return replace(self, state="answered", response=response)

    def require_open(self, now: float) -> None:
        if self.state == "answered" and self.response is not None:
            raise Conflict(
                f"decision {self.id!r} was answered already by {self.response.approver} ({self.response.door}); the "
                "first answer stands",
                decision=self.id,
                response=self.response.to_json(),
            )
        if self.has_expired(now):
            raise Conflict(f"decision {self.id!r} has expired: what it asked about is denied", decision=self.id)
        if self.state != "waiting":
            raise Conflict(f"decision {self.id!r} is {self.state}; look at the run again", decision=self.id)


@dataclass(frozen=True, slots=True)
class WaitingDecision:
    """A question as a list shows it, without its body. ``place`` orders them, oldest first, and continues a list;
    ``capabilities`` are those it asks about, each once, ``summary`` says briefly what for. Times are seconds since the
    epoch."""

    place: int
    id: str
    run: str
    kind: DecisionKind
    title: str
    interaction_type: str
    mode: ApprovalMode
    capabilities: tuple[str, ...]
    summary: str
    actions: int
    digest: str
    created_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class WaitingRef:
    """A question that waits, without its content."""

    id: str
    run: str
    root: str | None


def option_id(step: str, item: int | None) -> str:
    """The option that approves one action of several."""
    return f"approve:{step}" if item is None else f"approve:{step}:{item}"


def denials(decisions: Iterable[RunDecision], now: float) -> dict[tuple[str, int | None], RunDecision]:
    """By step and item, the decision that denied the action: a person's no, and a question nobody answered in time.

    A yes is for one digest; a no is for the action, in this run and for good, whatever the policy says later: that is
    what whoever says it is told.
    """
    found: dict[tuple[str, int | None], RunDecision] = {}
    for decision in decisions:
        if decision.kind != "approval":
            continue
        refused = decision.actions if decision.has_expired(now) else decision.denied
        found.update({action.key: decision for action in refused})
    return found


def differences(before: Json, after: Json) -> tuple[Difference, ...]:
    """Where two values differ, in order, at most ``DIFFERENCES_MAX``; the last one then says that there are more."""
    found: list[Difference] = []
    for difference in _walk(before, after, ()):
        if len(found) == DIFFERENCES_MAX:
            found.append(Difference("…", "there are more differences", "compare the whole"))
            break
        found.append(difference)
    return tuple(found)


def _walk(before: Json, after: Json, place: tuple[str | int, ...]) -> Iterator[Difference]:
    if is_object(before) and is_object(after):
        for key in (*before, *(key for key in after if key not in before)):
            here = (*place, key)
            if key not in after:
                yield Difference(pointer_join(*here), before[key], None, "after")
            elif key not in before:
                yield Difference(pointer_join(*here), None, after[key], "before")
            else:
                yield from _walk(before[key], after[key], here)
    elif is_array(before) and is_array(after):
        yield from _walk_lists(before, after, place)
    elif not equal(before, after):
        yield Difference(pointer_join(*place), before, after)


def _walk_lists(before: Sequence[Json], after: Sequence[Json], place: tuple[str | int, ...]) -> Iterator[Difference]:
    for index in range(max(len(before), len(after))):
        here = (*place, index)
        if index >= len(after):
            yield Difference(pointer_join(*here), before[index], None, "after")
        elif index >= len(before):
            yield Difference(pointer_join(*here), None, after[index], "before")
        else:
            yield from _walk(before[index], after[index], here)
