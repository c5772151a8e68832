"""What the store keeps about plans and runs, as values that both sides of the port share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chaoscore.domain.action import Action, Grant
from chaoscore.domain.approval import DecisionState, RunDecision
from chaoscore.domain.evaluation import Evaluation
from chaoscore.domain.plan import Plan

RunStatus = Literal["running", "waiting-for-decision", "needs-attention", "completed", "failed", "cancelled"]
RUN_FINISHED: frozenset[RunStatus] = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """``handle`` is the ``plan_…`` id when the store may show it (a named owner), ``None`` for an anonymous one."""

    plan: Plan
    handle: str | None
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Which process owns a lease: enough to tell that it is dead without waiting for the lease to run out.

    ``namespace`` names the pid namespace; in another one a pid says nothing and only the lease counts.
    """

    boot: str
    namespace: str
    pid: int
    started: str
    nonce: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write a run. Every write is refused (``LeaseLost``) once ``fence`` is no longer the run's."""

    run: str
    fence: int


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a plan. ``label`` is public, ``handle`` the ``run_…`` id when it may be shown.

    ``actions`` are the recorded ones; a step without a row is pending. Times are seconds since the epoch. ``root`` is
    the interactions folder where its questions are mirrored; whoever goes on with the run uses this one.
    """

    label: str
    handle: str | None
    plan: str
    owner: str
    status: RunStatus
    created_at: float
    updated_at: float
    fence: int = 0
    lease_until: float | None = None
    process: ProcessIdentity | None = None
    actions: tuple[Action, ...] = ()
    grants: tuple[Grant, ...] = ()
    evaluation: Evaluation | None = None
    decisions: tuple[RunDecision, ...] = ()
    root: str | None = None
    wish: Wish | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What the last caller asked to execute: these steps (``None``: all), stopping at once where approval is needed or
    not. Whoever goes on with the run after an answer does this and nothing more."""

    steps: tuple[str, ...] | None = None
    stop_at_approval: bool = False


@dataclass(frozen=True, slots=True)
class RunSummary:
    label: str
    handle: str | None
    plan: str
    plan_handle: str | None
    objective: str
    status: RunStatus
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True)
class Changes:
    """Everything one transaction changes in a run, audit events aside. Empty parts change nothing.

    ``used_grants`` are grant ids consumed by the actions started here; using one twice, or one whose digest a person
    denied meanwhile, fails the transaction. So does one of ``unanswered``, questions about what starts here, that was
    answered or ran out of time meanwhile: a no that came first stands. ``asked`` are new decisions, ``ended`` those
    that nobody needs to answer any more, ``applied`` the ids of decisions whose answer the run has now taken into
    account.
    """

    actions: tuple[Action, ...] = ()
    grants: tuple[Grant, ...] = ()
    used_grants: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    status: RunStatus | None = None
    evaluation: Evaluation | None = None
    asked: tuple[RunDecision, ...] = ()
    ended: tuple[tuple[str, DecisionState], ...] = ()
    applied: tuple[str, ...] = ()
    wish: Wish | None = None
