"""Keeping interactions folders and the database in step: questions out, answers in.

What has to be mirrored is queued and written by one task, so that a slow or locked folder never holds up a run: the
database already says what is true. A folder that cannot be written is tried again with the next change and on every
start. One per process; ``question_folder`` says what is written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice

from chaoscore.app.approvals import Answer, Approvals
from chaoscore.app.interaction_ports import InteractionStore, InteractionUnit
from chaoscore.app.ports import DecisionStore, RunStore
from chaoscore.app.question_folder import FoundAnswer, answers, mirror
from chaoscore.domain.approval import RunDecision, WaitingRef
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.names import KERNEL_RUN, is_kernel_run
from chaoscore.domain.records import Run

log = logging.getLogger(__name__)

FOLDER_SECONDS = 1.0
"""How often a folder with waiting questions is asked whether anybody changed it."""
TOGETHER = 50
"""How many runs are brought up to date in one turn at a folder's lock."""
SLICE = 100
"""How many questions are looked for in one go, so that catching up never keeps the folder's reader busy for long."""


class FolderMirror:
    """``open_store`` gives the store of an interactions root; each is opened once and closed with the mirror.
    ``changed`` differs after a write to the database by any process and costs next to nothing."""

    def __init__(
        self,
        approvals: Approvals,
        decisions: DecisionStore,
        runs: RunStore,
        open_store: Callable[[str], InteractionStore],
        changed: Callable[[], object],
    ) -> None:
        self._approvals = approvals
        self._decisions = decisions
        self._runs = runs
        self._open = open_store
        self._changed = changed
        self._stamp: object = None
        self._refs: dict[str, list[WaitingRef]] = {}
        self._stores: dict[str, InteractionStore] = {}
        self._dirty: dict[str, None] = {}
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing: asyncio.Task[None] | None = None
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
        self._writing = asyncio.current_task()
        while True:
            await self._work.wait()
            self._work.clear()
            while self._dirty:
                labels = list(islice(self._dirty, TOGETHER))
                for label in labels:
                    del self._dirty[label]
                await self._mirror(labels)
            self._idle.set()

    async def watch(self) -> None:
        """Look for answers in the folders of waiting questions, until cancelled."""
        await self.reconcile()
        while True:
            await asyncio.sleep(FOLDER_SECONDS)
            await self.collect()

    async def close(self, grace_seconds: float) -> None:
        """Let what is queued be written, as long as anybody writes it, then close the stores."""
        if self._writing is not None and not self._writing.done():
            idle = asyncio.ensure_future(self._idle.wait())
            await asyncio.wait({idle, self._writing}, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
            idle.cancel()
        for store in self._stores.values():
            await store.close()

    # -- questions out ---------------------------------------------------------------------------------------

    async def reconcile(self, limit: int | None = None) -> None:
        """Whatever was interrupted: questions that never reached their folder, and sessions that stand there for runs
        that have moved on. With a ``limit`` only so many questions are looked at, the oldest."""
        refs = await self._decisions.waiting_refs()
        for root, waiting in _by_root(refs[:limit]).items():
            for start in range(0, len(waiting), SLICE):
                part = waiting[start : start + SLICE]
                for run in await self._look(root, partial(_missing, refs=part)):
                    self._mark(run)
            asked = {ref.run for ref in refs}
            sessions = await self._look(root, _kernel_sessions) if limit is None else []
            for run in sessions:
                if run not in asked:
                    self._mark(run)

    async def _look(self, root: str, work: Callable[[InteractionUnit], list[str]]) -> list[str]:
        try:
            return await self._store(root).read(work)
        except ChaosError as error:
            log.warning("the interactions folder %s cannot be read: %s", root, error.message)
            return []

    async def _mirror(self, labels: Sequence[str]) -> None:
        """Bring the folders up to date with these runs, all of one folder in one go; where that fails, one by one, so
        that no run is held up by another's malformed file."""
        by_root: dict[str, list[Run]] = {}
        for label in labels:
            try:
                run = await self._runs.load_run(label)
            except ChaosError as error:
                log.warning("run %s could not be read: %s", label, error.message)
                continue
            if run is not None and run.root is not None:
                by_root.setdefault(run.root, []).append(run)
        for root, runs in by_root.items():
            if not await self._write(root, runs) and len(runs) > 1:
                for run in runs:
                    await self._write(root, [run])

    async def _write(self, root: str, runs: Sequence[Run]) -> bool:
        def work(unit: InteractionUnit) -> bool:
            for run in runs:
                mirror(unit, run)
            return unit.is_dirty

        def look(unit: InteractionUnit) -> bool:
            """Whether there is anything to write, found out with as little work as it takes."""
            if any(not unit.has_decision(d.id) for run in runs for d in run.decisions if d.state == "waiting"):
                return True
            before = unit.savepoint()
            for run in runs:
                mirror(unit, run)
                if unit.savepoint() != before:
                    return True
            return unit.is_dirty

        shown = runs[0].label if len(runs) == 1 else f"{len(runs)} runs"
        try:
            store = self._store(root)
            if await store.read(look):
                await store.change(work)
            return True
        except ChaosError as error:
            log.warning("%s could not be shown in the interactions folder %s: %s", shown, root, error.message)
        except Exception:
            log.exception("%s could not be shown in the interactions folder %s", shown, root)
        return False

    # -- answers in ------------------------------------------------------------------------------------------

    async def hear(self, run: Run) -> None:
        """Take in answers that lie in the folder for this run's questions, before it goes on."""
        waiting = tuple(decision for decision in run.decisions if decision.state == "waiting")
        if run.root is not None and waiting:
            await self._take(run.root, waiting)

    async def collect(self) -> None:
        """Take in answers of all waiting questions, where a folder has changed since the last look."""
        stamp = self._changed()
        if stamp != self._stamp:
            self._stamp, self._refs = stamp, _by_root(await self._decisions.waiting_refs())
        for root, waiting in self._refs.items():
            try:
                token = await self._store(root).change_token()
            except ChaosError as error:
                log.warning("the interactions folder %s cannot be watched: %s", root, error.message)
                continue
            if self._tokens.get(root) == token:
                continue
            self._tokens[root] = token
            for name in await self._look(root, partial(_with_response, refs=waiting)):
                decision = await self._decisions.find_decision(name)
                if decision is not None and decision.state == "waiting":
                    await self._take(root, (decision,))

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


def _by_root(refs: Iterable[WaitingRef]) -> dict[str, list[WaitingRef]]:
    found: dict[str, list[WaitingRef]] = {}
    for ref in refs:
        if ref.root is not None:
            found.setdefault(ref.root, []).append(ref)
    return found


def _missing(unit: InteractionUnit, refs: Iterable[WaitingRef]) -> list[str]:
    """The runs whose question does not lie in the folder."""
    return [ref.run for ref in refs if not unit.has_decision(ref.id)]


def _with_response(unit: InteractionUnit, refs: Iterable[WaitingRef]) -> list[str]:
    return [ref.id for ref in refs if unit.has_response(ref.id)]


def _kernel_sessions(unit: InteractionUnit) -> list[str]:
    """The runs for which an unfinished session stands in the folder."""
    return [run.removeprefix(KERNEL_RUN) for run in unit.unfinished_runs() if is_kernel_run(run)]
