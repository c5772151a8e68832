"""Remember, recall and forget for one caller; and the bounded context that planning may see (spec §1, §8)."""

from __future__ import annotations

from dataclasses import dataclass

from chaoscore.app.ports import AuditStore, Clock, MemoryStore
from chaoscore.app.tools import CallContext, Connection
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.memory import Memory, NewMemory, RecallQuery, Recollection


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a planner may see: recalled memories and working memory, as data. ``any`` tells whether there was any."""

    context: JsonObject
    memories: int

    @property
    def any(self) -> bool:
        return self.memories > 0


class MemoryService:
    def __init__(self, store: MemoryStore, audit: AuditStore, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._audit = audit
        self._clock = clock
        self._limits = limits

    async def remember(self, memory: NewMemory, context: CallContext) -> Memory:
        """Raises ``InvalidInput`` for a broken bound, ``Conflict`` when ``expect_version`` does not fit."""
        memory = memory.validated()
        event = self._event(
            context, "memory-written", key=memory.key, tags=list(memory.tags), value=self._audit.redact(memory.value)
        )
        return await self._store.put(context.principal.memory_namespace, memory, self._clock.now(), (event,))

    async def forget(self, key: str, context: CallContext) -> bool:
        """Remove a key and its history for good; whether there was one."""
        event = self._event(context, "memory-forgotten", key=key)
        return await self._store.forget(context.principal.memory_namespace, key, self._clock.now(), (event,))

    async def recall(self, query: RecallQuery, context: CallContext) -> Recollection:
        return await self._store.recall(context.principal.memory_namespace, query, self._clock.now())

    async def history(self, key: str, limit: int, context: CallContext) -> tuple[Memory, ...]:
        return await self._store.history(context.principal.memory_namespace, key, limit)

    async def context_for(self, objective: str, context: CallContext) -> Recalled:
        """A bounded number of memories that fit the objective, and this connection's working memory."""
        query = RecallQuery(text=objective, limit=self._limits.recalled_memories_max)
        found = await self._store.recall(context.principal.memory_namespace, query, self._clock.now())
        memories: list[Json] = [
            {"key": m.key, "value": m.value, "source": m.source, "trust": m.trust} for m in found.memories
        ]
        working: list[Json] = [
            {"objective": entry.get("objective"), "verdict": entry.get("verdict")}
            for entry in context.connection.working
        ]
        return Recalled({"memories": memories, "working_memory": working}, len(memories))

    def note(self, connection: Connection, entry: JsonObject) -> None:
        """Put an entry into the connection's working memory; the oldest goes when it is full."""
        if not connection.stateful:
            return
        connection.working.append(entry)
        del connection.working[: -self._limits.working_memory_max]

    def _event(self, context: CallContext, kind: str, **data: Json) -> AuditEvent:
        return AuditEvent(kind, self._clock.now(), context.principal.key, context.connection.id, data=data)
