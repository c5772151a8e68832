"""Answers from the page: to runs through ``Approvals``, to agents through the interaction runtime, one or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chaoscore.app.approvals import Answer, Approvals
from chaoscore.app.center.folders import Folder
from chaoscore.app.center.inbox import RUNS
from chaoscore.app.copyable import PLAIN, Copyable, roots_of
from chaoscore.app.interactions.deciding import AnswerRequest
from chaoscore.domain.errors import ChaosError, NotFound, PinRefused
from chaoscore.domain.interaction.response import Choice, normal_source


@dataclass(frozen=True, slots=True)
class Given:
    """What a form sent: ``digest`` is that of the question which was shown."""

    source: str
    id: str
    options: tuple[str, ...]
    text: str | None
    rationale: str | None
    digest: str
    approver: str
    pin: str | None = None

    @property
    def choice(self) -> Choice:
        one = self.options[0] if len(self.options) == 1 else None
        return Choice(one, self.options if len(self.options) > 1 else (), self.text, self.rationale)


@dataclass(frozen=True, slots=True)
class Outcome:
    """``code`` is ``ANSWERED`` or the error's; ``message`` says what happened, or why nothing did."""

    source: str
    id: str
    code: str
    message: str
    go_on: str | None = None

    @property
    def ok(self) -> bool:
        return self.code == "ANSWERED"


class Answering:
    def __init__(self, approvals: Approvals, folders: Sequence[Folder], copyable: Copyable = PLAIN) -> None:
        self._copyable = copyable
        self._approvals = approvals
        self._folders = {folder.key: folder for folder in folders}

    async def answer(self, given: Given) -> Outcome:
        """Total over our own errors: what was refused is an outcome, and then nothing was recorded."""
        try:
            return await (self._of_run(given) if given.source == RUNS else self._of_agent(given))
        except ChaosError as error:
            return Outcome(given.source, given.id, error.code, error.message)

    async def answer_all(self, several: Sequence[Given], pin: str | None) -> tuple[Outcome, ...]:
        """In order. Once a PIN was refused, no further answer that needs one is tried: a typing error in a form must
        not use up the tries."""
        outcomes: list[Outcome] = []
        refused = False
        for given in several:
            if refused and await self._wants_pin(given):
                outcomes.append(
                    Outcome(given.source, given.id, PinRefused.code, "not tried, because the PIN was refused")
                )
                continue
            outcome = await self.answer(replace(given, pin=pin))
            refused = refused or outcome.code == PinRefused.code
            outcomes.append(outcome)
        return tuple(outcomes)

    async def _wants_pin(self, given: Given) -> bool:
        if given.source != RUNS:
            return False
        try:
            return self._approvals.needs_pin(await self._approvals.find(given.id), "web")
        except ChaosError:
            return False

    async def _of_run(self, given: Given) -> Outcome:
        decision = await self._approvals.answer(
            Answer(given.id, given.choice, given.digest, "web", given.approver, given.pin)
        )
        go_on = self._copyable.going_on(decision.run, roots_of(decision))
        return Outcome(given.source, given.id, "ANSWERED", "the answer is recorded", go_on)

    async def _of_agent(self, given: Given) -> Outcome:
        folder = self._folders.get(given.source)
        if folder is None:
            raise NotFound(f"there is no interactions folder {given.source[:40]!r} here")
        request = AnswerRequest(
            given.id,
            given.choice,
            given.approver,
            normal_source("manual"),  # the shared contract has no word for this page; the metadata names it
            given.digest or None,
            metadata={"door": "web"},
        )
        envelope = await folder.service.answer(request)
        if not envelope.ok:
            return Outcome(given.source, given.id, envelope.error_code or envelope.status, envelope.message)
        folder.forget(given.id)
        ready = envelope.data.get("sessionState") == "ready-to-resume"
        return Outcome(
            given.source,
            given.id,
            "ANSWERED",
            "the answer is recorded",
            Copyable(folder=("--root", folder.root))("resume") if ready else None,
        )
