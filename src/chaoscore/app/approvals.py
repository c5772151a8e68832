"""Answering what runs ask: one way in for every door.

A door shows a ``RunDecision`` from the database and sends back what the person chose, with the digest of the question
that was shown. What is checked, recorded and told to the run is the same whichever door it came through: the first
valid answer stands, the others hear who gave it. spec: kernel contract §4; DESIGN laws 4 and 7.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from chaoscore.app.approval_ports import ApproverPin
from chaoscore.app.runs.book import RunBook
from chaoscore.app.runs.supervisor import Supervisor
from chaoscore.domain.action import Grant
from chaoscore.domain.approval import DecisionState, RunDecision, RunResponse
from chaoscore.domain.errors import Conflict, InvalidInput, NotFound
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.principal import Principal
from chaoscore.domain.records import RUN_FINISHED

log = logging.getLogger(__name__)

AnswerDoor = Literal["web", "terminal", "folder", "bridge", "elicitation", "caller"]
PIN_DOORS: frozenset[str] = frozenset({"web", "terminal"})
"""The doors at which a person proves with the approver's PIN that it is they, where the policy wants a person."""

Answered = Callable[[RunDecision], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came through a door. ``digest`` is that of the question which was shown; ``approver`` names who answered as
    the door knows them, ``connection`` the connection it came over, if any."""

    decision: str
    choice: Choice
    digest: str
    door: AnswerDoor
    approver: str
    pin: str | None = None
    connection: str | None = None


class Approvals:
    """One per process."""

    def __init__(self, book: RunBook, supervisor: Supervisor, pin: ApproverPin | None) -> None:
        self._book = book
        self._supervisor = supervisor
        self._pin = pin
        self._listeners: list[Answered] = []

    def on_answer(self, hear: Answered) -> None:
        """Hear of every answer that this process recorded, once it is durable."""
        self._listeners.append(hear)

    # -- looking ---------------------------------------------------------------------------------------------

    async def waiting(
        self, principal: Principal | None, limit: int = 50, cursor: str | None = None
    ) -> tuple[tuple[RunDecision, ...], str | None]:
        """What waits, oldest first. ``None`` is the operator, who sees all. What ran out of time waits no more, even
        where the run has not heard of it yet."""
        found, following = await self._book.decisions.list_decisions(("waiting",), limit, cursor, principal)
        now = self._book.clock.now()
        return tuple(decision for decision in found if decision.is_open(now)), following

    async def past(
        self, principal: Principal | None, limit: int = 50, cursor: str | None = None
    ) -> tuple[tuple[RunDecision, ...], str | None]:
        """What does not wait any more, newest first."""
        states: Sequence[DecisionState] = ("answered", "expired", "superseded", "cancelled")
        return await self._book.decisions.list_decisions(states, limit, cursor, principal, newest_first=True)

    async def find(self, decision: str) -> RunDecision:
        """Raises ``NotFound``."""
        found = await self._book.decisions.find_decision(decision)
        if found is None:
            raise NotFound(f"there is no decision {decision[:200]!r}; 'chaoscore decide' lists those that wait")
        return found

    def pin_is_set(self) -> bool:
        return self._pin is not None and self._pin.is_set()

    def needs_pin(self, decision: RunDecision, door: str) -> bool:
        return decision.mode == "human" and door in PIN_DOORS

    # -- answering -------------------------------------------------------------------------------------------

    async def answer(self, answer: Answer) -> RunDecision:
        """Record an answer with its grants and let the run go on where it is in motion; the decision as answered.

        Raises ``Conflict`` (answered already, by whom; expired; ended), ``InvalidInput`` (another question than the one
        that waits, an option that is not there, a door that the policy does not list), ``PinRefused``, ``NotFound``.
        Nothing was recorded then.
        """
        book = self._book
        decision = await self.find(answer.decision)
        decision.require_open(book.clock.now())
        self._require_door(decision, answer.door)
        if answer.digest.removeprefix("sha256:") != decision.question_digest.removeprefix("sha256:"):
            raise InvalidInput(
                f"decision {decision.id!r} asks something else than what was shown; look at it again", key="digest"
            )
        options = decision.chosen(answer.choice)
        if self.needs_pin(decision, answer.door):
            await self._require_pin(answer.pin)
        run = await book.runs.load_run(decision.run)
        plan = await book.plans.plan_by_label(run.plan) if run is not None else None
        if run is None or plan is None:
            raise NotFound(f"there is no run {decision.run!r} any more")
        if run.status in RUN_FINISHED:
            raise Conflict(f"run {run.label!r} has ended: {run.status}; nothing waits for this answer", run=run.label)
        now = book.clock.now()
        # The response leaves through every door and lies in the folder: no secret, whatever a person typed (law 10).
        text, why = book.redactor.text, answer.choice.rationale
        approver = text(answer.approver)
        response = RunResponse(options, None if why is None else text(why), answer.door, approver, now)
        answered = decision.answered(response)
        grants = [
            Grant(
                f"{decision.id}/{action.option}",
                run.label,
                action.digest,
                answer.door,
                approver,
                now,
                now + book.limits.grant_seconds,
                decision=decision.id,
            )
            for action in answered.approved
        ]
        facts = book.facts_of(plan, run.label, answer.connection)
        steps = {action.digest: action for action in answered.approved}
        events = [
            facts.answered(answered),
            *(facts.granted(grant, steps[grant.digest].step, steps[grant.digest].item) for grant in grants),
        ]
        await book.decisions.answer(answered, grants, events)
        for hear in self._listeners:
            hear(answered)
        await self._supervisor.hear(run.label)
        return answered

    def _require_door(self, decision: RunDecision, door: AnswerDoor) -> None:
        if decision.mode == "human" and door not in decision.doors:
            listed = ", ".join(decision.doors) or "none"
            raise InvalidInput(
                f"the policy's approvalMode is human and its approvalDoors are {listed}: an answer through the door "
                f"{door!r} does not count",
                key="approvalDoors",
            )

    async def _require_pin(self, given: str | None) -> None:
        if self._pin is None:
            raise InvalidInput("this process cannot check the approver's PIN", key="pin")
        await self._pin.require(given)
