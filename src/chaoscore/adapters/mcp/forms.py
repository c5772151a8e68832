"""Forms in the restricted JSON schema that MCP lets a server ask with. Pure mapping.

2025-06-18 knows no choice of several and names its options in ``enumNames``; later revisions have both properly.
"""

from __future__ import annotations

from typing import Any

from chaoscore.app.elicitation import Field, Form, FormOption, FreeText, MultiChoice, SingleChoice, YesNo

Wire = dict[str, Any]

FIRST_REVISION = "2025-06-18"
"""The first that lets a server ask."""

TITLED_OPTIONS_REVISION = "2025-11-25"


def requested_schema(form: Form, protocol_version: str) -> Wire | None:
    """The ``requestedSchema`` of a form, ``None`` when this revision cannot ask it."""
    titled = protocol_version >= TITLED_OPTIONS_REVISION
    if protocol_version < FIRST_REVISION or (not titled and any(isinstance(item, MultiChoice) for item in form.fields)):
        return None
    schema: Wire = {
        "type": "object",
        "properties": {item.name: _property(item, titled) for item in form.fields},
    }
    required = [item.name for item in form.fields if _required(item)]
    if required:
        schema["required"] = required
    return schema


def _required(item: Field) -> bool:
    return item.at_least > 0 if isinstance(item, MultiChoice) else item.required


def _property(item: Field, titled: bool) -> Wire:
    out: Wire
    match item:
        case YesNo():
            out = {"type": "boolean"}
        case FreeText():
            out = {"type": "string", "maxLength": item.chars_max}
        case SingleChoice():
            out = {"type": "string", **_options(item.options, "oneOf" if titled else "enumNames")}
        case MultiChoice():
            options = _options(item.options, "anyOf")
            out = {"type": "array", "items": options if "anyOf" in options else {"type": "string", **options}}
            if item.at_least:
                out["minItems"] = item.at_least
            if item.at_most is not None:
                out["maxItems"] = item.at_most
    if item.title:
        out["title"] = item.title
    if item.description:
        out["description"] = item.description
    return out


def _options(options: tuple[FormOption, ...], titles_in: str) -> Wire:
    values = [option.value for option in options]
    titles = [option.label or option.value for option in options]
    if titles == values:
        return {"enum": values}
    if titles_in == "enumNames":
        return {"enum": values, "enumNames": titles}
    return {titles_in: [{"const": value, "title": title} for value, title in zip(values, titles, strict=True)]}
