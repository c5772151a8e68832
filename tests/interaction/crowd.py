"""Clients that work on one folder at once, each through a server process of its own, and note what they were told.

``Client.turn`` makes one call of the mix: runs on changes of its own, runs that race for a few hot changes, questions
in one run that all share, answers that several give to the same question, and reads. What a call must answer is known
beforehand, or by what all clients were told before: a refusal that these do not explain is a fault.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.interaction_surface.support import Wire
from tests.mcp.support import Message

OPTIONS = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
HOT = ("hot-1", "hot-2", "hot-3")
SHARED = "RUN-shared"
ENDLESS = float("inf")


@dataclass(slots=True)
class Hold:
    """A change held by a run: surely from ``since`` to ``until``, possibly from ``asked`` to ``ended``."""

    change: str
    run: str
    asked: float
    since: float = ENDLESS
    until: float = ENDLESS
    ended: float = ENDLESS


@dataclass(slots=True)
class Refusal:
    """``begun`` and ``ended`` bound the call in time."""

    name: str
    status: str
    about: str
    begun: float
    ended: float


@dataclass(slots=True)
class Ledger:
    """What all clients were told."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    calls: int = 0
    busy: int = 0
    runs: dict[str, str] = field(default_factory=dict)  # run → the state it was told to be in
    questions: dict[str, str] = field(default_factory=dict)  # decision → its run
    answers: dict[str, str] = field(default_factory=dict)  # decision → option
    consumed: set[str] = field(default_factory=set)
    holds: list[Hold] = field(default_factory=list)
    lost_races: list[tuple[str, str]] = field(default_factory=list)  # decision, the option that came too late
    lost_changes: list[Refusal] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def shared_questions(self) -> list[str]:
        with self.guard:
            return [name for name, run in self.questions.items() if run == SHARED]

    def note_answer(self, decision: str, option: str) -> None:
        with self.guard:
            if self.answers.setdefault(decision, option) != option:
                self.faults.append(f"{decision} was answered with {self.answers[decision]!r} and with {option!r}")


@dataclass(slots=True)
class Work:
    """A run of one client and what comes next for it."""

    run: str
    change: str
    next: str = "begin"
    decision: str = ""
    hold: Hold | None = None


