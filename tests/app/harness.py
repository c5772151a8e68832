"""A kernel in a temporary directory, with capabilities whose effects can be counted from outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from chaoscore.app.ports import AIProvider, Clock, HandlerContext, Provided
from chaoscore.app.tools import CallContext, Connection
from chaoscore.bootstrap import Kernel, open_kernel
from chaoscore.domain.capability import Annotations, Capability
from chaoscore.domain.errors import NotPerformed
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.limits import Limits
from chaoscore.domain.principal import Principal
from chaoscore.settings import Settings

T = TypeVar("T")
NOTHING: JsonObject = {"type": "object", "additionalProperties": False, "properties": {}}
TEXT: JsonObject = {"type": "object", "additionalProperties": False, "properties": {"text": {"type": "string"}}}
LOCAL = Principal("local", "1000")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@dataclass
class World:
    """What the test capabilities touch: a journal of effects on disk, and switches."""

    directory: Path
    holds: dict[str, asyncio.Event] = field(default_factory=dict)

    @property
    def journal(self) -> Path:
        return self.directory / "journal.txt"

    def effects(self) -> list[str]:
        return self.journal.read_text("utf-8").splitlines() if self.journal.exists() else []

    def append(self, line: str) -> None:
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()

    def provided(self) -> tuple[Provided, ...]:
        async def append(arguments: JsonObject, context: HandlerContext) -> Json:
            text = str(arguments["text"])
            self.append(text)
            return {"text": text}

        async def hold(arguments: JsonObject, context: HandlerContext) -> Json:
            text = str(arguments["text"])
            self.append(f"begin {text}")
            await self.holds.setdefault(text, asyncio.Event()).wait()
            self.append(f"end {text}")
            return {"text": text}

        async def give(arguments: JsonObject, context: HandlerContext) -> Json:
            return {"value": arguments.get("value")}

        async def refuse(arguments: JsonObject, context: HandlerContext) -> Json:
            raise NotPerformed("it did not happen")

        async def explode(arguments: JsonObject, context: HandlerContext) -> Json:
            self.append("exploding")
            raise RuntimeError("secret inner detail")

        reads = Annotations(read_only=True, idempotent=True, destructive=False, open_world=False)
        acts = Annotations()
        any_value: JsonObject = {"type": "object", "properties": {"value": {}}}
        return (
            Provided(_capability("test.append", TEXT, TEXT, acts), append),
            Provided(_capability("test.hold", TEXT, TEXT, acts), hold),
            Provided(_capability("test.hold_read", TEXT, TEXT, reads), hold),
            Provided(_capability("test.give", any_value, any_value, reads), give),
            Provided(_capability("test.refuse", NOTHING, NOTHING, acts), refuse),
            Provided(_capability("test.explode", NOTHING, NOTHING, acts), explode),
        )


def _capability(name: str, takes: JsonObject, gives: JsonObject, annotations: Annotations) -> Capability:
    return Capability(name, f"{name} for tests", "low", takes, gives, annotations, builtin=True)


def write_policy(directory: Path, **policy: Json) -> Path:
    path = directory / "policy.json"
    full: dict[str, Json] = {
        "allowedCapabilities": [],
        "deniedCapabilities": [],
        "requireConfirmationFor": [],
        "httpAllowedDomains": [],
        **policy,
    }
    path.write_text(json.dumps(full), "utf-8")
    return path


@dataclass
class Bench:
    """A kernel and what a caller needs to use it."""

    kernel: Kernel
    world: World
    principal: Principal = LOCAL
    connection: Connection = field(default_factory=lambda: Connection("c-test"))
    told: list[JsonObject] = field(default_factory=list)

    def context(self) -> CallContext:
        async def progress(message: JsonObject) -> None:
            self.told.append(message)

        return CallContext(self.principal, self.connection, progress)

    async def call(self, tool: str, **arguments: Json) -> dict[str, Any]:
        envelope = await self.kernel.tools.call(tool, arguments, self.context())
        return cast("dict[str, Any]", envelope.to_json())

    async def plan(self, *steps: JsonObject) -> str:
        answer = await self.call("chaoscore_plan", steps=list(steps))
        assert answer["ok"], answer
        return str(answer["data"]["plan_id"])

    async def execute(self, plan: str, **more: Json) -> dict[str, Any]:
        return await self.call("chaoscore_execute", plan_id=plan, **more)


def step(step_id: str, capability: str, arguments: JsonObject | None = None, **more: Json) -> JsonObject:
    return {"id": step_id, "capability": capability, "arguments": arguments or {}, **more}


def settings_for(directory: Path, limits: Limits | None = None, root: Path | None = None) -> Settings:
    data = directory / "data"
    return Settings(data, directory / "policy.json", limits=limits or Limits(), interactions_root=root)


@asynccontextmanager
async def bench(
    directory: Path,
    *,
    limits: Limits | None = None,
    provider: AIProvider | None = None,
    clock: Clock | None = None,
    root: Path | None = None,
    **policy: Json,
) -> AsyncIterator[Bench]:
    """A kernel whose policy is written anew, unless there is one already and nothing is said about it. ``root`` is the
    interactions folder of new runs."""
    if policy or not (directory / "policy.json").exists():
        write_policy(directory, **policy)
    world = World(directory)
    async with open_kernel(
        settings_for(directory, limits, root), extra=world.provided(), provider=provider, clock=clock
    ) as kernel:
        yield Bench(kernel, world)


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]], seconds: float = 10.0) -> None:
    """Let other tasks run until something is the case; fails loudly when it never is."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        answer = condition()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert loop.time() < deadline, "it never came to be"
        await asyncio.sleep(0.005)
