"""Asking the user of a call in place, where the client can show a form: one more door to a question that stands anyway.

``chaoscore_execute`` uses it after the run came to rest; the question is durable before, so nothing is lost when nobody
answers here. Accepting and declining answer; leaving the form does not.
"""

from __future__ import annotations

import asyncio

from chaoscore.app.approvals import Answer, Approvals
from chaoscore.app.elicitation import ASK_SECONDS, Elicitor, Form, FormOption, FreeText, MultiChoice, SingleChoice
from chaoscore.app.tools import CallContext
from chaoscore.domain.approval import DENY, DENY_ALL, RunDecision
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import is_array
from chaoscore.domain.records import Run

QUESTION_CHARS_MAX = 16_000
"""A longer question is not asked in place: nobody approves what a form had to cut off."""
CALL_SECONDS = 50.0
ASK_SECONDS_MIN = 5.0
CHOICE, RATIONALE = "choice", "rationale"


class InPlace:
    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def ask(self, run: Run, context: CallContext, began: float) -> bool:
        """Put the run's open questions to the user; whether any was answered, here or meanwhile somewhere else.

        ``began`` is when the call did, by the loop's clock: clients give up on a call after a minute, so one that took
        long has less time left to ask, and one that took too long does not ask.
        """
        elicitor = context.elicitor
        seconds = min(ASK_SECONDS, CALL_SECONDS - (asyncio.get_running_loop().time() - began))
        if elicitor is None or seconds < ASK_SECONDS_MIN:
            return False
        asked = [d for d in run.decisions if d.state == "waiting" and _may_ask(d)]
        answered = await asyncio.gather(*(self._one(decision, elicitor, context, seconds) for decision in asked))
        return any(answered)

    async def _one(self, decision: RunDecision, elicitor: Elicitor, context: CallContext, seconds: float) -> bool:
        given = await elicitor.ask(decision.id, form_of(decision), seconds, expires_at=decision.expires_at)
        if given is None or given.action == "cancel":
            return False
        if given.action == "decline":
            if decision.kind == "outcome":
                return False  # declining says nothing about what happened
            options: tuple[str, ...] = ()
        else:
            chosen = given.content.get(CHOICE)
            options = tuple(str(value) for value in chosen) if is_array(chosen) else (str(chosen),)
        rationale = given.content.get(RATIONALE)
        choice = _choice(decision, options, rationale if isinstance(rationale, str) and rationale.strip() else None)
        answer = Answer(
            decision.id,
            choice,
            decision.question_digest,
            "elicitation",
            context.principal.key,
            connection=context.connection.id,
        )
        try:
            await self._approvals.answer(answer)
        except ChaosError as error:
            return error.code == "VERSION_CONFLICT"  # somebody else was first: look at the run again
        return True


def form_of(decision: RunDecision) -> Form:
    """The question as a form, of the stored facts alone."""
    question = decision.question
    options = tuple(FormOption(option.id, option.label) for option in question.options if option.id not in (DENY_ALL,))
    choice: SingleChoice | MultiChoice
    if question.interaction_type == "multi-choice-decision":
        choice = MultiChoice(
            name=CHOICE,
            title="What may run",
            description="what is not chosen is denied, now and later in this run",
            options=options,
        )
    else:
        choice = SingleChoice(name=CHOICE, title="Your answer", options=options)
    why = FreeText(name=RATIONALE, title="Why", description="kept with your answer", required=False)
    return Form(f"{question.title}\n\n{question.context}", (choice, why))


def _may_ask(decision: RunDecision) -> bool:
    if decision.mode == "human" and "elicitation" not in decision.doors:
        return False
    return len(decision.question.title) + len(decision.question.context) <= QUESTION_CHARS_MAX


def _choice(decision: RunDecision, options: tuple[str, ...], rationale: str | None) -> Choice:
    if decision.question.interaction_type == "multi-choice-decision":
        return Choice(None, options or (DENY_ALL,), None, rationale)
    return Choice(options[0] if options else DENY, (), None, rationale)
