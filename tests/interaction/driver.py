"""A bare stdio server over the product's tool list and service, for the recorded cases and the benchmark only.

Newline-delimited JSON-RPC by hand: what is compared is the decision runtime, not a transport. Calls are worked off in
order of arrival; ``ping`` is answered at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from chaoscore.adapters.files.interaction import FileInteractionStore, FolderSettings, schemas
from chaoscore.adapters.files.interaction.encoding import pretty
from chaoscore.adapters.files.interaction.fileops import FileOps
from chaoscore.app.interactions.resources import RESOURCES
from chaoscore.app.interactions.service import InteractionService
from chaoscore.app.tools import CallContext, Connection
from chaoscore.domain.errors import ChaosError
from chaoscore.domain.json import Json, JsonObject, is_object
from chaoscore.domain.principal import Principal
from tests.interaction.support import SystemClock, random_hex
from tests.interaction.tools import InteractionToolSet

VERSIONS = ("2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
SWITCHES = ("validate", "no-validate", "seed-schemas", "force", "help")


def parse(argv: list[str]) -> dict[str, str | bool]:
    out: dict[str, str | bool] = {}
    rest = list(argv)
    while rest:
        token = rest.pop(0)
        if token == "-h":
            token = "--help"
        if not token.startswith("--"):
            continue
        key, equals, value = token[2:].partition("=")
        if equals:
            out[key] = value
        elif rest and not rest[0].startswith("--"):
            out[key] = rest.pop(0)
        else:
            out[key] = True
    return out


def folder_settings(flags: dict[str, str | bool]) -> FolderSettings:
    config: JsonObject = {}
    if isinstance(flags.get("config"), str):
        loaded = json.loads(Path(str(flags["config"])).read_text("utf-8"))
        config = loaded if is_object(loaded) else {}

    def pick(flag: str, env: str, key: str) -> str | None:
        value = flags.get(flag) or os.environ.get(env) or config.get(key)
        return value if isinstance(value, str) else None

    repository = Path(pick("repo-root", "CHAOS_REPOSITORY_ROOT", "repositoryRoot") or os.getcwd()).absolute()
    root = Path(pick("root", "CHAOS_INTERACTIONS_ROOT", "root") or repository / ".chaos/interactions").absolute()
    schema_dir = Path(pick("schema-dir", "CHAOS_INTERACTIONS_SCHEMA_DIR", "schemaDir") or root / "schema").absolute()
    validate = config.get("validate") is not False
    env = os.environ.get("CHAOS_INTERACTION_VALIDATE")
    if env is not None:
        validate = env.strip().lower() not in ("0", "false", "no", "off")
    if "no-validate" in flags:
        validate = False
    elif "validate" in flags:
        validate = True
    cache = os.environ.get("TEST_INTERACTION_CACHE")
    return FolderSettings(root, repository, schema_dir, validate, Path(cache) if cache else None)


class Driver:
    def __init__(self, service: InteractionService) -> None:
        self.service = service
        self.tools = InteractionToolSet(service)
        self.context = CallContext(Principal("local", "0"), Connection("test"))

    async def answer(self, message: JsonObject) -> dict[str, Json] | None:
        method, params = message.get("method"), message.get("params")
        given: JsonObject = params if is_object(params) else {}
        if "id" not in message:
            return None
        try:
            result = await self.result(str(method), given)
        except LookupError as error:
            return {"error": {"code": int(str(error.args[0])), "message": str(error.args[1])}}
        return {"result": result}

    async def result(self, method: str, given: JsonObject) -> Json:
        if method == "initialize":
            asked = given.get("protocolVersion")
            version = asked if asked in VERSIONS else VERSIONS[-1]
            capabilities: JsonObject = {"tools": {"listChanged": True}, "resources": {"listChanged": True}}
            info: JsonObject = {"name": "chaos-interaction", "version": "0.2.1"}
            return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [{"name": s.name, "inputSchema": s.input_schema} for s in self.tools.specs]}
        if method == "resources/list":
            found = [r for r in RESOURCES if not r.is_template]
            return {"resources": [{"uri": r.uri, "name": r.name, "mimeType": "application/json"} for r in found]}
        if method == "resources/templates/list":
            found = [r for r in RESOURCES if r.is_template]
            listed: list[Json] = [{"name": r.name, "uriTemplate": r.uri, "mimeType": "application/json"} for r in found]
            return {"resourceTemplates": listed}
        if method == "resources/read":
            return await self.read(given)
        if method == "tools/call":
            return await self.call(given)
        raise LookupError(-32601, "method not found")

    async def read(self, given: JsonObject) -> Json:
        uri = given.get("uri")
        if not isinstance(uri, str):
            raise LookupError(-32603, "uri is missing")
        body = await self.service.read_resource(uri)
        if body is None:
            raise LookupError(-32602, "unknown resource")
        text = pretty(body).decode("utf-8")[:-1]
        return {"contents": [{"uri": uri[:8].lower() + uri[8:], "mimeType": "application/json", "text": text}]}

    async def call(self, given: JsonObject) -> Json:
        name, arguments = given.get("name"), given.get("arguments", {})
        if not isinstance(name, str) or not is_object(arguments):
            raise LookupError(-32603, "name or arguments are wrong")
        envelope = await self.tools.call(name, arguments, self.context)
        body = envelope.to_json()
        text = pretty(body).decode("utf-8")[:-1]
        return {"content": [{"type": "text", "text": text}], "isError": not envelope.ok}


def send(message: JsonObject) -> None:
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


async def serve(driver: Driver) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 28)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    while line := await reader.readline():
        try:
            message = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            continue
        if not is_object(message) or message.get("jsonrpc") != "2.0" or message.get("id", 0) is None:
            continue
        answer = await driver.answer(message)
        if answer is not None:
            send({"id": message["id"], **answer})
    await driver.service.close()


def run(argv: list[str]) -> int:
    flags = parse(argv)
    if "help" in flags:
        print("a test driver", file=sys.stderr)
        return 0
    settings = folder_settings(flags)
    try:
        if "seed-schemas" in flags:
            schemas.seed(settings.schema_dir, FileOps(), force="force" in flags)
            print("seeded", file=sys.stderr)
            return 0
        if settings.root.exists() and not settings.root.is_dir():
            raise ChaosError("the root is not a directory")
    except ChaosError as error:
        print(f"FATAL {error.message}", file=sys.stderr)
        return 1
    store = FileInteractionStore(settings, SystemClock(), random_hex)
    store.start()
    asyncio.run(serve(Driver(InteractionService(store))))
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
