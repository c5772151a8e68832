"""Taking the end of the chain as the checkpoint again, on a person's word, where ``audit.head`` is lost.

``chaoscore audit accept-head`` stands above it. The program never does this by itself: what a lost checkpoint knew of
events that were cut off is gone for good, and only a person can say that this is so.
"""

from __future__ import annotations

from chaoscore.adapters.sqlite.database import Transaction
from chaoscore.adapters.sqlite.stores import Stores
from chaoscore.domain.audit import AuditEvent, Checkpoint
from chaoscore.domain.errors import StorageError


async def accept_head(stores: Stores, event: AuditEvent) -> Checkpoint:
    """Record ``event`` at the end of the chain, then make the checkpoint of it. Raises ``StorageError``.

    A process that dies in between leaves the event and no checkpoint: done again, it is said again.
    """
    new = stores.chain.entries((event,))

    def record(transaction: Transaction) -> Checkpoint | None:
        stores.chain.append(transaction, new)
        return transaction.head

    head = await stores.database.write(record)
    if head is None:
        raise StorageError("nothing could be recorded", code="IO_ERROR", path=str(stores.chain.head_path))
    accepted = head
    # As a write of its own, and so under the lock that every other writer of the checkpoint holds.
    await stores.database.write(lambda _: stores.chain.accept(accepted))
    return accepted
