"""Runs as the application sees them: execute, join and wait a bounded time; look, list; and words on a run.

A caller that goes away pauses the run before its next effect, a caller that comes back joins it (spec §4). The
supervisor below keeps the runs in motion; the tools above speak to callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from chaoscore.app.gate import Gate, Subject
from chaoscore.app.ports import PolicySource
from chaoscore.app.runs.answers import RunAnswers
from chaoscore.app.runs.book import ExecuteRequest, RunBook, RunReport
from chaoscore.app.runs.driver import Listener
from chaoscore.app.runs.supervisor import Active, Approve, Granted, Supervisor, chosen_steps
from chaoscore.app.tools import CallContext
from chaoscore.domain.action import Event
from chaoscore.domain.errors import Busy
from chaoscore.domain.principal import Principal
from chaoscore.domain.records import RUN_FINISHED, Run, RunStatus, RunSummary, StoredPlan, Wish
from chaoscore.domain.run import Key, RunState

HELD_POLL_SECONDS = 0.25
"""How often a call looks whether the process that holds its run has let it go."""
_RENEWED_SECONDS = 0.5
"""A lease that ends so much later than before was renewed; less is what two looks at two clocks differ by."""
CONFIRMED_DOES_NOTHING = "confirmed does nothing here: the policy's approvalMode is human, a person must answer"


class RunService:
    """One per process."""

    def __init__(self, book: RunBook, gate: Gate, policy: PolicySource) -> None:
        self._book = book
        self._gate = gate
        self._policy = policy
        self.supervisor = Supervisor(book, gate)
        self._answers = RunAnswers(book, self.supervisor)
        self._before: list[Callable[[Run], Awaitable[None]]] = []

    def listen_before(self, hear: Callable[[Run], Awaitable[None]]) -> None:
        """Called before a run goes on, so that answers that lie somewhere are taken in first."""
        self._before.append(hear)

    async def _hear(self, run: Run) -> None:
        if any(decision.state == "waiting" for decision in run.decisions):
            for hear in self._before:
                await hear(run)

    async def execute(
        self, request: ExecuteRequest, context: CallContext, listener: Listener | None = None
    ) -> RunReport:
        """Open, join or continue the run and wait for it at most ``wait_seconds``, also for another process that may
        have died with the run in its hands.

        Raises ``NotFound``, ``InvalidInput`` (steps, unmet dependencies), ``Busy`` and ``StorageError``. Cancelling the
        call pauses the run before its next effect unless somebody else waits for it too.
        """
        book = self._book
        plan, run, credential = await book.open(request, context)
        chosen_steps(plan, request)
        if run.status in RUN_FINISHED:
            return RunReport(run, plan, book.state(plan, run), credential=credential)
        await self._hear(run)
        loop = asyncio.get_running_loop()
        wait = book.limits.wait_seconds_default if request.wait_seconds is None else request.wait_seconds
        until = loop.time() + min(wait, book.limits.wait_seconds_max)
        active = await self._activate(
            plan,
            run,
            request,
            context,
            lambda state, no: self._confirmed(state, no, plan, run, request, context),
            until,
        )
        if active is None:
            ended = await book.reload(run.label)
            return RunReport(ended, plan, book.state(plan, ended), credential=credential)
        stop_listening = active.driver.listen(listener) if listener is not None else None
        active.waiters += 1
        try:
            done, _ = await asyncio.wait({active.task}, timeout=max(0.0, until - loop.time()))
        except asyncio.CancelledError:
            if active.waiters == 1:
                active.driver.pause()
            raise
        finally:
            active.waiters -= 1
            if stop_listening is not None:
                stop_listening()
        if done and not active.task.cancelled():  # it is cut where this process ends, and goes on with the next one
            active.task.result()
        notes = tuple(active.driver.notes)
        if request.confirmed and self._policy.policy().approval_mode == "human":
            notes = (CONFIRMED_DOES_NOTHING, *notes)
        current = await book.reload(run.label)
        state = book.state(plan, current)
        return RunReport(current, plan, state, in_motion=not done, credential=credential, notes=notes)

    async def _activate(
        self,
        plan: StoredPlan,
        run: Run,
        request: ExecuteRequest,
        context: CallContext,
        approve: Approve,
        until: float,
    ) -> Active | None:
        """``Supervisor.activate``, tried again while another process holds the run, until its lease ends. Raises
        ``Busy`` once that process is seen to live, and at ``until`` (of the loop's clock)."""
        loop = asyncio.get_running_loop()
        lease_end: float | None = None
        while True:
            try:
                return await self.supervisor.activate(plan, run, request, context, approve)
            except Busy as busy:
                left = busy.details.get("lease_seconds")
                now = loop.time()
                if not isinstance(left, int | float):
                    raise  # it moves in this process
                if lease_end is not None and now + left > lease_end + _RENEWED_SECONDS:
                    pid = busy.details.get("pid")
                    raise Busy(
                        f"run {run.label!r} is held by process {pid}, which lives: it renewed its lease just now",
                        run=run.label,
                        pid=pid,
                        lease_seconds=left,
                    ) from None
                lease_end = now + left
                if now >= until:
                    raise
                await asyncio.sleep(min(HELD_POLL_SECONDS, until - now))

    async def go_on(self, label: str, context: CallContext) -> RunStatus:
        """Do what the last caller asked of a run whose question was answered, and wait until it rests; its status.

        Nobody is asked on anybody's behalf: only steps that were asked to be executed are. Raises ``Busy``,
        ``NotFound``, ``StorageError``.
        """
        run = await self._book.reload(label)
        wish = run.wish or Wish()
        request = ExecuteRequest(label=label, step_ids=wish.steps, stop_at_approval=wish.stop_at_approval)
        plan, run = await self._book.existing(request, context)
        if run.status in RUN_FINISHED:
            return run.status
        active = await self.supervisor.activate(plan, run, request, context, lambda state, refused: ([], []))
        if active is not None:
            active.waiters += 1
            try:
                await asyncio.wait({active.task})
            finally:
                active.waiters -= 1
            if not active.task.cancelled():
                active.task.result()
        return (await self._book.reload(label)).status

    def _confirmed(
        self,
        state: RunState,
        refused: Collection[Key],
        plan: StoredPlan,
        run: Run,
        request: ExecuteRequest,
        context: CallContext,
    ) -> Granted:
        """Grants for the actions whose arguments are known at call time; those that come later ask again."""
        if not request.confirmed or self._policy.policy().approval_mode == "human":
            return [], []
        facts = self._book.facts(plan, run.label, context)
        subject = Subject(run.label, plan.plan.owner)
        granted: Granted = ([], [])
        for proposal in state.known():
            if request.step_ids is not None and proposal.step.id not in request.step_ids:
                continue
            verdict = self._gate.judge(proposal.step.capability, proposal.arguments)
            if verdict.effect != "REQUIRE_APPROVAL" or verdict.mode != "caller":
                continue
            if (proposal.step.id, proposal.item) in refused:
                continue
            digest = self._gate.digest(subject, proposal, verdict)
            grant = self._book.new_grant(run, digest, "caller", context.principal.key)
            granted[0].append(grant)
            granted[1].append(facts.granted(grant, proposal.step.id, proposal.item))
        return granted

    async def resolve(
        self, request: ExecuteRequest, step: str, item: int | None, word: Event, context: CallContext
    ) -> RunReport:
        """See ``RunAnswers.resolve``."""
        human = self._policy.policy().approval_mode == "human"
        return await self._answers.resolve(request, step, item, word, context, human=human)

    async def cancel(self, request: ExecuteRequest, context: CallContext) -> RunReport:
        """See ``RunAnswers.cancel``."""
        return await self._answers.cancel(request, context)

    async def look(self, request: ExecuteRequest, context: CallContext) -> RunReport:
        """See ``RunAnswers.look``."""
        return await self._answers.look(request, context)

    async def list(
        self, principal: Principal | None, limit: int, cursor: str | None
    ) -> tuple[tuple[RunSummary, ...], str | None]:
        """Newest first; an anonymous principal has none. ``None`` is the operator, who sees all."""
        return await self._book.runs.list_runs(principal, limit, cursor)

    async def close(self, grace_seconds: float) -> None:
        """See ``Supervisor.close``."""
        await self.supervisor.close(grace_seconds)
