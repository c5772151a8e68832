"""One run of the simulation: who does what next, what breaks meanwhile, and the report to the auditor.

``simulate(seed, folder)`` raises ``Wrong`` with the trace of the run when something that must hold did not.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from chaoscore.app.envelope import Envelope
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.capsule import CapsuleOverrides
from chaoscore.domain.interaction.names import instant_text
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import JsonObject
from chaoscore.testing.faults import Crash, FaultInjector
from tests.sim.auditor import Auditor, View, Wrong
from tests.sim.peer import Peer
from tests.sim.world import Process, VirtualClock

STEPS = 60
OPTIONS: list[JsonObject] = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
STORAGE = ("NO_SPACE", "IO_ERROR", "READ_ONLY", "RUNTIME_BUSY")
Call = Callable[[InteractionService], Awaitable[Envelope]]


@dataclass(frozen=True, slots=True)
class Move:
    """``token`` is a text that the folder carries if and only if the call happened; empty when there is none."""

    text: str
    call: Call
    noted: Callable[[Envelope], None]
    token: str = ""


class Simulation:
    def __init__(self, seed: int, folder: Path, overlap: bool = False) -> None:
        self.dice = random.Random(seed)
        self._overlap = overlap
        self.clock = VirtualClock()
        self.trace: list[str] = []
        self.root = folder / ".chaos/interactions"
        self.peer = Peer(self.root, self.clock, self.dice, self.say)
        self.auditor = Auditor(self.root, self.peer.overwritten)
        kinds = (("agent-1", True), ("agent-2", False), ("human", False))
        self.processes = [Process(name, folder, self.clock, self.dice, cached) for name, cached in kinds]
        self._disk_fault: FaultInjector | None = None
        self._count = 0
        self._disturbed = False

    def say(self, line: str) -> None:
        self.trace.append(line)

    async def run(self, steps: int = STEPS) -> None:
        try:
            for number in range(steps):
                self.say(f"--- {number} at {instant_text(int(self.clock.seconds * 1000))}")
                await self._step()
            await self._to_the_end()
        except Wrong as wrong:
            raise Wrong(f"{wrong}\n" + "\n".join(self.trace)) from None
        finally:
            for process in self.processes:
                await process.stop()

    # -------------------------------------------------------------------------------------- a step

    async def _step(self) -> None:
        self._pass_time()
        if self.dice.random() < 0.2:
            self.peer.act()
        process = self.dice.choice(self.processes)
        self._break_something(process)
        await self._do(process, self._move())
        self.auditor.always()
        if self._disk_fault is not None and self.dice.random() < 0.4:
            self.say("the disk works again")
            self._disk_fault = None
        if self._disk_fault is None and self.dice.random() < 0.4:
            await self._heal(self.dice.choice(self.processes))

    async def _heal(self, process: Process) -> None:
        """A call that heals, undisturbed; then everything must fit together."""
        process.disk.fault = process.disk.meanwhile = None
        self.say(f"{process.name} looks")
        seen = await process.service.active_decision()
        if not seen.ok or any("could not" in warning or "not written" in warning for warning in seen.warnings):
            raise Wrong(f"healing went wrong: {seen}")
        self.auditor.healed(self.peer.locked_changes)
        for run in View(self.root).capsules:
            shown = await process.service.resume_capsule(run)
            capsule = shown.data["capsule"]
            assert isinstance(capsule, dict)
            self.auditor.shown(run, capsule)

    def _pass_time(self) -> None:
        self.clock.seconds += self.dice.choice((0.001, 0.5, 3.0, 40.0))
        if self.dice.random() < 0.06:
            jump = self.dice.choice((-3_600.0, -3_600.0, 3_600.0, 90_000.0))
            self.say(f"the clock jumps by {jump:g} s")
            self.clock.seconds += jump

    def _break_something(self, process: Process) -> None:
        disk, chance = process.disk, self.dice.random()
        disk.meanwhile, disk.fault, disk.torn, disk.changes = None, self._disk_fault, self.dice.random() < 0.5, 0
        if chance < 0.25:
            at = self.dice.randint(1, 45)
            # A torn write is one that had half its effect before the end.
            when = "after" if disk.torn else self.dice.choice(("before", "after"))
            disk.fault = FaultInjector(at, fault=Crash, lasting=True, when="after" if when == "after" else "before")
        elif chance < 0.35 and self._disk_fault is None:
            number, lasting = self.dice.choice((errno.ENOSPC, errno.EIO, errno.EROFS)), self.dice.random() < 0.5
            disk.torn = False
            disk.fault = FaultInjector(
                self.dice.randint(1, 45), fault=lambda _: OSError(number, "broken on purpose"), lasting=lasting
            )
            if lasting:
                self._disk_fault = disk.fault
        elif chance < 0.5:
            self._let_the_peer_in(process)
        if self._overlap and disk.meanwhile is None and self.dice.random() < 0.3:
            self._let_the_peer_in(process)

    def _let_the_peer_in(self, process: Process) -> None:
        """Between two changes of ours: a stolen lock while nothing is in place yet, a lost update of the lock table."""
        first, steal = self.dice.randint(1, 7), self.dice.random() < 0.5
        second = first + self.dice.randint(0, 12)

        def meanwhile(change: int) -> None:
            if change == first and steal:
                self.say("(a peer in between)")
                self.peer.act(steal=True)
            elif change == first:
                self.peer.read_table()
            if change == second and not steal:
                self.peer.write_table()

        process.disk.meanwhile = meanwhile

    async def _do(self, process: Process, move: Move) -> None:
        fault = process.disk.fault
        self._disturbed = fault is not None
        try:
            envelope = await move.call(process.service)
        except Crash:
            assert fault is not None
            self.say(
                f"{process.name}: {move.text}: DIED in {fault.calls[fault.fail_at - 1].replace(str(self.root), '')}"
            )
            await process.died()
            return
        if fault is not None and fault.fired and process.disk.fault is not self._disk_fault:
            self.say(f"  (a fault in {fault.calls[fault.fail_at - 1].replace(str(self.root), '')})")
        self.say(f"{process.name}: {move.text}: {envelope.status} {list(envelope.warnings) or ''}")
        view = View(self.root)
        if envelope.status == "INTERNAL_ERROR":
            raise Wrong(f"an internal error: {envelope}")
        if not envelope.ok and envelope.status in STORAGE and fault is None and process.disk.meanwhile is None:
            raise Wrong(f"a storage error without a fault: {envelope}")
        if envelope.ok:
            move.noted(envelope)
        elif move.token and view.says(move.token):
            raise Wrong(f"{move.text} said that it did not happen ({envelope.status}), but {move.token} is there")

    # -------------------------------------------------------------------------------------- moves

    def _token(self) -> str:
        self._count += 1
        return f"token-{self._count}."

    def _pick(self, names: list[str]) -> str:
        return self.dice.choice(names) if names else "nothing"

    def _move(self) -> Move:
        view = View(self.root)
        kinds = (
            "begin begin begin ask ask ask ask answer answer answer answer consume consume resume resume complete "
            "cancel capsule read read candidates"
        )
        kind = self.dice.choice(kinds.split())
        # Mostly somebody who can go on, now and then anybody.
        wanted = {
            "ask": "running", "resume": "ready-to-resume", "complete": "running", "cancel": "waiting-for-decision",
        }.get(kind)  # fmt: skip
        runs = [run for run, session in view.sessions.items() if session["state"] == wanted]
        run = self._pick(runs if runs and self.dice.random() < 0.8 else list(view.sessions))
        state = "waiting" if kind == "answer" else "answered"
        likely = [name for name, decision in view.decisions.items() if decision["state"] == state]
        decision = self._pick(likely if likely and self.dice.random() < 0.8 else list(view.decisions))
        if kind == "begin":
            return self.begin(run)
        if kind == "ask":
            return self.ask(run, view)
        if kind == "answer":
            return self.answer(decision, self.dice.choice("ab"))
        if kind == "read":
            return self.read(decision)
        if kind == "candidates":
            return Move("look for candidates", lambda s: s.resume_candidates(latest=True), lambda _: None)
        if kind == "consume":
            return self.consume(decision)
        if kind == "resume":
            return Move(f"resume {run}", lambda s: s.resume(run), lambda _: None)
        if kind == "capsule":
            overrides = CapsuleOverrides(intent="go on")
            return Move(f"capsule {run}", lambda s: s.write_capsule(run, overrides), lambda _: None)
        return self.end(run, kind)

    def begin(self, known: str) -> Move:
        token, change = self._token(), self.dice.choice(("c0", "c1", "c2", "c3", "c4", None))
        run = known if self.dice.random() < 0.3 and known != "nothing" else f"RUN-{self._count}"
        ttl = self.dice.choice((None, None, None, 1_800, 90_000))
        request = BeginRequest(
            self.dice.choice(("chaos:run", "chaos:plan")), change, command_run_id=run, metadata={"t": token},
            ttl_seconds=ttl,
        )  # fmt: skip

        def noted(envelope: Envelope) -> None:
            if envelope.status == "READY":
                self.auditor.begun(run)

        return Move(f"begin {run} on {change} ({token})", lambda s: s.begin(request), noted, token)

    def ask(self, run: str, view: View) -> Move:
        token = self._token()
        mine = [name for name, decision in view.decisions.items() if decision["commandRunId"] == run]
        supersedes = self._pick(mine) if mine and self.dice.random() < 0.3 else None
        soon = instant_text(int((self.clock.seconds + self.dice.choice((30, 1_800, 7_200))) * 1000))
        title = token if self.dice.random() < 0.8 else "The same again"
        expires = soon if self.dice.random() < 0.25 else None
        request = DecisionRequest(run, title, f"Because {token}", OPTIONS, supersedes=supersedes, expires_at=expires)

        def noted(envelope: Envelope) -> None:
            self.auditor.asked(str(envelope.data["decisionId"]))

        text = f"ask {run} ({token}) instead of {supersedes}, until {expires}"
        return Move(text, lambda s: s.create_decision(request), noted, token)

    def answer(self, decision: str, option: str) -> Move:
        token = self._token()
        request = AnswerRequest(decision, Choice(option, rationale=token), "alice", "manual-file")

        def noted(envelope: Envelope) -> None:
            half = any("could not be written" in warning for warning in envelope.warnings)
            self.auditor.answered(decision, option, half)

        return Move(f"answer {decision} with {option} ({token})", lambda s: s.answer(request), noted, token)

    def read(self, decision: str) -> Move:
        def noted(envelope: Envelope) -> None:
            if envelope.status == "ANSWERED":
                half = bool(envelope.warnings)
                self.auditor.answered(decision, str(envelope.data["selectedOptionId"]), half)

        return Move(f"read the answer to {decision}", lambda s: s.decision_response(decision), noted)

    def consume(self, decision: str) -> Move:
        return Move(
            f"consume {decision}", lambda s: s.mark_consumed(decision), lambda _: self.auditor.consumed(decision)
        )

    def end(self, run: str, kind: str) -> Move:
        token = self._token()
        request, state = EndRequest(run, token), {"complete": "completed", "cancel": "cancelled"}[kind]

        async def call(service: InteractionService) -> Envelope:
            return await (service.complete(request) if kind == "complete" else service.cancel(request))

        return Move(f"{kind} {run} ({token})", call, lambda _: self.auditor.ended(run, state), token)

    # -------------------------------------------------------------------------------- to the end

    async def _to_the_end(self) -> None:
        """The disk is sound and nobody disturbs: whatever was begun can be brought to its end."""
        self.say("--- everything is healed")
        self._disk_fault = None
        process = self.processes[0]
        await self._heal(process)
        self.peer.let_go()
        for decision in View(self.root).waiting():
            await self._must(self.answer(decision["decisionId"], "a"))
            await self._heal(process)
        # A run whose change others hold goes on when they are through: at least one of them gets on in each round.
        for _ in View(self.root).sessions:
            for run in View(self.root).sessions:
                await self._finish(run)
        await self._heal(process)
        self.auditor.at_the_end()
        request = BeginRequest("chaos:run", "c0", command_run_id="RUN-last")
        await self._must(Move("begin RUN-last", lambda s: s.begin(request), lambda _: None))

    async def _finish(self, run: str) -> None:
        view = View(self.root)
        session = view.sessions[run]
        active = [lock for lock in view.locks if lock["state"] == "active" and lock["changeId"] == session["changeId"]]
        holders = {lock["lockedByCommandRunId"] for lock in active}
        if session["state"] == "ready-to-resume":
            if holders and run not in holders:
                return
            await self._must(Move(f"resume {run}", lambda s: s.resume(run), lambda _: None))
        for name, decision in view.decisions.items():
            if decision["commandRunId"] == run and decision["state"] == "answered":
                await self._must(self.consume(name))
        if View(self.root).sessions[run]["state"] == "running":
            await self._must(self.end(run, "complete"))

    async def _must(self, move: Move) -> None:
        process = self.processes[0]
        process.disk.fault = process.disk.meanwhile = None
        envelope = await move.call(process.service)
        self.say(f"{move.text}: {envelope.status} {list(envelope.warnings) or ''}")
        if not envelope.ok:
            raise Wrong(f"no progress: {move.text}: {envelope}")
        move.noted(envelope)
        self.auditor.always()


def simulate(seed: int, folder: Path, steps: int = STEPS, overlap: bool = False) -> list[str]:
    """The trace of the run. With ``overlap`` peers also come in between while the disk fails. Raises ``Wrong``."""
    simulation = Simulation(seed, folder, overlap)
    asyncio.run(simulation.run(steps))
    return simulation.trace
