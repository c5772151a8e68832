"""``PlanStore``: plans as they were stored, found by a credential that the database cannot give away.

An anonymous owner's credential is its only key, so only its SHA-256 is kept; with 192 random bits a plain hash is
enough. A named owner's id is kept as well, because its owner may list it. What an anonymous plan is bound to (the
legacy session id, itself a credential) is kept hashed too.
"""

from __future__ import annotations

import hashlib
import hmac
import sqlite3
from collections.abc import Sequence

from chaoscore.adapters.sqlite.chain import Chain
from chaoscore.adapters.sqlite.database import Database, Transaction
from chaoscore.adapters.sqlite.rows import plan_body, stored_plan
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import Conflict
from chaoscore.domain.plan import Plan
from chaoscore.domain.principal import ANONYMOUS, Principal
from chaoscore.domain.records import StoredPlan

_INSERT = "INSERT INTO plans (label, credential, handle, owner, binding, body) VALUES (?, ?, ?, ?, ?, ?)"
_FIND = "SELECT label, handle, owner, binding, body FROM plans WHERE credential = ?"
_BY_LABEL = "SELECT label, handle, body FROM plans WHERE label = ?"
_HAS_RUN = "SELECT 1 FROM runs WHERE plan = ? LIMIT 1"


def hashed(credential: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()


def shown_handle(credential: str, owner: str) -> str | None:
    """The credential itself where it may be kept: its owner has a name to prove."""
    return None if owner == ANONYMOUS.key else credential


class SqlitePlanStore:
    def __init__(self, database: Database, chain: Chain) -> None:
        self._database = database
        self._chain = chain

    async def add_plan(self, plan: Plan, credential: str, connection: str | None, events: Sequence[AuditEvent]) -> None:
        binding = hashed(connection) if connection is not None and plan.owner == ANONYMOUS.key else None
        handle = shown_handle(credential, plan.owner)
        row = (plan.label, hashed(credential), handle, plan.owner, binding, plan_body(plan))
        new = self._chain.entries(events)

        def work(transaction: Transaction) -> None:
            try:
                transaction.execute(_INSERT, row)
            except sqlite3.IntegrityError:
                raise Conflict(f"there is a plan {plan.label!r} already; make a new label", label=plan.label) from None
            self._chain.append(transaction, new)

        await self._database.write(work)

    async def find_plan(self, credential: str, principal: Principal, binding: str | None = None) -> StoredPlan | None:
        """A bound anonymous plan is found from elsewhere too once it has a run: from then on the id suffices."""
        key = hashed(credential)
        bound_to = hashed(binding) if binding is not None else b""

        def work(connection: sqlite3.Connection) -> StoredPlan | None:
            row = connection.execute(_FIND, (key,)).fetchone()
            if row is None:
                return None
            label, handle, owner, bound, body = row
            if owner != principal.key:
                return None
            here = bound is None or (isinstance(bound, bytes) and hmac.compare_digest(bound, bound_to))
            if not here and connection.execute(_HAS_RUN, (label,)).fetchone() is None:
                return None
            return stored_plan(label, handle, body)

        return await self._database.read(work)

    async def plan_by_label(self, label: str) -> StoredPlan | None:
        def work(connection: sqlite3.Connection) -> StoredPlan | None:
            row = connection.execute(_BY_LABEL, (label,)).fetchone()
            return stored_plan(*row) if row is not None else None

        return await self._database.read(work)
