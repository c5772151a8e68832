"""Who may write a run: one owner at a time, named by a fence that rises with every claim.

A lease tells others how long to keep away; the fence is what makes a late writer harmless. It is looked at in the
transaction of every write, so a process that was stopped for longer than its lease changes nothing when it comes back.
"""

from __future__ import annotations

from math import ceil

from chaoscore.adapters.sqlite.database import Transaction
from chaoscore.adapters.sqlite.rows import RUN_COLUMNS, process_body, run_of
from chaoscore.app.ports import Processes
from chaoscore.domain.errors import Busy, LeaseLost, NotFound
from chaoscore.domain.records import Claim, ProcessIdentity, Run

_BY_LABEL = f"SELECT {RUN_COLUMNS} FROM runs WHERE label = ?"  # noqa: S608
_HELD = "SELECT id FROM runs WHERE label = ? AND fence = ? AND process IS NOT NULL"
_CLAIM = "UPDATE runs SET fence = ?, lease_until = ?, process = ? WHERE id = ?"
_RENEW = "UPDATE runs SET lease_until = ? WHERE label = ? AND fence = ? AND process IS NOT NULL"
_GIVE_UP = "UPDATE runs SET lease_until = NULL, process = NULL WHERE id = ?"
_FENCE_OFF = "UPDATE runs SET fence = fence + 1, lease_until = NULL, process = NULL WHERE id = ?"


class Leases:
    """The statements of one transaction each; all raise ``StorageError`` for a malformed run."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def claim(
        self, transaction: Transaction, label: str, process: ProcessIdentity, now: float, lease_seconds: float
    ) -> Claim:
        """Raises ``Busy`` while a live process holds it, ``NotFound``."""
        row_id, run = self._load(transaction, label)
        if run.process != process and self._is_held(run, now):
            raise self._busy(run, now)
        fence = run.fence + 1
        transaction.execute(_CLAIM, (fence, now + lease_seconds, process_body(process), row_id))
        return Claim(label, fence)

    def renew(self, transaction: Transaction, claim: Claim, lease_until: float) -> None:
        if transaction.execute(_RENEW, (lease_until, claim.run, claim.fence)).rowcount != 1:
            raise lost(claim)

    def held(self, transaction: Transaction, claim: Claim) -> int:
        """The row of the run that is still this claim's. Raises ``LeaseLost``."""
        row = transaction.execute(_HELD, (claim.run, claim.fence)).fetchone()
        if row is None:
            raise lost(claim)
        return int(row[0])

    def outside(self, transaction: Transaction, label: str, now: float, *, touches: bool) -> int:
        """The row of a run that somebody else may change now. Raises ``Busy`` when it ``touches`` what a live owner
        writes; an owner that is dead or late is fenced off, so that it cannot write over the change."""
        row_id, run = self._load(transaction, label)
        if touches:
            if self._is_held(run, now):
                raise self._busy(run, now)
            if run.process is not None:
                transaction.execute(_FENCE_OFF, (row_id,))
        return row_id

    def give_up(self, transaction: Transaction, row_id: int) -> None:
        transaction.execute(_GIVE_UP, (row_id,))

    def _load(self, transaction: Transaction, label: str) -> tuple[int, Run]:
        row = transaction.execute(_BY_LABEL, (label,)).fetchone()
        if row is None:
            raise NotFound(f"there is no run {label!r}", run=label)
        return int(row[0]), run_of(row)

    def _is_held(self, run: Run, now: float) -> bool:
        if run.process is None or run.lease_until is None or run.lease_until <= now:
            return False
        return not self._processes.is_dead(run.process)

    def _busy(self, run: Run, now: float) -> Busy:
        owner, until = run.process, run.lease_until
        assert owner is not None and until is not None
        left = max(0.0, until - now)
        return Busy(
            f"run {run.label!r} is held by process {owner.pid} {self._place(owner)}; "
            f"it can be taken over in {ceil(left)} s, unless that process lives and renews its lease",
            run=run.label,
            pid=owner.pid,
            lease_seconds=round(left, 3),
        )

    def _place(self, owner: ProcessIdentity) -> str:
        here = self._processes.current()
        if owner.boot != here.boot:
            return "of another machine, or of this one before it was started again"
        return "of this machine" if owner.namespace == here.namespace else "in another container of this machine"


def lost(claim: Claim) -> LeaseLost:
    return LeaseLost(f"run {claim.run!r} was taken over by another process; nothing was written", run=claim.run)
