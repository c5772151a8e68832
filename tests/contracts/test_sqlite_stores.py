"""The SQLite stores keep every contract, with the full-text index and without it."""

from __future__ import annotations

from pathlib import Path

from chaoscore.adapters.sqlite import open_stores
from chaoscore.app.ports import Clock, Ids, Processes
from chaoscore.testing.contracts import (
    AuditStoreContract,
    DecisionStoreContract,
    MemoryStoreContract,
    OpenStores,
    PlanStoreContract,
    RunStoreContract,
    StoreContract,
)


class OnSqlite(StoreContract):
    async def open(self, directory: Path, clock: Clock, ids: Ids, processes: Processes) -> OpenStores:
        return await open_stores(directory, clock, ids, processes)


class WithoutFullText(StoreContract):
    async def open(self, directory: Path, clock: Clock, ids: Ids, processes: Processes) -> OpenStores:
        return await open_stores(directory, clock, ids, processes, full_text=False)


class TestPlans(OnSqlite, PlanStoreContract):
    pass


class TestRuns(OnSqlite, RunStoreContract):
    pass


class TestDecisions(OnSqlite, DecisionStoreContract):
    pass


class TestMemory(OnSqlite, MemoryStoreContract):
    pass


class TestMemoryWithoutFullText(WithoutFullText, MemoryStoreContract):
    pass


class TestAudit(OnSqlite, AuditStoreContract):
    pass
