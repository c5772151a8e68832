"""Processes on one database that die and are followed by others, and capabilities whose effects an auditor sees."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.app.tools import CallContext, Connection
from chaoscore.bootstrap import Kernel, open_kernel
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.principal import Principal
from chaoscore.settings import Settings
from chaoscore.testing.fakes import CountingIds, FakeClock, FakeProcesses
from chaoscore.testing.faults import Crash
from tests.sim_approvals.auditor import Auditor
from tests.sim_approvals.machine import OWNER, SimLoop

LOCAL = Principal("local", "1000")
LIMITS = Limits(step_seconds=20.0, lease_seconds=30.0, grant_seconds=600.0, decision_seconds=1_800.0)
TEXT: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["text"],
    "properties": {"text": {"type": "string"}},
}
ITEMS: JsonObject = {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "items": {"type": "string"}}},
}
Effect = Callable[[str], Awaitable[Json]]


class Process:
    """One process: a kernel of its own on the shared files. ``die_at`` is the write at which it dies, if it does."""

    def __init__(self, world: World, pid: int) -> None:
        self.world = world
        self.pid = pid
        self.dead = False
        self.closed = False
        self.since = world.loop.turns
        self.die_at: int | None = None
        self.die_after = False
        self._writes = 0
        self._identity = world.machine.another(pid)
        self._opened: AbstractAsyncContextManager[Kernel] | None = None
        self.kernel: Kernel

    @property
    def name(self) -> str:
        return f"p{self.pid}"

    async def open(self) -> None:
        world = self.world
        OWNER.set(self)
        self._opened = open_kernel(
            Settings(world.folder / "data", world.folder / "policy.json", limits=LIMITS, interactions_root=world.root),
            extra=self._provided(),
            clock=world.clock,
            ids=CountingIds(self.pid * 1_000_000),
            processes=self._identity,
        )
        self.kernel = await self._opened.__aenter__()

    async def close(self) -> None:
        """The end of the process, in order or after its death. Only a death is no fault."""
        self.closed = True
        assert self._opened is not None
        try:
            await self._opened.__aexit__(None, None, None)
        except Crash:
            assert self.dead
        self.world.machine.bury(self._identity.current())

    def context(self) -> CallContext:
        async def progress(message: JsonObject) -> None:
            return

        return CallContext(LOCAL, Connection(f"c-{self.pid}"), progress)

    async def call(self, tool: str, **arguments: Json) -> dict[str, Any]:
        return dict((await self.kernel.tools.call(tool, arguments, self.context())).to_json())

    # -- life and death --------------------------------------------------------------------------------------

    def doom(self, writes: int, after: bool) -> None:
        self.die_at, self.die_after = self._writes + writes, after

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            self.world.machine.bury(self._identity.current())
            self.world.say(f"{self.name} DIED at write {self._writes}")

    def before_job(self, writes: bool) -> bool:
        self._writes += writes
        if writes and self._writes == self.die_at and not self.die_after:
            self.die()
        return not self.dead

    def after_job(self, writes: bool) -> bool:
        if writes:
            self.world.auditor.look()
            if self._writes == self.die_at and self.die_after:
                self.die()
        return not self.dead

    # -- what it can do --------------------------------------------------------------------------------------

    def _provided(self) -> tuple[Provided, ...]:
        dice = self.world.effects_dice

        def handler(name: str, effect: Effect, longest: float) -> Callable[[JsonObject, HandlerContext], Any]:
            async def handle(arguments: JsonObject, context: HandlerContext) -> Json:
                if self.dead:
                    raise Crash
                text = str(arguments["text"])
                self.world.auditor.begins(self, name, text, context.idempotency_key)
                await asyncio.sleep(dice.random() * longest)
                if self.dead:
                    raise Crash
                return await effect(text)

            return handle

        async def echo(text: str) -> Json:
            return {"text": text}

        async def listing(text: str) -> Json:
            return {"items": [f"{text}/{n}" for n in range(zlib.crc32(text.encode()) % 4)]}

        async def burst(text: str) -> Json:
            raise RuntimeError("it broke in the middle")

        async def refuse(text: str) -> Json:
            raise NotPerformed("it did not happen")

        acts, puts = Annotations(), Annotations(idempotent=True)
        reads = Annotations(read_only=True, idempotent=True, destructive=False, open_world=False)
        table: tuple[tuple[str, JsonObject, Annotations, Effect, float], ...] = (
            ("sim.append", TEXT, acts, echo, 2.0),
            ("sim.put", TEXT, puts, echo, 2.0),
            ("sim.slow", TEXT, acts, echo, 60.0),
            ("sim.burst", TEXT, acts, burst, 2.0),
            ("sim.refuse", TEXT, acts, refuse, 2.0),
            ("sim.read", TEXT, reads, echo, 2.0),
            ("sim.list", ITEMS, reads, listing, 2.0),
        )
        return tuple(
            Provided(
                Capability(name, f"{name} of the schedules", "low", TEXT, gives, notes, builtin=True),
                handler(name, effect, longest),
            )
            for name, gives, notes, effect, longest in table
        )


class World:
    """Everything that one seed touches."""

    def __init__(
        self, loop: SimLoop, clock: FakeClock, folder: Path, auditor: Auditor, effects_dice: random.Random, shown: bool
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.folder = folder
        self.root = folder / "interactions" if shown else None
        self.auditor = auditor
        self.effects_dice = effects_dice
        self.machine = FakeProcesses()
        self.processes: list[Process] = []
        self._pids = 100
        self._ends: list[asyncio.Task[None]] = []

    def say(self, text: str) -> None:
        self.auditor.say(text)

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.processes if not process.dead and not process.closed]

    async def start(self) -> Process:
        self._pids += 1
        process = Process(self, self._pids)
        await process.open()
        self.processes.append(process)
        self.say(f"{process.name} starts")
        return process

    def bring_out_the_dead(self) -> None:
        for process in self.processes:
            if process.dead and not process.closed:
                self.end(process)

    def end(self, process: Process) -> None:
        process.closed = True
        self._ends.append(self.loop.create_task(process.close()))

    async def all_ended(self) -> None:
        await asyncio.gather(*self._ends)
        self._ends.clear()
