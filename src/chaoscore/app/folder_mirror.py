"""Keeping interactions folders and the database in step: questions out, answers in.

What has to be mirrored is queued and written by one task, so that a slow or locked folder never holds up a run: the
database already says what is true. A folder that cannot be written is tried again with the next change and on every
start. One per process; ``question_folder`` says what is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from chaoscore.app.approvals import Answer, Approvals
from chaoscore.app.interaction_ports import InteractionStore, InteractionUnit
from chaoscore.app.ports import DecisionStore, RunStore
from chaoscore.app.question_folder import FoundAnswer, answers, mirror
from chaoscore.domain.approval import RunDecision
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.names import KERNEL_RUN
from chaoscore.domain.records import Run

log = logging.getLogger(__name__)

FOLDER_SECONDS = 1.0
"""How often a folder with waiting questions is asked whether anybody changed it."""
PAGE = 200


class FolderMirror:
    """``open_store`` gives the store of an interactions root; each is opened once and closed with the mirror."""

    def __init__(
        self,
        approvals: Approvals,
        decisions: DecisionStore,
        runs: RunStore,
        open_store: Callable[[str], InteractionStore],
    ) -> None:
        self._approvals = approvals
        self._decisions = decisions
        self._runs = runs
        self._open = open_store
        self._stores: dict[str, InteractionStore] = {}
        self._dirty: dict[str, None] = {}
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tokens: dict[str, str] = {}
        self._told: dict[str, str] = {}

    # -- what others tell it ---------------------------------------------------------------------------------

    def rested(self, run: Run, asked: Sequence[RunDecision] = ()) -> None:
        """A run came to rest: what it asks, or asks no more, is to be seen in its folder."""
        if run.root is not None and run.decisions:
            self._mark(run.label)

    def answered(self, decision: RunDecision) -> None:
        if decision.root is not None:
            self._mark(decision.run)

    def problem(self, decision: str) -> str | None:
        """Why an answer that lies in the folder for this question does not count."""
        return self._told.get(decision)

    def _mark(self, label: str) -> None:
        self._dirty[label] = None
        self._idle.clear()
        self._work.set()

    # -- the task --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write what was queued, until cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            while self._dirty:
                label = next(iter(self._dirty))
                del self._dirty[label]
                await self._mirror(label)
            self._idle.set()

    async def watch(self) -> None:
        """Look for answers in the folders of waiting questions, until cancelled."""
        await self.reconcile()
        while True:
            await asyncio.sleep(FOLDER_SECONDS)
            await self.collect()

    async def close(self, grace_seconds: float) -> None:
        """Let what is queued be written, then close the stores."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace_seconds)
        for store in self._stores.values():
            await store.close()

    # -- questions out ---------------------------------------------------------------------------------------

    async def reconcile(self, limit: int | None = None) -> None:
        """Whatever was interrupted: questions that never reached their folder, and sessions that stand there for runs
        that have moved on. With a ``limit`` only so many questions are looked at, the oldest."""
        roots: dict[str, None] = {}
        seen = 0
        async for decision in self._waiting():
            seen += 1
            if decision.root is not None:
                roots[decision.root] = None
                self._mark(decision.run)
            if limit is not None and seen >= limit:
                return
        for root in roots:
            await self._mark_sessions(root)

    async def _mark_sessions(self, root: str) -> None:
        def work(unit: InteractionUnit) -> list[str]:
            return [
                session.command_run_id.removeprefix(KERNEL_RUN)
                for session in unit.unfinished_sessions()
                if session.command_run_id.startswith(KERNEL_RUN)
            ]

        try:
            labels = await self._store(root).read(work)
        except ChaosError as error:
            log.warning("the interactions folder %s cannot be read: %s", root, error.message)
            return
        for label in labels:
            self._mark(label)

    async def _mirror(self, label: str) -> None:
        try:
            run = await self._runs.load_run(label)
            if run is None or run.root is None:
                return
            shown = run

            def work(unit: InteractionUnit) -> bool:
                mirror(unit, shown)
                return unit.is_dirty

            store = self._store(run.root)
            if await store.read(work):
                await store.change(work)
        except ChaosError as error:
            log.warning("run %s could not be shown in its interactions folder: %s", label, error.message)
        except Exception:
            log.exception("run %s could not be shown in its interactions folder", label)

    # -- answers in ------------------------------------------------------------------------------------------

    async def hear(self, run: Run) -> None:
        """Take in answers that lie in the folder for this run's questions, before it goes on."""
        waiting = tuple(decision for decision in run.decisions if decision.state == "waiting")
        if run.root is not None and waiting:
            await self._take(run.root, waiting)

    async def collect(self) -> None:
        """Take in answers of all waiting questions, where a folder has changed since the last look."""
        by_root: dict[str, list[RunDecision]] = {}
        async for decision in self._waiting():
            if decision.root is not None:
                by_root.setdefault(decision.root, []).append(decision)
        for root, waiting in by_root.items():
            try:
                token = await self._store(root).change_token()
            except ChaosError as error:
                log.warning("the interactions folder %s cannot be watched: %s", root, error.message)
                continue
            if self._tokens.get(root) != token:
                self._tokens[root] = token
                await self._take(root, tuple(waiting))

    async def _take(self, root: str, waiting: tuple[RunDecision, ...]) -> None:
        try:
            found = await self._store(root).read(lambda unit: answers(unit, waiting))
        except ChaosError as error:
            log.warning("answers in %s cannot be read: %s", root, error.message)
            return
        for answer in found:
            await self._accept(answer)

    async def _accept(self, found: FoundAnswer) -> None:
        decision, fault = found.decision, found.fault
        if fault is None:
            try:
                await self._approvals.answer(
                    Answer(
                        decision.id,
                        found.choice,
                        decision.question_digest,
                        "bridge" if found.bridged else "folder",
                        f"folder:{found.selected_by}"[:200],
                    )
                )
                self._told.pop(decision.id, None)
                return
            except ChaosError as error:
                fault = error.message
        if self._told.get(decision.id) != fault:
            self._told[decision.id] = fault
            log.warning("an answer to %s in the interactions folder does not count: %s", decision.id, fault)

    # -- small things ----------------------------------------------------------------------------------------

    def _store(self, root: str) -> InteractionStore:
        if root not in self._stores:
            self._stores[root] = self._open(root)
        return self._stores[root]

    async def _waiting(self) -> AsyncIterator[RunDecision]:
        cursor: str | None = None
        while True:
            found, cursor = await self._decisions.list_decisions(("waiting",), PAGE, cursor)
            for decision in found:
                yield decision
            if cursor is None:
                return
