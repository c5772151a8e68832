"""The bounds of texts and lists, in the unit they are documented in: UTF-8 bytes and items.

Looked at before anything else, so that what is too large is refused as TOO_LARGE and nothing reads it twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from chaoscore.domain.interaction.errors import TooLarge
from chaoscore.domain.interaction.limits import utf8_bytes
from chaoscore.domain.json import Json, is_array, is_object


def require_within(value: Json, schema: Json) -> None:
    """Raises ``TooLarge`` naming the key. A value of another shape than the schema's is somebody else's business."""
    fault = next(_faults(value, schema, ""), None)
    if fault is not None:
        raise TooLarge(f"{fault[0]}: {fault[1]}", key=fault[0])


def _faults(value: Json, schema: Json, at: str) -> Iterator[tuple[str, str]]:
    if not is_object(schema):
        return
    forms = schema.get("anyOf")
    if is_array(forms):
        for form in forms:
            if is_object(form) and form.get("type") == ("string" if isinstance(value, str) else "array"):
                yield from _faults(value, form, at)
        return
    if isinstance(value, str):
        most = schema.get("maxLength")
        if isinstance(most, int) and len(value) * 4 > most and (size := utf8_bytes(value)) > most:
            yield at, f"{size} bytes are more than the {most} allowed; shorten it"
    elif is_array(value):
        most = schema.get("maxItems")
        if isinstance(most, int) and len(value) > most:
            yield at, f"{len(value)} items are more than the {most} allowed"
        else:
            for position, item in enumerate(value):
                yield from _faults(item, schema.get("items"), f"{at}[{position}]")
    elif is_object(value):
        known = schema.get("properties")
        for key, part in known.items() if is_object(known) else ():
            if key in value:
                yield from _faults(value[key], part, f"{at}.{key}" if at else key)
