"""A small server for the tests: tools that echo, wait, fail, print and stop, and one resource that changes.

``python -m tests.mcp.fixture_server stdio`` or ``… http PORT``: built with the product's own factory and transports.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from chaoscore.adapters.mcp.definition import ServerDefinition
from chaoscore.app.envelope import Envelope, envelope_schema
from chaoscore.app.resources import Resource, ResourceChange, ResourceContent, ResourceTemplate, Watcher
from chaoscore.app.tools import CallContext, Connection, ToolHandler, ToolSet, ToolSpec
from chaoscore.domain.capability import Annotations
from chaoscore.domain.errors import NotFound, NotPerformed
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.principal import Principal

READ = Annotations(read_only=True, idempotent=True, destructive=False, open_world=False)


def _spec(name: str, handler: ToolHandler, properties: JsonObject, required: Sequence[str] = ()) -> ToolSpec:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(
        name, name.title(), f"{name} for the tests", schema, envelope_schema({"type": "object"}), READ, handler
    )


class Counter:
    """A resource provider: one number that a tool can raise, and a template that spells numbers."""

    URI = "fixture://counter"

    def __init__(self) -> None:
        self.value = 0
        self._watchers: dict[int, Watcher] = {}
        self._keys = count()

    async def resources(self, context: CallContext) -> Sequence[Resource]:
        return [Resource(self.URI, "counter", "a number", "application/json", "Counter")]

    async def templates(self, context: CallContext) -> Sequence[ResourceTemplate]:
        return [ResourceTemplate("fixture://numbers/{n}", "number", "a number in words", "text/plain")]

    async def read(self, uri: str, context: CallContext) -> ResourceContent:
        if uri == self.URI:
            return ResourceContent("application/json", f'{{"value": {self.value}}}')
        if uri == "fixture://bytes":
            return ResourceContent("application/octet-stream", b"\x00\xff")
        if uri == "fixture://broken":
            raise RuntimeError("password=hunter2")
        raise NotFound(f"there is no resource {uri!r}", uri=uri)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        key = next(self._keys)
        self._watchers[key] = watcher
        return lambda: self._watchers.pop(key, None) and None

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def raise_by_one(self) -> None:
        self.value += 1
        for watcher in list(self._watchers.values()):
            watcher(ResourceChange(self.URI))

    def change_list(self) -> None:
        for watcher in list(self._watchers.values()):
            watcher(ResourceChange())


class Fixture:
    """The tools' shared state: what is under way, what was cancelled."""

    def __init__(self) -> None:
        self.counter = Counter()
        self.running: list[str] = []
        self.cancelled: list[str] = []
        self.counted: list[int] = []
        self._released: dict[str, asyncio.Event] = {}

    def definition(self) -> ServerDefinition:
        text: JsonObject = {"text": {"type": "string", "maxLength": 5_000_000}}
        key: JsonObject = {"key": {"type": "string"}}
        specs = [
            _spec("echo", self.echo, text, ["text"]),
            _spec("whoami", self.whoami, {}),
            _spec("count_up", self.count_up, {"steps": {"type": "integer", "minimum": 0}}, ["steps"]),
            _spec("hold", self.hold, key, ["key"]),
            _spec("release", self.release, key, ["key"]),
            _spec("state", self.state, {}),
            _spec("fail", self.fail, {}),
            _spec("crash", self.crash, {}),
            _spec("must_stop", self.must_stop, {}),
            _spec("shout", self.shout, {}),
            _spec("odd", self.odd, {"what": {"type": "string"}}, ["what"]),
            _spec("bump", self.bump, {"list": {"type": "boolean"}}),
            _spec("nap", self.nap, {"seconds": {"type": "number", "maximum": 5}}, ["seconds"]),
            _spec("remember", self.remember, key, ["key"]),
        ]
        return ServerDefinition("fixture", "Fixture", "1.2.3", "Use it in tests.", ToolSet(specs), self.counter)

    async def echo(self, arguments: JsonObject, _: CallContext) -> Envelope:
        return Envelope("DONE", "said it", {"text": arguments["text"]})

    async def whoami(self, _: JsonObject, context: CallContext) -> Envelope:
        return Envelope(
            "DONE",
            "who you are",
            {
                "principal": context.principal.key,
                "connection": context.connection.id,
                "stateful": context.connection.stateful,
                "bound": context.binding is not None,
                "remembered": [item["key"] for item in context.connection.working],
            },
        )

    async def remember(self, arguments: JsonObject, context: CallContext) -> Envelope:
        context.connection.working.append(arguments)
        return Envelope("DONE", "kept")

    async def count_up(self, arguments: JsonObject, context: CallContext) -> Envelope:
        steps = arguments["steps"]
        assert isinstance(steps, int)
        self.running.append(f"counting to {steps}")
        for step in range(1, steps + 1):
            await context.progress({"progress": step, "total": steps, "message": f"step {step}"})
            if step % 16 == 0:
                await asyncio.sleep(0)  # as any tool that does something would
        self.running.remove(f"counting to {steps}")
        self.counted.append(steps)
        return Envelope("DONE", f"counted to {steps}")

    async def hold(self, arguments: JsonObject, context: CallContext) -> Envelope:
        key = str(arguments["key"])
        self.running.append(key)
        event = self._released.setdefault(key, asyncio.Event())
        try:
            await context.progress({"progress": 1, "total": None, "message": "holding"})
            await event.wait()
        except asyncio.CancelledError:
            self.cancelled.append(key)
            raise
        finally:
            self.running.remove(key)
        return Envelope("DONE", "released", {"key": key})

    async def nap(self, arguments: JsonObject, _: CallContext) -> Envelope:
        seconds = arguments["seconds"]
        assert isinstance(seconds, int | float)
        self.running.append("nap")
        await asyncio.sleep(seconds)
        self.running.remove("nap")
        return Envelope("DONE", "slept well")

    async def release(self, arguments: JsonObject, _: CallContext) -> Envelope:
        self._released.setdefault(str(arguments["key"]), asyncio.Event()).set()
        return Envelope("DONE", "let go")

    async def state(self, _: JsonObject, __: CallContext) -> Envelope:
        return Envelope(
            "DONE",
            "state",
            {
                "running": self.running,
                "cancelled": self.cancelled,
                "counted": self.counted,
                "watchers": self.counter.watchers,
            },
        )

    async def fail(self, _: JsonObject, __: CallContext) -> Envelope:
        raise NotPerformed("the thing cannot be done; try another", reason="because")

    async def crash(self, _: JsonObject, __: CallContext) -> Envelope:
        raise RuntimeError("password=hunter2")

    async def must_stop(self, _: JsonObject, __: CallContext) -> Envelope:
        return Envelope(
            "WAITING_FOR_DECISION", "a person must answer", must_stop=True, next_action="ask them", warnings=("slowly",)
        )

    async def shout(self, _: JsonObject, __: CallContext) -> Envelope:
        print("a stray print", flush=True)
        os.write(1, b"a stray write\n")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('a stray child'); input()")
        return Envelope("DONE", "shouted", {"child": await process.wait()})

    async def odd(self, arguments: JsonObject, _: CallContext) -> Envelope:
        deep: dict[str, Json] = {}
        at = deep
        for _level in range(400):
            below: dict[str, Json] = {}
            at["d"] = below
            at = below
        values: dict[str, Json] = {
            "surrogate": "a\ud800b",
            "nan": float("nan"),
            "deep": deep,
            "null": None,
            "big": 2**70,
            "long": "x" * 100_000,
            "unicode": "审批 ✓",
        }
        return Envelope("DONE", "odd", {"value": values[str(arguments["what"])]})

    async def bump(self, arguments: JsonObject, _: CallContext) -> Envelope:
        if arguments.get("list"):
            self.counter.change_list()
        else:
            self.counter.raise_by_one()
        return Envelope("DONE", "bumped", {"value": self.counter.value})


