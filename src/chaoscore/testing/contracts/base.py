"""What the contracts of the stores share: a world to act in, and stories told to the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from chaoscore.app.ports import AuditStore, Clock, DecisionStore, Ids, MemoryStore, PlanStore, Processes, RunStore
from chaoscore.domain.action import Action, Grant
from chaoscore.domain.audit import AuditEvent
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.plan import Author, Plan, Step
from chaoscore.domain.policy.model import Verdict
from chaoscore.domain.principal import ANONYMOUS, Principal
from chaoscore.domain.records import Claim, Run
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses

LOCAL = Principal("local", "1000")
OTHER = Principal("oauth", "somebody-else")
NOBODY = ANONYMOUS
LEASE_SECONDS = 30.0


class OpenStores(Protocol):
    """What an adapter opens: the stores of one place."""

    @property
    def plans(self) -> PlanStore: ...

    @property
    def runs(self) -> RunStore: ...

    @property
    def decisions(self) -> DecisionStore: ...

    @property
    def memory(self) -> MemoryStore: ...

    @property
    def audit(self) -> AuditStore: ...

    async def close(self) -> None: ...


Opener = Callable[[Path, Clock, Ids, Processes], Awaitable[OpenStores]]


@dataclass
class World:
    """One place with stores open on it, and everything around them that a test decides about."""

    directory: Path
    opener: Opener
    stores: OpenStores
    clock: FakeClock = field(default_factory=FakeClock)
    ids: CountingIds = field(default_factory=CountingIds)
    processes: FakeProcesses = field(default_factory=FakeProcesses)
    opened: list[OpenStores] = field(default_factory=list)

    async def reopen(self) -> None:
        """As after a restart."""
        await self.stores.close()
        self.opened.remove(self.stores)
        self.stores = await self.another(self.processes)

    async def bytes_at_rest(self) -> dict[Path, bytes]:
        """Every file as it stands while nobody has the stores open."""
        await self.stores.close()
        found = {path: path.read_bytes() for path in self.directory.rglob("*") if path.is_file()}
        await self.reopen()
        return found

    async def another(self, processes: FakeProcesses | None = None) -> OpenStores:
        """What a second process of this place works with."""
        stores = await self.opener(self.directory, self.clock, self.ids, processes or self.processes.another(200))
        self.opened.append(stores)
        return stores

    def event(self, kind: str, principal: Principal = LOCAL, run: str | None = None, **data: Json) -> AuditEvent:
        return AuditEvent(kind, self.clock.now(), principal.key, "c-1", None, run, None, None, data)

    async def kinds(self) -> list[str]:
        """The kinds of all events, oldest first; the chain they stand in is whole."""
        report = await self.stores.audit.verify()
        assert report.fault is None, report
        found = await self.stores.audit.tail(None, None, 1_000, None)
        return [str(event["kind"]) for _, event in reversed(found)]

    def plan(self, label: str = "p-1", owner: Principal = LOCAL, steps: tuple[Step, ...] | None = None) -> Plan:
        steps = steps if steps is not None else (Step("s1", "test.noop", {}),)
        return Plan(label, "do it", steps, Author("caller"), "sha256:policy", self.clock.now(), owner.key)

    async def add_plan(self, label: str = "p-1", owner: Principal = LOCAL, connection: str | None = None) -> str:
        """A stored plan; its credential."""
        credential = self.ids.credential("plan")
        await self.stores.plans.add_plan(
            self.plan(label, owner), credential, connection, (self.event("plan-stored", owner),)
        )
        return credential

    def run(self, label: str = "r-1", plan: str = "p-1", owner: Principal = LOCAL) -> Run:
        return Run(label, None, plan, owner.key, "running", self.clock.now(), self.clock.now())

    async def open_run(self, label: str = "r-1", plan: str = "p-1", owner: Principal = LOCAL) -> str:
        """An open run of a plan that is there; its credential."""
        credential = self.ids.credential("run")
        event = self.event("run-opened", owner, label)
        await self.stores.runs.open_run(self.run(label, plan, owner), credential, False, (event,))
        return credential

    async def claim(self, label: str = "r-1", processes: FakeProcesses | None = None) -> Claim:
        process = (processes or self.processes).current()
        return await self.stores.runs.claim(label, process, self.clock.now(), LEASE_SECONDS)

    async def claimed_run(self) -> Claim:
        """Plan ``p-1``, its run ``r-1``, owned by this process."""
        await self.add_plan()
        await self.open_run()
        return await self.claim()

    async def loaded(self, label: str = "r-1") -> Run:
        run = await self.stores.runs.load_run(label)
        assert run is not None
        return run

    def action(self, step: str = "s1", item: int | None = None, **changes: object) -> Action:
        arguments: JsonObject = {"text": "hello"}
        action = Action(step, item, "test.noop", "running", 1, arguments, "sha256:action", Verdict("ALLOW", "all", ()))
        return _changed(action, changes)

    def grant(self, name: str = "g-1", run: str = "r-1", seconds: float = 3_600.0) -> Grant:
        now = self.clock.now()
        return Grant(name, run, "sha256:action", "terminal", LOCAL.key, now, now + seconds)


def _changed(action: Action, changes: dict[str, object]) -> Action:
    from dataclasses import replace

    return replace(action, **changes)  # type: ignore[arg-type]


class StoreContract:
    """Says how to open the adapter under test."""

    async def open(self, directory: Path, clock: Clock, ids: Ids, processes: Processes) -> OpenStores:
        """Open the stores of a directory, making them when they are not there. Two may be open on one directory."""
        raise NotImplementedError

    @asynccontextmanager
    async def world(self, directory: Path) -> AsyncIterator[World]:
        clock, ids, processes = FakeClock(), CountingIds(), FakeProcesses()
        stores = await self.open(directory / "data", clock, ids, processes)
        world = World(directory / "data", self.open, stores, clock, ids, processes, [stores])
        try:
            yield world
        finally:
            for opened in world.opened:
                await opened.close()


C = TypeVar("C", bound=StoreContract)


def story(tell: Callable[[C, World], Awaitable[None]]) -> Callable[[C, Path], None]:
    """A test told as a coroutine in a world of its own."""

    def test(self: C, tmp_path: Path) -> None:
        async def telling() -> None:
            async with self.world(tmp_path) as world:
                await tell(self, world)

        asyncio.run(telling())

    test.__name__ = tell.__name__
    test.__qualname__ = tell.__qualname__
    test.__doc__ = tell.__doc__
    test.__module__ = tell.__module__
    return test


class Refusal:
    """The error that a refused call raised."""

    error: ChaosError


E = TypeVar("E", bound=ChaosError)


@contextmanager
def refused(kind: type[ChaosError], code: str | None = None) -> Iterator[Refusal]:
    """What stands inside must raise ``kind`` (with ``code``)."""
    refusal = Refusal()
    caught: ChaosError | None = None
    try:
        yield refusal
    except kind as error:
        caught = refusal.error = error
    assert caught is not None, f"{kind.__name__} was not raised"
    assert code is None or caught.code == code, f"{caught.code} instead of {code}: {caught}"
    assert caught.message and not caught.message.endswith("."), caught.message
