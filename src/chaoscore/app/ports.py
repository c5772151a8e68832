"""What the application needs from the world, as small Protocols. Adapters implement them; contract tests in
``chaoscore.testing`` tell whether they do.

Every method that writes is one transaction: it happened whole, audit events included, or raised and changed nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from chaoscore.domain.action import Grant
from chaoscore.domain.approval import DecisionState, RunDecision, WaitingDecision, WaitingRef
from chaoscore.domain.audit import AuditEvent, ChainReport
from chaoscore.domain.capability import Capability
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.memory import Memory, NewMemory, RecallQuery, Recollection
from chaoscore.domain.plan import Plan
from chaoscore.domain.policy.model import Policy, Question, Verdict
from chaoscore.domain.principal import Principal
from chaoscore.domain.records import Changes, Claim, ProcessIdentity, Run, RunSummary, StoredPlan


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...


class Ids(Protocol):
    def credential(self, prefix: str) -> str:
        """``<prefix>_`` and at least 128 bits of randomness: an id that grants access."""
        ...

    def label(self, prefix: str) -> str:
        """``<prefix>-`` and enough randomness to be unique: a public name that grants nothing."""
        ...


class Processes(Protocol):
    def current(self) -> ProcessIdentity: ...

    def is_dead(self, process: ProcessIdentity) -> bool:
        """True only when certain: same boot and pid namespace, and that pid is gone or started at another time."""
        ...


class PolicySource(Protocol):
    """The operator's policy in force, re-read when its file changes; never looser than the last good one."""

    def verdict(self, question: Question) -> Verdict:
        """Total: an unreadable policy tightens (last good DENYs stand, everything else REQUIRE_APPROVAL)."""
        ...

    def policy(self) -> Policy:
        """The last good policy."""
        ...

    def problem(self) -> str | None:
        """Why the file cannot be used now, ``None`` when it can."""
        ...

    def warnings(self) -> tuple[str, ...]: ...

    @property
    def path(self) -> str: ...


class PlanStore(Protocol):
    async def add_plan(self, plan: Plan, credential: str, connection: str | None, events: Sequence[AuditEvent]) -> None:
        """Store a plan for good. An anonymous owner's credential is kept as a hash only."""
        ...

    async def find_plan(self, credential: str, principal: Principal, binding: str | None = None) -> StoredPlan | None:
        """``None`` for a missing and for a foreign one. ``binding`` is the caller's connection, for anonymous plans."""
        ...

    async def plan_by_label(self, label: str) -> StoredPlan | None: ...


class RunStore(Protocol):
    async def open_run(self, run: Run, credential: str, rerun: bool, events: Sequence[AuditEvent]) -> tuple[Run, bool]:
        """The plan's newest run, or ``run`` made anew when there is none, or when ``rerun`` and the newest is finished.

        Returns the run as it stands and whether it was made by this call. Two callers at once get one run.
        ``Conflict`` when ``rerun`` is asked of an unfinished run.
        """
        ...

    async def find_run(self, credential: str, principal: Principal) -> Run | None: ...

    async def run_of_plan(self, plan: str) -> Run | None:
        """The newest run of the plan with this label."""
        ...

    async def load_run(self, label: str) -> Run | None: ...

    async def list_runs(
        self, principal: Principal | None, limit: int, cursor: str | None
    ) -> tuple[tuple[RunSummary, ...], str | None]:
        """Newest first; an anonymous principal has no list. ``None`` is the operator, who sees all."""
        ...

    async def claim(self, label: str, process: ProcessIdentity, now: float, lease_seconds: float) -> Claim:
        """Own the run: free, owned by this process, owned by a dead one, or its lease ran out.

        The fence rises with every claim. Raises ``Busy`` while a live process holds it.
        """
        ...

    async def renew(self, claim: Claim, lease_until: float) -> None:
        """Raises ``LeaseLost``."""
        ...

    async def commit(self, claim: Claim, changes: Changes, events: Sequence[AuditEvent]) -> None:
        """One durable transaction. Raises ``LeaseLost``, or ``Conflict`` when a grant was already used."""
        ...

    async def release(self, claim: Claim, changes: Changes, events: Sequence[AuditEvent]) -> None:
        """``commit``, and give the lease up."""
        ...

    async def record_outside(self, label: str, changes: Changes, events: Sequence[AuditEvent]) -> None:
        """A change by someone who does not own the run (a grant, a cancellation of a waiting run): raises ``Busy``
        while a live lease holds it and the changes touch actions or status; grants may always be added."""
        ...

    async def add_evidence(
        self,
        label: str,
        step: str,
        item: int | None,
        attempt: int,
        evidence: JsonObject,
        events: Sequence[AuditEvent],
    ) -> None:
        """Keep a result that arrived after its outcome was given up. Needs no claim and changes no state."""
        ...


