"""Tools and envelopes in the shapes MCP wants, and text a model can act on.

Pure mapping: no I/O, no SDK server. Whatever an application hands over comes out as valid JSON: what JSON cannot carry
(lone surrogates, NaN, nesting without end) is replaced and named in a warning, because a result that cannot be written
would leave the caller without any answer to an effect that has happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pydantic_core

from chaoscore.app.envelope import Envelope
from chaoscore.app.resources import Resource, ResourceContent, ResourceTemplate
from chaoscore.app.tools import ToolSpec
from chaoscore.domain.json import Json, JsonObject

TEXT_CHARS_MAX = 24_000
"""Characters of one text content. The structured content is never cut."""

DEPTH_MAX = 150
"""Levels of nesting in a result. The serializer refuses 255, and common parsers 200."""

Wire = dict[str, Any]

COMPLETE: Wire = {"resultType": "complete"}
"""What 2026-07-28 wants in every result; the SDK leaves it out where an older revision does not know it."""


def tool_definition(spec: ToolSpec) -> Wire:
    """One entry of ``tools/list``."""
    hints = spec.annotations
    return {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "inputSchema": plain(spec.input_schema),
        "outputSchema": plain(spec.output_schema),
        "annotations": {
            "title": spec.title,
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    }


def tool_result(envelope: Envelope, result_text: Callable[[JsonObject], str] | None = None) -> Wire:
    """The result of ``tools/call``: the envelope as structured content, and as text.

    ``result_text`` sees the envelope as it is, before anything was replaced.
    """
    structured, data_text = _encodable(envelope)
    text = text_of(structured, data_text) if result_text is None else result_text(envelope.to_json())
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": structured,
        "isError": not structured["ok"],
        **COMPLETE,
    }


def text_of(envelope: Wire, data_text: str) -> str:
    """What a model that never sees structured content is told: outcome, what to do, then the data compactly."""
    lines = [f"{envelope['status']}: {envelope['message']}"]
    if envelope["mustStop"]:
        lines.append("STOP: do not go on until this is resolved by someone else.")
    if "nextAction" in envelope:
        lines.append(f"next: {envelope['nextAction']}")
    lines.extend(f"warning: {warning}" for warning in envelope["warnings"])
    details = envelope.get("error", {}).get("details")
    if details:
        lines.append(f"details: {pydantic_core.to_json(details).decode()}")
    if data_text != "{}":
        lines.append(f"data: {data_text}")
    text = "\n".join(lines)
    if len(text) <= TEXT_CHARS_MAX:
        return text
    note = f"… (cut: {len(text)} characters in all; the whole is in structuredContent, or ask for less)"
    return text[: TEXT_CHARS_MAX - len(note)] + note


def resource_entry(resource: Resource) -> Wire:
    return _named(resource, {"uri": resource.uri})


def template_entry(template: ResourceTemplate) -> Wire:
    return _named(template, {"uriTemplate": template.uri_template})


def resource_contents(uri: str, content: ResourceContent) -> Wire:
    """The result of ``resources/read``."""
    entry: Wire = {"uri": content.uri or uri, "mimeType": content.mime_type}
    if isinstance(content.content, str):
        entry["text"] = _text(content.content)
    else:
        import base64

        entry["blob"] = base64.b64encode(content.content).decode("ascii")
    return {"contents": [entry], **COMPLETE}


def _named(item: Resource | ResourceTemplate, out: Wire) -> Wire:
    out |= {"name": item.name, "description": item.description, "mimeType": item.mime_type}
    if item.title is not None:
        out["title"] = item.title
    return out


def _encodable(envelope: Envelope) -> tuple[Wire, str]:
    """The envelope as plain JSON, and its data as JSON text."""
    structured: Wire = envelope.to_json()
    data_text = _json_text(structured["data"])
    rest = {key: value for key, value in structured.items() if key != "data"}
    if data_text is not None and _json_text(rest) is not None:
        return structured, data_text
    changes: set[str] = set()
    mended: Wire = _mend(structured, DEPTH_MAX, changes)
    mended["warnings"] = [*mended["warnings"], *(f"the result could not be sent as it was: {why}" for why in changes)]
    return mended, pydantic_core.to_json(mended["data"]).decode()


def _json_text(value: object) -> str | None:
    """``None`` when ``value`` is not plain JSON of bounded depth."""
    try:
        text = pydantic_core.to_json(value)
    except (pydantic_core.PydanticSerializationError, RecursionError):
        return None
    if b"NaN" in text or b"Infinity" in text:  # or a text that says so: mending then changes nothing
        return None
    if text.count(b"{") + text.count(b"[") > DEPTH_MAX and not _shallow(value):
        return None
    return text.decode()


def _shallow(value: object) -> bool:
    """Whether ``value`` nests at most ``DEPTH_MAX`` levels."""
    level: list[object] = [value]
    for _ in range(DEPTH_MAX):
        below: list[object] = []
        for item in level:
            children = item.values() if isinstance(item, dict) else item
            assert isinstance(children, Iterable)
            below.extend(child for child in children if isinstance(child, dict | list | tuple))
        if not below:
            return True
        level = below
    return False


def plain(value: JsonObject) -> Wire:
    """A copy in dicts and lists."""
    out: Wire = _mend(value, DEPTH_MAX, set())
    return out


def _mend(value: Json, depth: int, changes: set[str]) -> Any:
    if isinstance(value, str):
        fixed = _text(value)
        if fixed is not value:
            changes.add("text with lone surrogates was replaced by '\N{REPLACEMENT CHARACTER}'")
        return fixed
    if isinstance(value, float) and not math.isfinite(value):
        changes.add("numbers that are not finite became null")
        return None
    if not isinstance(value, Mapping | Sequence):
        return value
    if depth == 0:
        changes.add(f"levels below {DEPTH_MAX} were left out")
        return "(nested too deep)"
    if isinstance(value, Mapping):
        return {_text(str(key)): _mend(item, depth - 1, changes) for key, item in value.items()}
    return [_mend(item, depth - 1, changes) for item in value]


def _text(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
