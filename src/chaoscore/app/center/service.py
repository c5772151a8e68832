"""``Center``: everything the web page can do, one method each. It is the operator's: it sees and answers for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaoscore.app.approvals import Approvals
from chaoscore.app.capabilities import Registry
from chaoscore.app.center.answering import Answering
from chaoscore.app.center.chain import ChainCheck
from chaoscore.app.center.changes import Changes
from chaoscore.app.center.folders import Folder
from chaoscore.app.center.inbox import RUNS, Inbox
from chaoscore.app.center.question import QuestionView, of_agent, of_run
from chaoscore.app.center.timeline import RunView, run_view
from chaoscore.app.copyable import PLAIN, Copyable
from chaoscore.app.interaction_ports import SessionFilter
from chaoscore.app.kernel.inspect import policy_json
from chaoscore.app.memories import MemoryService
from chaoscore.app.ports import AuditStore, Clock, DecisionStore, PolicySource
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.app.runs.service import RunService
from chaoscore.app.tools import CallContext
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.errors import ChaosError, InvalidInput, NotFound
from chaoscore.domain.interaction.fields import WrongShape
from chaoscore.domain.interaction.names import is_kernel_run
from chaoscore.domain.json import Json, JsonObject, is_array, is_object
from chaoscore.domain.memory import KEY_CHARS_MAX, Memory, RecallQuery, Recollection
from chaoscore.domain.policy.evaluate import Evaluator
from chaoscore.domain.policy.explain import explain
from chaoscore.domain.policy.model import Question
from chaoscore.domain.records import RunSummary
from chaoscore.domain.redaction import Redactor

CANCEL_WAIT_SECONDS = 2.0
AUDIT_LOOKED_AT_MAX = 5_000
AUDIT_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Parts:
    """What the Center is made of. ``worker``: runs go on by themselves in this process once they are answered.
    ``folder_problem`` tells why an answer in a folder does not count."""

    approvals: Approvals
    decisions: DecisionStore
    runs: RunService
    memories: MemoryService
    audit: AuditStore
    policy: PolicySource
    registry: Registry
    clock: Clock
    redactor: Redactor
    context: Callable[[], CallContext]
    stamp: Callable[[], object]
    folder_problem: Callable[[str], str | None]
    folders: Sequence[Folder]
    approver: str
    worker: bool
    copyable: Copyable = PLAIN


@dataclass(frozen=True, slots=True)
class Candidate:
    """A command run whose human has answered, and how it goes on. ``command`` is a whole command line."""

    run: str
    source_command: str
    change: str
    next_step: str
    since: str
    command: str


@dataclass(frozen=True, slots=True)
class FolderState:
    """One interactions folder: what can be resumed, what is locked, and what is wrong with it."""

    root: str
    candidates: tuple[Candidate, ...]
    locks: tuple[JsonObject, ...]
    warnings: tuple[str, ...]


class Center:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.inbox = Inbox(parts.decisions, parts.folders, parts.clock)
        self.answering = Answering(parts.approvals, parts.folders, parts.copyable)
        self.changes = Changes(parts.stamp, parts.folders)
        self.chain = ChainCheck(parts.audit, parts.clock, self.changes.tell)
        self._states: dict[str, tuple[str, FolderState]] = {}
        self._warming: asyncio.Task[None] | None = None
        for folder in parts.folders:
            folder.on_load = self.changes.tell
        parts.approvals.on_answer(lambda _: self.changes.tell())
        parts.runs.supervisor.on_rest(lambda run, asked: self.changes.tell())

    def warm_up(self) -> None:
        """Read the folders for the first time, so that nobody waits for it."""

        async def read() -> None:
            for folder in self.parts.folders:
                await folder.waiting()

        self._warming = asyncio.create_task(read())

    # -- questions -------------------------------------------------------------------------------------------

    async def question(self, source: str, decision: str) -> QuestionView:
        """Raises ``NotFound``."""
        parts = self.parts
        if source == RUNS:
            found = await parts.approvals.find(decision)
            needs, is_set = parts.approvals.needs_pin(found, "web"), parts.approvals.pin_is_set()
            return of_run(found, parts.clock.now(), needs, is_set, parts.folder_problem(decision))
        folder = next((f for f in parts.folders if f.key == source), None)
        stored = await folder.find(decision) if folder is not None else None
        if stored is None:
            raise NotFound(f"there is no decision {decision[:200]!r}")
        try:
            return of_agent(source, *stored)
        except WrongShape as fault:
            raise NotFound(f"decision {decision[:200]!r} cannot be read: {fault}") from None

    async def past(self, cursor: str | None, limit: int) -> tuple[tuple[RunDecision, ...], str | None]:
        """Decisions of runs that do not wait any more, newest first."""
        return await self.parts.approvals.past(None, limit, cursor)

    async def sessions(self, key: str, cursor: str | None, limit: int) -> tuple[tuple[JsonObject, ...], str | None]:
        """Agents' sessions in one folder, newest first. Raises ``NotFound`` and ``InvalidInput``."""
        folder = next((f for f in self.parts.folders if f.key == key), None)
        if folder is None:
            raise NotFound("there is no such interactions folder here")
        envelope = await folder.service.list_sessions(SessionFilter(), limit, cursor)
        if not envelope.ok:
            raise InvalidInput(envelope.message)
        following = envelope.data.get("next")
        return _objects(envelope.data.get("sessions"))[::-1], following if isinstance(following, str) else None

    # -- runs ------------------------------------------------------------------------------------------------

    async def runs(self, cursor: str | None, limit: int) -> tuple[tuple[RunSummary, ...], str | None]:
        """Everybody's, newest first."""
        return await self.parts.runs.list(None, limit, cursor)

    async def run(self, label: str) -> RunView:
        """Raises ``NotFound``."""
        report = await self.parts.runs.look(ExecuteRequest(label=label), self.parts.context())
        return run_view(report, self.parts.clock.now())

    async def cancel(self, label: str) -> RunView:
        """Raises ``NotFound`` and ``Busy`` (another live process drives it)."""
        request = ExecuteRequest(label=label, wait_seconds=CANCEL_WAIT_SECONDS)
        report = await self.parts.runs.cancel(request, self.parts.context())
        self.changes.tell()
        return run_view(report, self.parts.clock.now())

    async def folder_states(self) -> tuple[FolderState, ...]:
        return tuple([await self._folder_state(folder) for folder in self.parts.folders])

    async def _folder_state(self, folder: Folder) -> FolderState:
        """Read again only when somebody changed the folder."""
        try:
            token = await folder.service.change_token()
        except ChaosError as error:
            return FolderState(folder.root, (), (), (error.message,))
        known = self._states.get(folder.key)
        if known is not None and known[0] == token:
            return known[1]
        state = await self._read_state(folder)
        self._states[folder.key] = (token, state)
        return state

    async def _read_state(self, folder: Folder) -> FolderState:
        found = await folder.service.resume_candidates()
        locks = await folder.service.list_locks()
        warnings = [*found.warnings, *locks.warnings]
        warnings += [envelope.message for envelope in (found, locks) if not envelope.ok]
        candidates = tuple(
            Candidate(
                run=str(item.get("commandRunId")),
                source_command=str(item.get("sourceCommand") or ""),
                change=str(item.get("changeId") or ""),
                next_step=str(item.get("nextStep") or ""),
                since=str(item.get("updatedAt") or ""),
                command=Copyable(folder=("--root", folder.root))("resume", str(item.get("commandRunId"))),
            )
            for item in _objects(found.data.get("candidates"))
            if not is_kernel_run(str(item.get("commandRunId")))
        )
        return FolderState(folder.root, candidates, _objects(locks.data.get("locks")), tuple(dict.fromkeys(warnings)))

    async def answered_runs(self, limit: int) -> tuple[str, ...]:
        """Labels of runs that were answered and that nobody has taken up yet."""
        return await self.parts.decisions.ready_runs(self.parts.clock.now(), limit)

    # -- audit, policy, memory -------------------------------------------------------------------------------

    async def audit(
        self, run: str | None, kind: str | None, before: int | None, limit: int
    ) -> tuple[tuple[tuple[int, JsonObject], ...], int | None]:
        """Newest first, with the number to continue at. Of one kind: a bounded number of events is looked at."""
        size = limit if kind is None else AUDIT_AT_ONCE
        found: list[tuple[int, JsonObject]] = []
        looked, at = 0, before
        while True:
            page = await self.parts.audit.tail(None, run, size, at)
            for seq, event in page:
                at = seq
                if kind is None or event.get("kind") == kind:
                    found.append((seq, event))
                    if len(found) == limit:
                        return tuple(found), at
            looked += len(page)
            if len(page) < size or looked >= AUDIT_LOOKED_AT_MAX:
                return tuple(found), at if len(page) == size else None

    def policy(self) -> dict[str, Json]:
        """The policy in force, its file, what is wrong with it and its warnings."""
        source = self.parts.policy
        return {
            "file": source.path,
            "policy": policy_json(source.policy()),
            "problem": source.problem(),
            "warnings": list(source.warnings()),
        }

    def explain(self, name: str, urls: Sequence[str]) -> dict[str, Json]:
        """What the policy says of a capability and why. Raises ``NotFound`` naming those that are near."""
        registry, source = self.parts.registry, self.parts.policy
        capability = registry.get(name)
        if capability is None:
            near = ", ".join(registry.nearest(name)) or "none like it"
            raise NotFound(f"there is no capability {name[:200]!r}; near names: {near}", key="capability")
        takes_url = any(sink.kind == "url" for sink in capability.sinks)
        asked: tuple[str | None, ...] = (tuple(urls) or (None,)) if takes_url else ()
        question = Question(name, capability.builtin, asked, capability.scope)
        return {**explain(Evaluator(source.policy(), source.problem()), question), "takesUrl": takes_url}

    def capabilities(self) -> tuple[tuple[str, str, str, str], ...]:
        """Name, description, risk and the verdict's effect of each, by name."""
        found = []
        for capability in self.parts.registry.values():
            takes_url = any(sink.kind == "url" for sink in capability.sinks)
            question = Question(capability.name, capability.builtin, (None,) if takes_url else (), capability.scope)
            effect = self.parts.policy.verdict(question).effect
            found.append((capability.name, capability.description, capability.risk, effect))
        return tuple(sorted(found))

    async def memories(self, text: str | None, cursor: str | None, limit: int) -> Recollection:
        """By words, best first, or all of them, newest first."""
        query = RecallQuery(text=text or None, limit=limit, cursor=cursor or None)
        return await self.parts.memories.recall(query, self.parts.context())

    async def memory(self, key: str, limit: int) -> tuple[Memory | None, tuple[Memory, ...]]:
        """One memory, ``None`` when it is gone, and its earlier versions, newest first."""
        if not 0 < len(key) <= KEY_CHARS_MAX:
            raise InvalidInput(f"a key has 1 to {KEY_CHARS_MAX} characters", key="key")
        context = self.parts.context()
        found = await self.parts.memories.recall(RecallQuery(key=key, limit=1), context)
        history = await self.parts.memories.history(key, limit, context)
        return (found.memories[0] if found.memories else None), history

    async def close(self) -> None:
        self.changes.close()
        await self.chain.close()
        if self._warming is not None:
            await asyncio.gather(self._warming, return_exceptions=True)
        for folder in self.parts.folders:
            await folder.close()


def _objects(value: Json) -> tuple[JsonObject, ...]:
    return tuple(item for item in value if is_object(item)) if is_array(value) else ()


__all__ = ["Candidate", "Center", "FolderState", "Parts"]
