"""Any order of calls: the service beside a model that is nothing but the state tables and what was acknowledged."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from chaoscore.app.envelope import Envelope
from chaoscore.app.interactions.begin import BeginRequest
from chaoscore.app.interactions.deciding import AnswerRequest, DecisionRequest
from chaoscore.app.interactions.progress import EndRequest
from chaoscore.app.interactions.service import InteractionService
from chaoscore.domain.interaction.names import instant_text
from chaoscore.domain.interaction.response import Choice
from tests.interaction.steps import OPTIONS, faults, state, text
from tests.interaction.support import Bench, ManualClock

OVER = ("completed", "cancelled", "expired")


class Runtime(RuleBasedStateMachine):
    """``sessions`` and ``decisions`` hold the state that each must have; ``answers`` what was acknowledged."""

    runs = Bundle("runs")
    questions = Bundle("questions")

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.bench = Bench(Path(self._folder.name), clock=self.clock)
        self.loop = asyncio.new_event_loop()
        self.service: InteractionService = self.bench.service()
        self.sessions: dict[str, str] = {}
        self.changes: dict[str, str] = {}
        self.deadlines: dict[str, float] = {}
        self.decisions: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self.answers: dict[str, str] = {}

    def teardown(self) -> None:
        self.loop.run_until_complete(self.service.close())
        self.loop.close()
        self._folder.cleanup()

    def _waiting(self, run: str) -> list[str]:
        return [name for name, owner in self.owners.items() if owner == run and self.decisions[name] == "waiting"]

    def _done(self, call: Coroutine[Any, Any, Envelope]) -> Envelope:
        envelope = self.loop.run_until_complete(call)
        assert envelope.status != "INTERNAL_ERROR", envelope
        return envelope

    @initialize(target=runs)
    def first(self) -> str:
        return self.begin_new("c1")

    @rule(target=runs, change=st.sampled_from(["c1", "c2"]))
    def begin(self, change: str) -> str:
        return self.begin_new(change)

    def begin_new(self, change: str) -> str:
        run = f"RUN-{len(self.sessions)}"
        free = not self._held(change)
        ready = [r for r, s in self.sessions.items() if s == "ready-to-resume" and self.changes[r] == change]
        done = self._done(self.service.begin(BeginRequest("chaos:run", change, command_run_id=run)))
        assert (done.status == "READY") == (free and not ready), done
        if done.status != "READY":
            return next((r for r, c in self.changes.items() if c == change), run)
        self.sessions[run], self.changes[run] = "running", change
        return run

    def _held(self, change: str) -> bool:
        """By a run that has asked about it and is not over: its lock stands until it ends."""
        asked = set(self.owners.values())
        return any(c == change and r in asked and self.sessions[r] not in OVER for r, c in self.changes.items())

    def _mine(self, run: str) -> bool:
        return run in self.owners.values()

    @rule(run=runs)
    def begin_again(self, run: str) -> None:
        done = self._done(self.service.begin(BeginRequest("chaos:run", self.changes[run], command_run_id=run)))
        expected = {
            "running": "READY",
            "waiting-for-decision": "BLOCKED_BY_PENDING_DECISION",
            "ready-to-resume": "RESUME_AVAILABLE",
        }
        assert done.status == expected.get(self.sessions[run], "SESSION_TERMINAL"), done

    @rule(target=questions, run=runs, ttl=st.sampled_from([None, None, 600]))
    def ask(self, run: str, ttl: int | None) -> object:
        expires = instant_text(int((self.clock.seconds + ttl) * 1000)) if ttl is not None else None
        title = f"Question {len(self.decisions)}"
        done = self._done(
            self.service.create_decision(DecisionRequest(run, title, "Because.", OPTIONS, expires_at=expires))
        )
        before = self.sessions[run]
        free = self._mine(run) or not self._held(self.changes[run])
        assert done.ok == (before in ("running", "waiting-for-decision") and free), done
        if not done.ok:
            return multiple()
        name = text(done.data["decisionId"])
        self.sessions[run], self.decisions[name], self.owners[name] = "waiting-for-decision", "waiting", run
        if ttl is not None:
            self.deadlines[name] = self.clock.seconds + ttl
        return name

    @rule(decision=questions, option=st.sampled_from("ab"))
    def answer(self, decision: str, option: str) -> None:
        done = self._done(self.service.answer(AnswerRequest(decision, Choice(option), "alice", "manual-file")))
        before = self.decisions[decision]
        again = before == "answered" and self.answers[decision] == option
        assert done.ok == (before == "waiting" or again), done
        if before == "waiting":
            self.decisions[decision], self.answers[decision] = "answered", option
            self._settle(self.owners[decision])

    def _settle(self, run: str) -> None:
        if self.sessions[run] == "waiting-for-decision" and not self._waiting(run):
            self.sessions[run] = "ready-to-resume"

    @rule(decision=questions)
    def consume(self, decision: str) -> None:
        done = self._done(self.service.mark_consumed(decision))
        assert done.ok == (self.decisions[decision] in ("answered", "consumed")), done
        if done.ok:
            self.decisions[decision] = "consumed"

    @rule(run=runs)
    def resume(self, run: str) -> None:
        done = self._done(self.service.resume(run))
        assert done.ok == (self.sessions[run] in ("running", "ready-to-resume")), done
        if done.ok:
            self.sessions[run] = "running"

    @rule(run=runs)
    def complete(self, run: str) -> None:
        done = self._done(self.service.complete(EndRequest(run)))
        assert done.ok == (self.sessions[run] in ("running", "ready-to-resume", "completed")), done
        if done.ok:
            self.sessions[run] = "completed"

    @rule(run=consumes(runs))
    def cancel(self, run: str) -> None:
        done = self._done(self.service.cancel(EndRequest(run)))
        assert done.ok == (self.sessions[run] not in ("completed", "expired")), done
        if done.ok:
            for name in self._waiting(run):
                self.decisions[name] = "cancelled"
            self.sessions[run] = "cancelled"

    @rule(seconds=st.sampled_from([1.0, 700.0, -3_600.0]))
    def time_passes(self, seconds: float) -> None:
        """Whoever looks lets end what has ended by then."""
        self.clock.seconds += seconds
        assert self._done(self.service.active_decision()).ok
        for name, deadline in self.deadlines.items():
            if self.decisions[name] == "waiting" and deadline <= self.clock.seconds:
                self.decisions[name] = "expired"
                self._settle(self.owners[name])

    @rule()
    def open_again(self) -> None:
        self.loop.run_until_complete(self.service.close())
        self.service = self.bench.service()

    @invariant()
    def everything_stands_as_acknowledged(self) -> None:
        root = self.bench.root
        for run, expected in self.sessions.items():
            assert state(root, f"sessions/{run}.json") == expected
        for name, expected in self.decisions.items():
            assert state(root, f"decisions/{name}/decision.json") == expected
        for name, option in self.answers.items():
            done = self._done(self.service.decision_response(name))
            assert done.data["selectedOptionId"] == option
        waiting = [name for name, expected in self.decisions.items() if expected == "waiting"]
        assert (self._done(self.service.active_decision()).status == "NO_ACTIVE_DECISION") == (not waiting)
        assert faults(root) == []


TestAnyOrderOfCalls = Runtime.TestCase
TestAnyOrderOfCalls.settings = settings(max_examples=10, stateful_step_count=20)
