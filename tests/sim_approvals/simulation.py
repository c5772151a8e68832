"""One schedule: people, callers, an operator and a failing machine around a few plans, chosen by dice from a seed.

Each step is one to three things at once. At the end everything is healed: then every run must come to its end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from chaoscore.app.approvals import Answer, AnswerDoor
from chaoscore.app.runs.book import ExecuteRequest
from chaoscore.domain.action import Event
from chaoscore.domain.approval import DENY, DENY_ALL, RunDecision
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.interaction.response import Choice
from chaoscore.domain.json import Json
from chaoscore.testing.fakes import FakeClock
from chaoscore.testing.faults import Crash
from tests.sim_approvals.auditor import Auditor, Confirmed, Wrong
from tests.sim_approvals.machine import SimLoop, Stuck, on_this_machine
from tests.sim_approvals.policies import ACTING, DOORS, PolicyHistory, some_policy
from tests.sim_approvals.world import LIMITS, Process, World

STEPS = 14
PROCESSES_MAX = 3
ROUNDS_MAX = 25
REFUSALS = frozenset(
    {
        "ILLEGAL_TRANSITION",
        "LEASE_LOST",
        "NOT_FOUND",
        "PIN_REFUSED",
        "RUN_BUSY",
        "VALIDATION_ERROR",
        "VERSION_CONFLICT",
    }
)
"""What may be answered to somebody who comes at a bad moment or says something that cannot be."""

Work = Callable[[], Awaitable[None]]


class Simulation:
    def __init__(self, seed: int, folder: Path, loop: SimLoop, clock: FakeClock) -> None:
        self.seed = seed
        self.loop = loop
        self.clock = clock
        self.dice = random.Random(f"{seed} what")
        self.policy = PolicyHistory(folder / "policy.json", clock)
        self.auditor = Auditor(self.policy, lambda: loop.turns, clock.now, LIMITS.grant_seconds)
        shown = self.dice.random() < 0.4
        self.world = World(loop, clock, folder, self.auditor, random.Random(f"{seed} effects"), shown)
        self.plans: list[str] = []
        self._texts = 0
        self._tampered: set[str] = set()

    # -- the whole ---------------------------------------------------------------------------------------------

    async def run(self, steps: int) -> None:
        self.policy.write(self.loop.turns, some_policy(self.dice))
        await self.world.start()
        self.auditor.watch(self.world.folder / "data" / "chaoscore.db")
        await self._attempt(self._plan)
        try:
            for number in range(steps):
                self.auditor.say(f"step {number}")
                await self._step()
                self.auditor.check()
            await self._to_the_end()
        finally:
            self.auditor.close()

    async def _step(self) -> None:
        together = [self._choose() for _ in range(self.dice.choice((1, 1, 2, 2, 3)))]
        await asyncio.gather(*(self._attempt(work, self.dice.choice((0.0, 0.0, 0.01, 0.5, 3.0))) for work in together))
        self.world.bring_out_the_dead()
        if not self.world.alive or (len(self.world.alive) < PROCESSES_MAX and self.dice.random() < 0.2):
            await self._another()

    async def _another(self) -> None:
        """A process starts; with a policy that cannot be used it would not, so somebody mends that first."""
        if not self.policy.usable:
            self._write_policy()
        await self.world.start()

    async def _attempt(self, work: Work, after: float = 0.0) -> None:
        if after:
            await asyncio.sleep(after)
        try:
            await work()
        except Crash:
            return
        except ChaosError as refused:
            self.auditor.say(f"refused: {refused.code} {refused.message[:160]}")
            stopped = refused.code == "IO_ERROR" and any(process.closed for process in self.world.processes)
            if refused.code not in REFUSALS and not stopped:
                self.auditor.wrong(f"it was refused with {refused.code}: {refused.message}")

    def _choose(self) -> Work:
        table: tuple[tuple[int, Work], ...] = (
            (2, self._plan),
            (8, self._execute),
            (9, self._person),
            (3, self._two_at_once),
            (2, self._just_in_time),
            (4 if self.world.root is not None else 0, self._in_the_folder),
            (4, self._edit_policy),
            (3, self._pass_time),
            (1, self._cancel),
            (3, self._doom),
            (1, self._end_a_process),
            (3, self._serve),
            (1, self._resolve),
        )
        return self.dice.choices([work for _, work in table], [weight for weight, _ in table])[0]

    # -- callers -----------------------------------------------------------------------------------------------

    def _process(self) -> Process:
        """Somebody comes to a process that lives; where none does, nobody comes."""
        alive = self.world.alive
        if not alive:
            raise Crash
        return self.dice.choice(alive)

    async def _call(self, process: Process, tool: str, **arguments: Json) -> dict[str, Any]:
        answer = await process.call(tool, **arguments)
        code = answer["error"]["code"] if answer.get("error") else ""
        shown = {k: v for k, v in arguments.items() if k not in ("steps", "plan_id")}
        plan = str(arguments.get("plan_id", ""))[-3:]
        self.auditor.say(f"{process.name} {tool} {plan} {shown}: {answer['status']} {code}")
        if code and code not in REFUSALS and not (code == "IO_ERROR" and process.closed):
            self.auditor.wrong(f"{tool} answered {code}: {answer['message']}")
        return answer

    async def _plan(self) -> None:
        process = self._process()
        steps: list[dict[str, Any]] = []
        for number in range(1, self.dice.randint(1, 4) + 1):
            steps.append(self._new_step(f"s{number}", steps))
        answer = await self._call(process, "chaoscore_plan", steps=steps)
        if answer["ok"]:
            plan = answer["data"]["plan_id"]
            self.auditor.planned(plan, steps)
            self.plans.append(plan)
            words = (
                f"{s['id']} {s['capability']} {s['arguments']} {s.get('for_each', '')}{s.get('after', '')}"
                for s in steps
            )
            self.auditor.say(f"plan {plan[-3:]}: {'; '.join(words)}")

    def _new_step(self, name: str, before: list[dict[str, Any]]) -> dict[str, Any]:
        dice = self.dice
        self._texts += 1
        weights = (8, 4, 2, 2, 1)
        capability = dice.choices(ACTING, weights)[0] if dice.random() < 0.75 else dice.choice(("sim.read", "sim.list"))
        step: dict[str, Any] = {"id": name, "capability": capability, "arguments": {"text": f"t{self._texts}"}}
        if dice.random() < 0.5:
            step["on_error"] = "continue"
        sources = [
            s["id"]
            for s in before
            if s["capability"] not in ("sim.list", "sim.burst", "sim.refuse") and "for_each" not in s
        ]
        lists = [s["id"] for s in before if s["capability"] == "sim.list" and "for_each" not in s]
        if lists and capability != "sim.list" and dice.random() < 0.7:
            step["for_each"] = {"$from": dice.choice(lists), "path": "/items", "max": 10}
            step["arguments"] = {"text": {"$item": ""}}
        elif sources and dice.random() < 0.4:
            step["arguments"] = {"text": {"$from": dice.choice(sources), "path": "/text"}}
        elif before and dice.random() < 0.3:
            step["after"] = [dice.choice(before)["id"]]
        return step

    async def _execute(self) -> None:
        if not self.plans:
            return
        process, dice = self._process(), self.dice
        plan = dice.choice(self._unfinished() or self.plans[-3:])
        more: dict[str, Json] = {"wait_seconds": dice.choice((0, 0, 1, 45, 45))}
        if dice.random() < 0.25:
            steps = list(self.auditor.stories[plan].steps)
            more["step_ids"] = sorted(dice.sample(steps, dice.randint(1, len(steps))))
        if dice.random() < (0.05 if self._unfinished() else 0.5):
            more["rerun"] = True
        confirmed: Confirmed | None = None
        if dice.random() < 0.25:
            more["confirmed"] = True
            confirmed = self.auditor.confirms(process, plan, more.get("step_ids"))  # type: ignore[arg-type]
        try:
            await self._call(process, "chaoscore_execute", plan_id=plan, **more)
        finally:
            if confirmed is not None:
                self.auditor.look()
                confirmed.open = False

    def _unfinished(self) -> list[str]:
        """Plans that were never run, or have a run that goes on."""
        runs = self.auditor.runs
        going = {plan for run, plan in runs.items() if run not in self.auditor.ended}
        return [plan for plan in self.plans if plan in going or plan not in runs.values()]

    async def _cancel(self) -> None:
        if self.plans:
            plan = self.dice.choice(self.plans[-3:])
            await self._call(self._process(), "chaoscore_execute", plan_id=plan, cancel=True, wait_seconds=1)

    async def _resolve(self) -> None:
        process, dice = self._process(), self.dice
        unknown = [key for key, course in self.auditor.courses.items() if course.state == "outcome-unknown"]
        if not unknown:
            return
        run, step, item = dice.choice(unknown)
        words: tuple[Event, ...] = ("retry", "happened", "give-up")
        word = dice.choice(words)
        self.auditor.say(f"{process.name} resolve {run} {step} {item}: {word}")
        self.auditor.resolved.append(((run, step, item, word), self.loop.turns))
        await process.kernel.services.runs.resolve(ExecuteRequest(label=run), step, item, word, process.context())

    async def _serve(self) -> None:
        """A process goes on by itself for a while, as ``chaoscore serve`` does."""
        process = self._process()
        self.auditor.say(f"{process.name} serves")
        async with process.kernel.going_on():
            await asyncio.sleep(self.dice.choice((0.5, 2.0, 6.0)))

    # -- people ------------------------------------------------------------------------------------------------

    async def _look(self, process: Process) -> RunDecision | None:
        found, _ = await process.kernel.services.approvals.waiting(None)
        if not found:
            return None
        decision = self.dice.choice(found)
        await asyncio.sleep(self.dice.choice((0.0, 0.0, 0.2, 2.0, 20.0)))  # somebody reads it
        return decision

    def _options(self, decision: RunDecision, kind: str = "") -> tuple[str, ...]:
        dice = self.dice
        if decision.kind == "outcome":
            return (dice.choice(("happened", "retry", "give-up")),)
        kind = kind or dice.choice(("all", "all", "some", "none"))
        every = [action.option for action in decision.actions]
        chosen = {"all": every, "some": [o for o in every if dice.random() < 0.5], "none": []}[kind]
        return tuple(chosen) or ((DENY,) if len(every) == 1 else (DENY_ALL,))

    async def _answer(
        self, process: Process, decision: RunDecision, options: tuple[str, ...], door: AnswerDoor, wrong: str = ""
    ) -> None:
        digest = decision.question_digest if wrong != "digest" else "sha256:" + "0" * 64
        given = options if wrong != "option" else ("approve:s9",)
        several = decision.question.interaction_type == "multi-choice-decision"
        choice = Choice(None, given) if several else Choice(given[0])
        said = self.auditor.says(decision.id, given, door, counts=not wrong)
        approver = self.dice.choice(("ada", "bob"))
        told = f"{approver} answers {decision.id} {given} by {door} {wrong} in {process.name}"
        try:
            await process.kernel.services.approvals.answer(Answer(decision.id, choice, digest, door, approver))
        except ChaosError as refused:
            said.refused = True
            self.auditor.say(f"{told}: {refused.code}")
            if refused.code not in REFUSALS:
                raise
        else:
            self.auditor.say(f"{told}: accepted")
            if wrong:
                self.auditor.wrong(f"an answer with a wrong {wrong} to {decision.id} was accepted")

    def _door(self) -> AnswerDoor:
        doors: tuple[AnswerDoor, ...] = ("elicitation", "elicitation", "terminal", "web", "bridge", "folder")
        return self.dice.choice(doors)

    async def _person(self) -> None:
        process = self._process()
        decision = await self._look(process)
        if decision is not None:
            wrong = self.dice.choice(("",) * 8 + ("digest", "option"))
            await self._answer(process, decision, self._options(decision), self._door(), wrong)

    async def _two_at_once(self) -> None:
        process = self._process()
        decision = await self._look(process)
        if decision is not None:
            await asyncio.gather(
                *(self._attempt(self._one_of_two(decision), self.dice.choice((0.0, 0.0, 0.002))) for _ in range(2))
            )

    def _one_of_two(self, decision: RunDecision) -> Work:
        process, options, door = self._process(), self._options(decision), self._door()
        return lambda: self._answer(process, decision, options, door)

    async def _just_in_time(self) -> None:
        """The policy asks no more, the run goes on, and in that moment somebody answers what was asked before."""
        decision = await self._look(self._process())
        if decision is None:
            return
        self._write_policy({**self._document(), "requireConfirmationFor": []})
        plan, dice = self.auditor.runs[decision.run], self.dice
        process, answering = self._process(), self._process()
        options, door = self._options(decision, dice.choice(("none", "none", "all"))), self._door()

        async def go_on() -> None:
            await self._call(process, "chaoscore_execute", plan_id=plan, wait_seconds=45)

        async def answer() -> None:
            await self._answer(answering, decision, options, door)

        work = ((go_on, 0.0), (answer, dice.choice((0.0, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1))))
        await asyncio.gather(*(self._attempt(one, after) for one, after in work))

    async def _in_the_folder(self) -> None:
        """Somebody answers with a file, or first changes the question that lies there."""
        root, dice = self.world.root, self.dice
        assert root is not None
        decision = await self._look(self._process())
        if decision is None:
            return
        path = root / "decisions" / decision.id / "decision.json"
        if not path.exists():
            return
        if dice.random() < 0.3:
            document = json.loads(path.read_text("utf-8"))
            document["context"] = "something harmless"
            path.write_text(json.dumps(document), "utf-8")
            self._tampered.add(decision.id)
            self.auditor.say(f"somebody changes {decision.id} in the folder")
        stale = dice.random() < 0.15
        options = self._options(decision)
        several = decision.question.interaction_type == "multi-choice-decision"
        response = {
            "schemaVersion": 1,
            "decisionId": decision.id,
            "commandRunId": decision.question.command_run_id,
            "selectedOptionId": options[0],
            "selectedOptionIds": list(options) if several else [],
            "freeformValue": None,
            "rationale": None,
            "selectedBy": "human",
            "selectedAt": decision.question.created_at,
            "source": "vscode-decision-center",
            "validatesAgainstDecisionHash": "sha256:" + "0" * 64 if stale else None,
            "metadata": {},
        }
        path.with_name("response.json").write_text(json.dumps(response), "utf-8")
        counts = not stale and decision.id not in self._tampered
        self.auditor.says(decision.id, options, "folder", counts)
        self.auditor.say(
            f"a response to {decision.id} lies in the folder: {options} {'' if counts else 'does not count'}"
        )

    # -- the operator and the machine --------------------------------------------------------------------------

    def _document(self) -> dict[str, Any]:
        """The last policy that could be used."""
        return next(e.document for e in reversed(self.policy.editions) if e.document is not None)

    def _write_policy(self, document: dict[str, Any] | None = None) -> None:
        document = document or some_policy(self.dice)
        self.policy.write(self.loop.turns, document)
        self.auditor.say(f"policy { ({k: v for k, v in document.items() if v and k != 'httpAllowedDomains'}) }")

    async def _edit_policy(self) -> None:
        if self.dice.random() < 0.75:
            self._write_policy()
        else:
            how = self.dice.choice(("torn", "unknown", "gone"))
            self.policy.spoil(self.loop.turns, how)
            self.auditor.say(f"policy {how}")

    async def _pass_time(self) -> None:
        seconds = self.dice.choice((5.0, 31.0, 120.0, LIMITS.grant_seconds + 1, LIMITS.decision_seconds + 1))
        jumps = self.dice.random() < 0.6
        self.auditor.say(f"the clock {'jumps' if jumps else 'goes on'} {seconds:g} s")
        if jumps:
            self.clock.advance(seconds)
        else:
            await asyncio.sleep(min(seconds, 120.0))

    async def _doom(self) -> None:
        process = self._process()
        process.doom(self.dice.randint(1, 6), self.dice.random() < 0.5)
        self.auditor.say(f"{process.name} will die {'after' if process.die_after else 'before'} write {process.die_at}")

    async def _end_a_process(self) -> None:
        process = self._process()
        if self.dice.random() < 0.5:
            process.die()
        else:
            self.auditor.say(f"{process.name} is stopped")
            self.world.end(process)

    # -- to the end --------------------------------------------------------------------------------------------

    async def _to_the_end(self) -> None:
        self.auditor.say("--- everything is healed")
        for process in self.world.alive:
            self.world.end(process)
        await self.world.all_ended()
        document = some_policy(self.dice)
        document["allowedCapabilities"], document["deniedCapabilities"] = [], []
        if document.get("approvalMode") == "human":
            document["approvalDoors"] = list(DOORS)
        self.policy.write(self.loop.turns, document)
        self.auditor.say(f"policy {document}")
        process = await self.world.start()
        for number in range(ROUNDS_MAX):
            if all(run in self.auditor.ended for run in self.auditor.runs):
                break
            self.auditor.say(f"round {number}")
            await self._answer_all(process, final=number > 6)
            async with process.kernel.going_on():
                await asyncio.sleep(6.0)
            self.auditor.check()
            for plan in dict.fromkeys(self.auditor.runs.values()):
                await self._call(process, "chaoscore_execute", plan_id=plan, wait_seconds=100)
            self.clock.advance(1.0)
            self.auditor.check()
        left, _ = await process.kernel.services.approvals.waiting(None)
        if left:
            self.auditor.wrong(f"somebody is still asked: {[decision.id for decision in left]}")
        report = await process.kernel.stores.audit.verify()
        if report.problem is not None:
            self.auditor.wrong(f"the audit does not account for everything: {report.problem}")
        self.world.end(process)
        await self.world.all_ended()
        self.auditor.at_the_end()

    async def _answer_all(self, process: Process, final: bool) -> None:
        found, _ = await process.kernel.services.approvals.waiting(None)
        for decision in found:
            options = ("give-up",) if final and decision.kind == "outcome" else self._options(decision, "all")
            await self._attempt(self._by(process, decision, options))

    def _by(self, process: Process, decision: RunDecision, options: tuple[str, ...]) -> Work:
        return lambda: self._answer(process, decision, options, "elicitation")


def simulate(seed: int, folder: Path, steps: int = STEPS) -> list[str]:
    """The log of the schedule. Raises ``Wrong`` with the log behind the first line."""
    logging.getLogger("chaoscore").setLevel(logging.CRITICAL)
    clock = FakeClock()
    loop = SimLoop(clock, random.Random(f"{seed} when"))
    simulation = Simulation(seed, folder, loop, clock)
    auditor = simulation.auditor

    def unexpected(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), Crash | asyncio.CancelledError):
            auditor.wrong(f"nobody expected this: {context.get('message')}: {context.get('exception')!r}")

    loop.set_exception_handler(unexpected)
    try:
        with (
            on_this_machine(clock, random.Random(f"{seed} names")),
            asyncio.Runner(loop_factory=lambda: loop) as runner,
        ):
            runner.run(simulation.run(steps))
            auditor.check()
    except (Wrong, Stuck) as wrong:
        raise Wrong("\n".join([str(wrong), *auditor.log])) from wrong
    except (Exception, asyncio.CancelledError) as wrong:
        raise Wrong("\n".join([f"it ended with {wrong!r}", *auditor.log])) from wrong
    return auditor.log
