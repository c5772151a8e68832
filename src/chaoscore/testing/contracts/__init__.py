"""What every adapter of a port must do, as tests. Subclass, say how to ``open``, and let pytest collect it.

class TestMyPlans(PlanStoreContract):
    async def open(self, directory, clock, ids, processes):
        return await open_my_stores(directory, clock, ids, processes)
"""

from __future__ import annotations

from chaoscore.testing.contracts.audit import AuditStoreContract
from chaoscore.testing.contracts.base import OpenStores, StoreContract, World, refused, story
from chaoscore.testing.contracts.decisions import DecisionStoreContract
from chaoscore.testing.contracts.memory import MemoryStoreContract
from chaoscore.testing.contracts.plans import PlanStoreContract
from chaoscore.testing.contracts.runs import RunStoreContract

__all__ = [
    "AuditStoreContract",
    "DecisionStoreContract",
    "MemoryStoreContract",
    "OpenStores",
    "PlanStoreContract",
    "RunStoreContract",
    "StoreContract",
    "World",
    "refused",
    "story",
]
