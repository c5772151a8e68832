"""A server whose tools ask the user in place, for the tests: registered as any tool is, on the shipped factory.

``python -m tests.mcp.elicitation_server stdio|http …``; options are JSON: ``data`` is the folder of the keys and of the
journal, in which every tool writes what it does.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

from chaoscore.adapters.mcp.definition import ServerDefinition
from chaoscore.adapters.mcp.request_state import StateSeal
from chaoscore.adapters.mcp.state_keys import FILE_NAME, StateKeys
from chaoscore.app.elicitation import (
    ASK_SECONDS,
    Form,
    FormAnswer,
    FormOption,
    FreeText,
    MultiChoice,
    SingleChoice,
    YesNo,
)
from chaoscore.app.envelope import Envelope
from chaoscore.app.tools import CallContext, Connection, ToolSet
from chaoscore.domain.json import Json, JsonObject
from chaoscore.domain.principal import Principal
from chaoscore.domain.redaction import Redactor
from tests.mcp.fixture_server import Fixture, _spec, serve

SECRET = "correct-horse-battery"
APPROVE = Form(
    f"Deploy to production with {SECRET}?",
    (
        SingleChoice(
            name="where",
            title="Where to",
            options=(FormOption("blue", "The blue cluster"), FormOption("green", "The green cluster")),
        ),
        MultiChoice(name="what", options=(FormOption("web"), FormOption("jobs"), FormOption("db")), at_least=1),
        YesNo(name="sure", description="There is no way back"),
        FreeText(name="why", chars_max=40, required=False),
    ),
)
PLAIN = Form("Go on?", (YesNo(name="sure"),))
OLD = Form("Which?", (SingleChoice(name="where", options=APPROVE.fields[0].options),))  # type: ignore[union-attr]


class MovedClock:
    """The real time, moved by whoever calls ``advance``."""

    def __init__(self) -> None:
        self.moved = 0.0

    def now(self) -> float:
        import time

        return time.time() + self.moved

    def monotonic(self) -> float:
        return self.now()


class Asker:
    """Tools that ask. What must happen once is written to the journal only after the answer is there."""

    def __init__(self, data: Path) -> None:
        self._journal = data / "journal"
        self.clock = MovedClock()
        self._changes = 0

    def write(self, line: str) -> None:
        with self._journal.open("a") as out:
            out.write(line + "\n")

    def definition(self, keys: Path) -> ServerDefinition:
        base = Fixture().definition()
        seconds: JsonObject = {"seconds": {"type": "number"}, "expires_in": {"type": "number"}, "note": {}}
        specs = [
            _spec("deploy", self.deploy, seconds),
            _spec("plain", self.plain, seconds),
            _spec("old", self.old, {}),
            _spec("together", self.together, {}),
            _spec("one_by_one", self.one_by_one, {}),
            _spec("changing", self.changing, {}),
            _spec("stubborn", self.stubborn, {}),
            _spec("many", self.many, {"count": {"type": "integer"}}, ["count"]),
            _spec("advance", self.advance, seconds),
        ]
        tools = ToolSet([*base.tools.specs, *specs], Redactor([SECRET]))
        return replace(base, tools=tools, seal=StateSeal(StateKeys(keys), self.clock))

    async def _ask(self, key: str, form: Form, arguments: JsonObject, context: CallContext) -> FormAnswer | None:
        if context.elicitor is None:
            self.write("cannot ask")
            return None
        seconds, expires_in = arguments.get("seconds", ASK_SECONDS), arguments.get("expires_in")
        assert isinstance(seconds, int | float)
        expires_at = self.clock.now() + expires_in if isinstance(expires_in, int | float) else None
        self.write(f"asks {key} again" if context.elicitor.again else f"asks {key}")
        try:
            answer = await context.elicitor.ask(key, form, seconds, expires_at=expires_at)
        except asyncio.CancelledError:
            self.write("cancelled")
            raise
        self.write(f"answered {answer.action}" if answer is not None else "no answer")
        return answer

    async def deploy(self, arguments: JsonObject, context: CallContext) -> Envelope:
        self.write("begins")
        answer = await self._ask("approve", APPROVE, arguments, context)
        if answer is not None and answer.action == "accept":
            self.write("effect")
        return told(answer)

    async def plain(self, arguments: JsonObject, context: CallContext) -> Envelope:
        self.write("begins")
        return told(await self._ask("go", PLAIN, arguments, context))

    async def old(self, arguments: JsonObject, context: CallContext) -> Envelope:
        return told(await self._ask("old", OLD, arguments, context))

    async def together(self, arguments: JsonObject, context: CallContext) -> Envelope:
        self.write("begins")
        forms = {key: Form(f"{key}?", PLAIN.fields) for key in ("first", "second")}
        found = await asyncio.gather(*(self._ask(key, form, arguments, context) for key, form in forms.items()))
        return Envelope("DONE", "asked both", {key: shown(item) for key, item in zip(forms, found, strict=True)})

    async def one_by_one(self, arguments: JsonObject, context: CallContext) -> Envelope:
        self.write("begins")
        found: dict[str, Json] = {}
        for key in ("first", "second", "first"):
            found[key] = shown(await self._ask(key, Form(f"{key}?", PLAIN.fields), arguments, context))
        return Envelope("DONE", "asked one by one", found)

    async def many(self, arguments: JsonObject, context: CallContext) -> Envelope:
        count = arguments["count"]
        assert isinstance(count, int)
        asks = (self._ask(str(number), PLAIN, {}, context) for number in range(count))
        return Envelope("DONE", "asked many", {"answers": [shown(item) for item in await asyncio.gather(*asks)]})

    async def changing(self, arguments: JsonObject, context: CallContext) -> Envelope:
        """Another question each time, until the third."""
        self._changes = min(self._changes + 1, 3)
        return told(await self._ask("go", Form(f"Go on? ({self._changes})", PLAIN.fields), arguments, context))

    async def stubborn(self, arguments: JsonObject, context: CallContext) -> Envelope:
        """Does not let the end of its call pass, as no tool should."""
        try:
            return told(await self._ask("go", PLAIN, arguments, context))
        except asyncio.CancelledError:
            return Envelope("DONE", "did it anyway")

    async def advance(self, arguments: JsonObject, _: CallContext) -> Envelope:
        seconds = arguments["seconds"]
        assert isinstance(seconds, int | float)
        self.clock.moved += seconds
        return Envelope("DONE", "later")


def shown(answer: FormAnswer | None) -> JsonObject | None:
    return None if answer is None else {"action": answer.action, "content": answer.content}


def told(answer: FormAnswer | None) -> Envelope:
    if answer is None:
        return Envelope("WAITING_FOR_DECISION", "nobody answered in place", {"answer": None}, must_stop=True)
    return Envelope("DONE", "answered", {"answer": shown(answer)})


def main() -> None:
    options = json.loads(sys.argv[-1])
    data = Path(options.pop("data"))
    definition = Asker(data).definition(Path(options.pop("keys", data / FILE_NAME)))
    if options.pop("without_seal", False):
        definition = replace(definition, seal=None)
    definition = replace(definition, name=options.pop("name", definition.name))
    if sys.argv[1] == "http":
        serve(definition, int(sys.argv[2]), options)
        return
    from chaoscore.adapters.mcp.stdio import serve_stdio
    from chaoscore.adapters.mcp.stdio_carriers import StdioLimits

    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    principal = Principal("local", str(os.getuid()))
    limits = StdioLimits(**options)
    asyncio.run(serve_stdio(definition, principal=principal, connection=Connection("conn-fixture"), limits=limits))


if __name__ == "__main__":
    main()
