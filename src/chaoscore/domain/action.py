"""The life of one action: a step, or one item of a fan-out step. The legal order is a table.

An event that the table does not list for a state changes nothing and raises ``IllegalTransition``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from chaoscore.domain.errors import IllegalTransition
from chaoscore.domain.json import Json, JsonObject, digest
from chaoscore.domain.policy.model import Verdict

State = Literal[
    "pending",
    "running",
    "succeeded",
    "failed",
    "denied",
    "skipped",
    "waiting-for-decision",
    "outcome-unknown",
]
Event = Literal[
    "start",  # intent made durable; the effect may happen from here on
    "require",  # policy asks a person
    "deny",  # policy or a person said no
    "skip",  # something it depends on did not succeed
    "succeed",
    "fail",
    "lose",  # nobody can say whether the effect happened
    "reuse",  # a predecessor run already did exactly this
    "retry",  # it may run again: an idempotent action after a crash, or a person's word
    "happened",  # a person says that the effect did happen
    "give-up",  # a person says to stop trying
    "cancel",
]

TABLE: dict[State, dict[Event, State]] = {
    "pending": {
        "start": "running",
        "require": "waiting-for-decision",
        "deny": "denied",
        "skip": "skipped",
        "fail": "failed",  # its arguments cannot be resolved: it failed before anything ran
        "reuse": "succeeded",
        "cancel": "skipped",
    },
    "waiting-for-decision": {
        "start": "running",
        "require": "waiting-for-decision",  # what is asked changed meanwhile
        "deny": "denied",
        "fail": "failed",
        "skip": "skipped",
        "cancel": "skipped",
    },
    "running": {
        "succeed": "succeeded",
        "fail": "failed",
        "lose": "outcome-unknown",
        "retry": "pending",  # the process died; repeating it does no harm
    },
    "outcome-unknown": {
        "retry": "pending",
        "happened": "succeeded",
        "give-up": "failed",
        "cancel": "outcome-unknown",  # cancelling a run never pretends to know
    },
    "succeeded": {},
    "failed": {},
    "denied": {},
    "skipped": {},
}
FINISHED: frozenset[State] = frozenset({"succeeded", "failed", "denied", "skipped"})


def transition(state: State, event: Event) -> State:
    """The state after ``event``. Raises ``IllegalTransition`` and changes nothing when the table has no such row."""
    try:
        return TABLE[state][event]
    except KeyError:
        raise IllegalTransition(f"an action that is {state!r} cannot {event!r}", state=state, event=event) from None


@dataclass(frozen=True, slots=True)
class ActionError:
    """Why an action did not succeed; ``code`` is stable, ``message`` fit for a caller."""

    code: str
    message: str

    def to_json(self) -> dict[str, Json]:
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Action:
    """One recorded action. ``item`` is its index in a fan-out, ``None`` for a plain step.

    ``arguments`` are resolved; ``digest`` is what an approval fits (``approval_digest``). Times are seconds since the
    epoch. ``evidence`` keeps a result that arrived after the outcome had been given up as unknown.
    """

    step: str
    item: int | None
    capability: str
    state: State = "pending"
    attempt: int = 1
    arguments: JsonObject | None = None
    digest: str | None = None
    verdict: Verdict | None = None
    output: Json = None
    error: ActionError | None = None
    grant: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    evidence: Json = None

    @property
    def key(self) -> tuple[str, int | None]:
        return (self.step, self.item)

    def after(self, event: Event, **changes: object) -> Action:
        """This action after ``event``, with other fields changed along. Raises ``IllegalTransition``."""
        state = transition(self.state, event)
        return replace(self, state=state, **changes)  # type: ignore[arg-type]


def approval_digest(
    *,
    run: str,
    step: str,
    item: int | None,
    attempt: int,
    principal: str,
    capability: str,
    definition: str,
    arguments: JsonObject,
    verdict: Verdict,
) -> str:
    """What exactly an approval is for (law 4): no times, no connection ids, not the whole policy file.

    ``run`` is the run's label, ``principal`` the principal's key, ``definition`` the capability's definition digest.
    """
    return digest(
        {
            "run": run,
            "step": step,
            "item": item,
            "attempt": attempt,
            "principal": principal,
            "capability": capability,
            "definition": definition,
            "arguments": arguments,
            "verdict": verdict.bound(),
        }
    )


@dataclass(frozen=True, slots=True)
class Grant:
    """An approval of one action digest: single use, with an expiry. Times are seconds since the epoch.

    ``decision`` is the decision it comes from, ``None`` for a calling agent's ``confirmed: true``.
    """

    id: str
    run: str
    digest: str
    door: str
    approver: str
    granted_at: float
    expires_at: float
    used_at: float | None = None
    decision: str | None = None

    def fits(self, action_digest: str, now: float) -> bool:
        return self.digest == action_digest and self.used_at is None and now < self.expires_at
