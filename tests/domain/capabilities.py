"""Capabilities as facts, shaped like the built-in ones, for tests of everything that reads a registry."""

from __future__ import annotations

from collections.abc import Sequence

from chaoscore.domain.capability import Annotations, Capability, Sink
from chaoscore.domain.json import Json, JsonObject

READ = Annotations(read_only=True, idempotent=True, destructive=False, open_world=False)
TEXT: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "number"}
INTEGER: JsonObject = {"type": "integer"}


def closed(properties: JsonObject, required: Sequence[str] = ()) -> dict[str, Json]:
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": properties}


def array(items: JsonObject) -> dict[str, Json]:
    return {"type": "array", "items": items}


HTTP = Capability(
    "http.request",
    "fetches a URL",
    "medium",
    closed({"url": {"type": "string", "maxLength": 100}, "timeout_seconds": NUMBER}, ["url"]),
    closed({"status": INTEGER, "body": TEXT, "headers": {"type": "object", "additionalProperties": TEXT}}),
    READ,
    sinks=(Sink("/url", "url"),),
    builtin=True,
)
LIST = Capability(
    "fs.list",
    "lists a folder",
    "low",
    closed({"path": TEXT, "recursive": {"type": "boolean"}}, ["path"]),
    closed({"entries": array(closed({"path": TEXT, "kind": {"enum": ["file", "folder"]}, "bytes": INTEGER}))}),
    READ,
    sinks=(Sink("/path", "path"),),
    builtin=True,
)
READ_TEXT = Capability(
    "fs.read_text",
    "reads a file",
    "low",
    closed({"path": TEXT}, ["path"]),
    closed({"path": TEXT, "text": TEXT, "lines": array(TEXT)}),
    READ,
    sinks=(Sink("/path", "path"),),
    builtin=True,
)
WRITE_TEXT = Capability(
    "fs.write_text",
    "writes a file",
    "high",
    closed({"path": TEXT, "text": TEXT, "overwrite": {"type": "boolean"}}, ["path", "text"]),
    closed({"path": TEXT, "bytes": INTEGER}),
    untrusted_output=False,
    sinks=(Sink("/path", "path"),),
    builtin=True,
)
QUERY = Capability(
    "json.query",
    "asks for a part of data",
    "low",
    closed({"data": {}, "query": TEXT}, ["data", "query"]),
    closed({"result": {}}),
    READ,
    untrusted_output=False,
    builtin=True,
)
CLOCK = Capability(
    "clock.now",
    "tells the time",
    "low",
    closed({}),
    closed({"seconds": NUMBER, "day": INTEGER}),
    READ,
    untrusted_output=False,
    builtin=True,
)
MAIL = Capability(
    "mail.send",
    "sends a message",
    "high",
    closed(
        {
            "to": array(closed({"address": TEXT, "name": TEXT}, ["address"])),
            "text": TEXT,
            "retries": INTEGER,
            "priority": {"enum": ["low", "high"]},
            "at": {"anyOf": [TEXT, INTEGER]},
            "headers": {"type": "object", "additionalProperties": TEXT},
        },
        ["to"],
    ),
    closed({"id": TEXT}),
    untrusted_output=False,
    sinks=(Sink("/to", "recipient"),),
)
OPEN = Capability("open.any", "takes and gives anything", "high", {"type": "object"}, {})

CAPABILITIES: dict[str, Capability] = {
    capability.name: capability for capability in (HTTP, LIST, READ_TEXT, WRITE_TEXT, QUERY, CLOCK, MAIL, OPEN)
}


def step(step_id: str, capability: str, arguments: JsonObject | None = None, **more: Json) -> dict[str, Json]:
    return {"id": step_id, "capability": capability, "arguments": arguments or {}, **more}


def taken(step_id: str, path: str = "") -> dict[str, Json]:
    return {"$from": step_id, "path": path}