class DecisionStore(Protocol):
    """What runs ask people. New decisions and their ends are written with the run's changes (``RunStore``)."""

    async def find_decision(self, decision: str) -> RunDecision | None: ...

    async def list_decisions(
        self,
        states: Sequence[DecisionState],
        limit: int,
        cursor: str | None,
        principal: Principal | None = None,
        newest_first: bool = False,
    ) -> tuple[tuple[RunDecision, ...], str | None]:
        """Oldest first unless told otherwise. ``None`` as principal is the operator, who sees all; an anonymous
        principal has no list."""
        ...

    async def count_waiting(self) -> int: ...

    async def waiting_refs(self) -> tuple[WaitingRef, ...]:
        """All that wait, oldest first; cheap, whatever they ask."""
        ...

    async def waiting_after(
        self, place: int, limit: int, now: float
    ) -> tuple[tuple[WaitingDecision, ...], int, tuple[str, ...]]:
        """Briefly, what waits and has not run out of time behind ``place`` (0 begins), oldest first; how many wait in
        all; and in words which of those that were passed cannot be read."""
        ...

    async def answer(self, decision: RunDecision, grants: Sequence[Grant], events: Sequence[AuditEvent]) -> None:
        """Record an answered decision with its grants and denials, in one transaction and without a claim on the run.

        Raises ``Conflict`` saying who answered first, or how it ended; ``NotFound``.
        """
        ...

    async def ready_runs(self, now: float, limit: int) -> tuple[str, ...]:
        """Labels of unfinished runs that nobody drives and that can go on: their question was answered, or ran out of
        time, without the run having heard of it, or whoever drove them is gone. At most ``limit``."""
        ...


class MemoryStore(Protocol):
    async def put(self, namespace: str, memory: NewMemory, now: float, events: Sequence[AuditEvent]) -> Memory:
        """Raises ``Conflict`` (details: the current memory) when ``expect_version`` does not fit."""
        ...

    async def forget(self, namespace: str, key: str, now: float, events: Sequence[AuditEvent]) -> bool:
        """Remove the key with its history for good; whether there was one."""
        ...

    async def recall(self, namespace: str, query: RecallQuery, now: float) -> Recollection:
        """Expired memories are not returned. Raises ``InvalidInput`` for a cursor that is not ours."""
        ...

    async def history(self, namespace: str, key: str, limit: int) -> tuple[Memory, ...]:
        """Earlier versions, newest first."""
        ...

    async def sweep(self, now: float, limit: int) -> int:
        """Delete at most ``limit`` expired memories; how many went."""
        ...


class AuditStore(Protocol):
    async def append(self, events: Sequence[AuditEvent]) -> None: ...

    async def tail(
        self, principal: Principal | None, run: str | None, limit: int, before: int | None
    ) -> tuple[tuple[int, JsonObject], ...]:
        """Newest first, with sequence numbers. ``None`` as principal is the operator, who sees all."""
        ...

    async def verify(self, progress: Callable[[int], None] | None = None) -> ChainReport:
        """Walk the whole chain against the checkpoint outside the database. ``progress`` hears now and then, in another
        thread, how many events were looked at; what it raises ends the walk and is raised here."""
        ...

    def redact(self, value: Json) -> JsonObject:
        """``{"digest": keyed digest, "preview": short redacted text}``: how values appear in events."""
        ...


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more provider calls."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def plus(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def to_json(self) -> dict[str, Json]:
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "reasoning_tokens": self.reasoning_tokens,
        }


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """``deadline_seconds`` bounds the whole call, retries and repair turn included."""

    output_tokens_max: int = 4096
    deadline_seconds: float = 180.0


@dataclass(frozen=True, slots=True)
class GeneratedText:
    text: str
    model: str
    provider_id: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class GeneratedJson:
    """``raw`` has been validated against the schema that was asked for."""

    raw: Json
    model: str
    provider_id: str
    usage: Usage


class AIProvider(Protocol):
    """A model behind one small interface. Raises only ``ProviderError``s, whose messages carry no secret.

    A ``ProviderError`` carries what it cost as ``details['usage']`` when anything was spent.
    """

    @property
    def id(self) -> str: ...

    @property
    def display_name(self) -> str: ...

    def is_configured(self) -> bool: ...

    async def generate_text(
        self, instructions: str, input: str, options: GenerateOptions | None = None
    ) -> GeneratedText: ...

    async def generate_json(
        self, instructions: str, input: str, json_schema: JsonObject, options: GenerateOptions | None = None
    ) -> GeneratedJson: ...


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """What a handler may ask of the gate while it runs.

    ``authorize`` puts other arguments of the same capability to the policy (a redirect hop) and raises ``NotPerformed``
    unless they are covered by what allowed this action. ``idempotency_key`` is stable over retries of one attempt.
    ``private_hosts`` are the ``host:port`` pairs for which the operator lifted the private-address refusal.
    """

    authorize: Callable[[JsonObject], None]
    idempotency_key: str
    deadline_seconds: float
    private_hosts: tuple[str, ...] = ()


Handler = Callable[[JsonObject, HandlerContext], Awaitable[Json]]
"""Runs the effect. Blocking work belongs in a thread: a handler never blocks the event loop.

Raises ``NotPerformed`` when the effect certainly did not happen; any other exception leaves the outcome of a
non-idempotent capability unknown.
"""

Handlers = Mapping[str, Handler]


@dataclass(frozen=True, slots=True)
class Provided:
    """One capability as it is registered: what the registry may know, and the handler that only the gate may call.

    Third parties import this; an entry point of the group ``chaoscore.capabilities`` is one, or a function of no
    arguments that returns one.
    """

    capability: Capability
    handler: Handler


Progress = Callable[[JsonObject], Awaitable[None]]