def main() -> None:
    """``stdio [LIMITS]`` or ``http PORT [LIMITS]``; limits are JSON, ``"auth": true`` among them asks for a token."""
    definition = Fixture().definition()
    if sys.argv[1] == "stdio":
        from chaoscore.adapters.mcp.stdio import serve_stdio
        from chaoscore.adapters.mcp.stdio_carriers import StdioLimits

        options = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
        definition = replace(definition, lone_surrogates=options.pop("lone_surrogates", False))
        limits = StdioLimits(**options)
        principal = Principal("local", str(os.getuid()))
        asyncio.run(serve_stdio(definition, principal=principal, connection=Connection("conn-fixture"), limits=limits))
        return
    serve(definition, int(sys.argv[2]), json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})


def serve(definition: ServerDefinition, port: int, options: dict[str, float]) -> None:
    from chaoscore.adapters.mcp.http import http_app
    from chaoscore.adapters.mcp.http_endpoint import HttpLimits
    from chaoscore.adapters.mcp.http_guard import AllowedHosts
    from chaoscore.adapters.mcp.http_server import event_loop_factory, serve_http
    from chaoscore.adapters.system.clock import SystemClock
    from chaoscore.adapters.system.ids import RandomIds
    from tests.mcp.fixture_auth import bearer_tokens, hello

    async def health() -> JsonObject:
        return {"ok": True, "status": "up"}

    authenticated = bool(options.pop("auth", False))
    host = "0.0.0.0" if options.pop("everywhere", False) else "127.0.0.1"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    limits = HttpLimits(**options)  # type: ignore[arg-type]
    app = http_app(
        {"/mcp": definition, "/second/mcp": Fixture().definition()},
        health=health,
        allowed=AllowedHosts.for_bind(host, ("tools.example:8443",), ("https://app.example",)),
        clock=SystemClock(),
        ids=RandomIds(),
        limits=limits,
        authentication=bearer_tokens() if authenticated else None,
        mounts={"/hello": hello},
    )

    def listening(host: str, port: int) -> None:
        print(f"ready {port}", file=sys.stderr, flush=True)

    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(serve_http(app, host, port, limits=limits, on_listening=listening))


if __name__ == "__main__":
    main()
