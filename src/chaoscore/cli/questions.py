"""What waits for a person, in one list: what runs ask, kept in the database, and what agents ask, kept in a folder.

``chaoscore decide`` stands above it; below are the kernel and the human-decision runtime. A question of a run is always
read from the database: what lies in a folder for it is a copy that anybody could have changed, and is left out here.
Nothing is made: without a database no run asks anything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore.app.kernel.report import decision_json
from chaoscore.cli.exits import exit_of, help_of
from chaoscore.cli.interactions import envelope_exit, settings_of
from chaoscore.cli.views.decision import text_of
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.errors import ChaosError, NotFound
from chaoscore.domain.interaction.names import instant_ms, is_kernel_run
from chaoscore.domain.json import Json, JsonObject, is_array, is_object

if TYPE_CHECKING:
    from chaoscore.app.envelope import Envelope
    from chaoscore.bootstrap import Kernel
    from chaoscore.bootstrap_interaction import Interactions
    from chaoscore.cli.call import Call

PAGE = 200
RUN_QUESTIONS_MAX = 2_000
"""More questions of runs than these are not listed; they are answered by their ids."""


COPIES_LOOKED_UP_MAX = 100


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A store that could not be read: which, why, what to do, and the exit code of a command that wanted it."""

    store: str
    message: str
    help: str
    code: int

    def to_json(self) -> dict[str, Json]:
        return {"store": self.store, "message": self.message, "help": self.help}


@dataclass(slots=True)
class Questions:
    """``kernel`` is ``None`` where there is no database or it cannot be read, ``agents`` where the folder cannot.

    Once ``waiting`` has looked, ``copies`` are the ids of the questions of runs that lie in the folder, and ``cut``
    says that more runs ask than were read.
    """

    kernel: Kernel | None = None
    agents: Interactions | None = None
    data_dir: Path | None = None
    unreadable: list[Unreadable] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    cut: bool = False

    async def waiting(self, change: str | None, run: str | None) -> list[RunDecision | JsonObject]:
        """Everything that waits, oldest first; of one change or run where one is named."""
        found: list[tuple[int, str, RunDecision | JsonObject]] = [
            (int(decision.created_at * 1000), decision.id, decision)
            for decision in await self._of_runs()
            if change is None and run in (None, decision.run, decision.question.command_run_id)
        ]
        for question in await self._of_agents(change, run):
            name = text_of(question.get("decisionId"))
            if is_kernel_run(text_of(question.get("commandRunId"))):
                self.copies.append(name)
            else:
                found.append((instant_ms(text_of(question.get("createdAt"))) or 0, name, question))
        return [question for _, _, question in sorted(found, key=lambda item: item[:2])]

    async def find_run_decision(self, name: str) -> RunDecision | None:
        """The question of a run with this id, whatever became of it."""
        if self.kernel is None:
            return None
        try:
            return await self.kernel.services.approvals.find(name)
        except NotFound:
            return None
        except ChaosError as error:
            self._cannot_read_database(error)
            return None

    async def strangers(self) -> int:
        """How many of the copies belong to runs of another data directory."""
        return sum([await self.find_run_decision(name) is None for name in self.copies[:COPIES_LOOKED_UP_MAX]])

    async def _of_runs(self) -> list[RunDecision]:
        if self.kernel is None:
            return []
        found: list[RunDecision] = []
        cursor: str | None = None
        try:
            while len(found) < RUN_QUESTIONS_MAX:
                page, cursor = await self.kernel.services.approvals.waiting(None, PAGE, cursor)
                found += page
                if cursor is None:
                    break
            self.cut = cursor is not None
        except ChaosError as error:
            self._cannot_read_database(error)
        return found

    async def _of_agents(self, change: str | None, run: str | None) -> list[JsonObject]:
        if self.agents is None:
            return []
        envelope = await self.agents.service.active_decision(change, run)
        if not envelope.ok:
            self._cannot_read_folder(envelope)
            return []
        one, several = envelope.data.get("decision"), envelope.data.get("decisions")
        found = [one] if one is not None else list(several) if is_array(several) else []
        return [item for item in found if is_object(item)]

    def _cannot_read_database(self, error: ChaosError) -> None:
        self._add(_unreadable(f"the data directory {str(self.data_dir)!r}", error))

    def _cannot_read_folder(self, envelope: Envelope) -> None:
        assert self.agents is not None
        where = f"the interactions folder {str(self.agents.settings.root)!r}"
        self._add(Unreadable(where, envelope.message, envelope.next_action or "", envelope_exit(envelope)))

    def _add(self, found: Unreadable) -> None:
        if found not in self.unreadable:
            self.unreadable.append(found)


@asynccontextmanager
async def open_questions(call: Call) -> AsyncIterator[Questions]:
    """Both stores, as far as they can be opened; the ones that cannot are told in ``unreadable``."""
    from chaoscore.bootstrap_interaction import open_interactions
    from chaoscore.bootstrap_pin import has_database
    from chaoscore.cli.interaction_server import configure_interaction_logs

    questions = Questions()
    async with AsyncExitStack() as stack:
        configure_interaction_logs("warn")
        try:
            settings = call.settings(read_only=True)
            questions.data_dir = settings.data_dir
            if has_database(settings):
                questions.kernel = await stack.enter_async_context(call.kernel(call.settings()))
        except ChaosError as error:
            where = "the settings of the data directory" if questions.data_dir is None else "the data directory"
            named = "" if questions.data_dir is None else f" {str(questions.data_dir)!r}"
            questions.unreadable.append(_unreadable(where + named, error))
        try:
            questions.agents = await stack.enter_async_context(open_interactions(settings_of(call), start=False))
        except ChaosError as error:
            questions.unreadable.append(_unreadable("the interactions folder", error))
        yield questions


def _unreadable(store: str, error: ChaosError) -> Unreadable:
    return Unreadable(store, error.message, help_of(error), int(exit_of(error)))


def question_json(question: RunDecision | JsonObject, **more: Json) -> dict[str, Json]:
    """A question of either kind for programs; ``asked_by`` says which."""
    if not isinstance(question, RunDecision):
        return {"asked_by": "agent", **question}
    return {"asked_by": "run", **decision_json(question), "context": question.question.context, **more}