class Client:
    """One server and what its agent and its human do."""

    def __init__(self, name: str, server: Wire, ledger: Ledger, seed: int) -> None:
        self._name = name
        self._server = server
        self._ledger = ledger
        self._dice = random.Random(f"{seed}-{name}")
        self._work: list[Work] = []
        self._count = 0
        self._mine: list[str] = []  # questions in the shared run

    def turn(self) -> None:
        chance = self._dice.random()
        if chance < 0.55:
            self._go_on()
        elif chance < 0.65:
            self._ask_in_the_shared_run()
        elif chance < 0.80:
            self._answer_in_the_shared_run()
        elif chance < 0.85:
            self._consume_in_the_shared_run()
        else:
            self._read()

    # ---------------------------------------------------------------------------------------------- calls

    def _call(self, name: str, **arguments: Any) -> Message:
        envelope = self._server.tool(name, **arguments)
        with self._ledger.guard:
            self._ledger.calls += 1
            if envelope["status"] == "RUNTIME_BUSY":
                self._ledger.busy += 1
            if envelope["warnings"] and name != "chaos_answer_decision":
                self._ledger.faults.append(f"{name} {arguments}: {envelope['warnings']}")
        return envelope

    def _must(self, statuses: str, name: str, **arguments: Any) -> Message | None:
        """The envelope, or ``None`` when somebody else held the folder for too long."""
        envelope = self._call(name, **arguments)
        if envelope["status"] in statuses.split():
            return envelope
        if envelope["status"] != "RUNTIME_BUSY":
            with self._ledger.guard:
                self._ledger.faults.append(f"{name} {arguments}: {envelope['status']}: {envelope['message']}")
        return None

    # -------------------------------------------------------------------------------------- runs of its own

    def _go_on(self) -> None:
        if len(self._work) < 4:
            self._count += 1
            run = f"RUN-{self._name}-{self._count}"
            change = self._dice.choice(HOT) if self._dice.random() < 0.4 else f"change-{self._name}-{self._count}"
            self._work.append(Work(run, change))
        work = self._dice.choice(self._work)
        getattr(self, f"_{work.next}")(work)
        if not work.next:
            self._work.remove(work)

    def _begin(self, work: Work) -> None:
        begun = time.monotonic()
        arguments = {"sourceCommand": "chaos:run", "changeId": work.change, "commandRunId": work.run}
        envelope = self._call("chaos_begin_command", **arguments)
        status = envelope["status"]
        if status == "READY":
            self._told(work.run, "running")
            work.next = "ask"
        elif status in ("BLOCKED_BY_PENDING_DECISION", "CONFLICTING_COMMAND_ACTIVE", "RESUME_AVAILABLE"):
            self._lost(work, status, begun)
            work.next = ""
        elif status != "RUNTIME_BUSY":
            self._fault(f"begin {work.run} on {work.change}: {envelope}")

    def _ask(self, work: Work) -> None:
        hold = Hold(work.change, work.run, time.monotonic())
        with self._ledger.guard:
            self._ledger.holds.append(hold)
        envelope = self._call(
            "chaos_create_decision", commandRunId=work.run, title=f"Of {work.run}", context="Why.", options=OPTIONS
        )
        status = envelope["status"]
        if status == "WAITING_FOR_USER_DECISION":
            hold.since = time.monotonic()
            work.hold, work.decision, work.next = hold, envelope["data"]["decisionId"], "answer"
            with self._ledger.guard:
                self._ledger.questions[work.decision] = work.run
            self._told(work.run, "waiting-for-decision")
            return
        with self._ledger.guard:
            self._ledger.holds.remove(hold)
        if status == "CHANGE_LOCKED":
            self._lost(work, status, hold.asked)
            work.next = "cancel"
        elif status != "RUNTIME_BUSY":
            self._fault(f"ask for {work.run}: {envelope}")

    def _answer(self, work: Work) -> None:
        if self._dice.random() < 0.15:
            self._cancel(work)
            return
        option = self._dice.choice("ab")
        if self._must("ANSWERED", "chaos_answer_decision", decisionId=work.decision, selectedOptionId=option):
            self._ledger.note_answer(work.decision, option)
            self._told(work.run, "ready-to-resume")
            work.next = "resume"

    def _resume(self, work: Work) -> None:
        if self._must("RESUMED", "chaos_resume_command", commandRunId=work.run):
            self._told(work.run, "running")
            work.next = "consume"

    def _consume(self, work: Work) -> None:
        if self._must("CONSUMED", "chaos_mark_decision_consumed", decisionId=work.decision, commandRunId=work.run):
            with self._ledger.guard:
                self._ledger.consumed.add(work.decision)
            work.next = self._dice.choice(("capsule", "complete"))

    def _capsule(self, work: Work) -> None:
        if self._must("CAPSULE_CREATED", "chaos_create_resume_capsule", commandRunId=work.run, intent="go on"):
            work.next = "complete"

    def _complete(self, work: Work) -> None:
        self._end(work, "COMPLETED", "chaos_complete_command")

    def _cancel(self, work: Work) -> None:
        self._end(work, "CANCELLED", "chaos_cancel_command")

    def _end(self, work: Work, status: str, name: str) -> None:
        sent = time.monotonic()
        if work.hold is not None:
            work.hold.until = sent
        if self._must(status, name, commandRunId=work.run):
            if work.hold is not None:
                work.hold.ended = time.monotonic()
            self._told(work.run, status.lower())
            work.next = ""
        elif work.hold is not None:
            work.hold.until = ENDLESS

    # ------------------------------------------------------------------------------------ the shared run

    def _ask_in_the_shared_run(self) -> None:
        self._count += 1
        envelope = self._must(
            "WAITING_FOR_USER_DECISION",
            "chaos_create_decision",
            commandRunId=SHARED,
            title=f"{self._name} asks {self._count}",
            context="Why.",
            options=OPTIONS,
        )
        if envelope is not None:
            name = envelope["data"]["decisionId"]
            self._mine.append(name)
            with self._ledger.guard:
                self._ledger.questions[name] = SHARED

    def _answer_in_the_shared_run(self) -> None:
        """Often one that somebody else answers at the same moment, with another option."""
        questions = self._ledger.shared_questions()
        if not questions:
            self._read()
            return
        name, option = self._dice.choice(questions[-3:]), self._dice.choice("ab")
        envelope = self._call("chaos_answer_decision", decisionId=name, selectedOptionId=option)
        if envelope["status"] == "ANSWERED":
            self._ledger.note_answer(name, option)
        elif envelope["status"] == "DECISION_NOT_ANSWERABLE":
            with self._ledger.guard:
                self._ledger.lost_races.append((name, option))
        elif envelope["status"] != "RUNTIME_BUSY":
            self._fault(f"answer {name} with {option}: {envelope}")

    def _consume_in_the_shared_run(self) -> None:
        with self._ledger.guard:
            found = [name for name in self._mine if name in self._ledger.answers]
        if not found:
            self._read()
            return
        name = self._dice.choice(found)
        if self._must("CONSUMED", "chaos_mark_decision_consumed", decisionId=name, commandRunId=SHARED):
            self._mine.remove(name)
            with self._ledger.guard:
                self._ledger.consumed.add(name)

    # ------------------------------------------------------------------------------------------------ reads

    def _read(self) -> None:
        """An answer that anybody was told of is read by everybody; so is the state of a run of one's own."""
        with self._ledger.guard:
            answers = dict(self._ledger.answers)
            begun = [work for work in self._work if work.next != "begin"]
        kind = self._dice.choice(("answer", "answer", "active", "sessions", "locks", "candidates", "capsule"))
        if kind == "answer" and answers:
            name = self._dice.choice(list(answers))
            envelope = self._call("chaos_get_decision_response", decisionId=name)
            if envelope["status"] not in ("ANSWERED", "CONSUMED", "RUNTIME_BUSY") or (
                envelope["ok"] and envelope["data"]["selectedOptionId"] != answers[name]
            ):
                self._fault(f"{name} was answered with {answers[name]} before it was read: {envelope}")
        elif kind == "active" and begun:
            work = self._dice.choice(begun)
            envelope = self._call("chaos_get_active_decision", commandRunId=work.run)
            waits = work.next == "answer"
            found = [item["decisionId"] for item in _decisions(envelope)]
            if envelope["status"] != "RUNTIME_BUSY" and found != ([work.decision] if waits else []):
                self._fault(f"{work.run} is before {work.next!r}: {envelope}")
        elif kind == "locks" and begun:
            work = self._dice.choice(begun)
            listed = self._must("LOCKS NO_LOCKS", "chaos_list_locks", changeId=work.change)
            if listed is not None and work.hold is not None:
                holders = [lock["lockedByCommandRunId"] for lock in listed["data"]["locks"] if _active(lock)]
                if holders != [work.run]:
                    self._fault(f"{work.run} holds {work.change}: {listed}")
        elif kind == "candidates":
            self._candidates()
        elif kind == "capsule" and begun:
            envelope = self._call("chaos_get_resume_capsule", commandRunId=self._dice.choice(begun).run)
            if envelope["status"] not in ("FOUND", "NOT_FOUND"):
                self._fault(f"capsule: {envelope}")
        else:
            self._must("SESSIONS NO_SESSIONS", "chaos_list_sessions", limit=20)

    def _candidates(self) -> None:
        ready = [work for work in self._work if work.next == "resume"]
        if not ready:
            self._must("SESSIONS NO_SESSIONS", "chaos_list_sessions", readyToResumeOnly=True)
            return
        work = self._dice.choice(ready)
        envelope = self._call("chaos_find_resume_candidates", commandRunId=work.run)
        if envelope["status"] != "RUNTIME_BUSY" and work.run not in str(envelope["data"]):
            self._fault(f"{work.run} is ready and no candidate: {envelope}")

    # ------------------------------------------------------------------------------------------------ notes

    def _told(self, run: str, state: str) -> None:
        with self._ledger.guard:
            self._ledger.runs[run] = state

    def _lost(self, work: Work, status: str, begun: float) -> None:
        with self._ledger.guard:
            self._ledger.lost_changes.append(Refusal(work.run, status, work.change, begun, time.monotonic()))

    def _fault(self, text: str) -> None:
        with self._ledger.guard:
            self._ledger.faults.append(text)


def _decisions(envelope: Message) -> list[Message]:
    data = envelope["data"]
    found = data.get("decisions", [data["decision"]] if data.get("decision") else [])
    return list(found)


def _active(lock: Message) -> bool:
    return bool(lock["state"] == "active")
