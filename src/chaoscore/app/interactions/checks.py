"""Arguments before anything else happens: not blank, within their bounds, ids that may touch a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaoscore.domain.errors import InvalidInput, NotFound
from chaoscore.domain.interaction.errors import SchemaViolation, TooLarge, Violation
from chaoscore.domain.interaction.limits import InteractionLimits, utf8_bytes
from chaoscore.domain.interaction.marks import require_unmarked
from chaoscore.domain.interaction.names import ID_CHARS_MAX, is_id
from chaoscore.domain.json import JsonObject, canonical_text


def not_blank(key: str, value: str) -> None:
    if not value.strip():
        raise InvalidInput(f"{key}: must not be blank", key=key)


def within(key: str, value: str | None, bytes_max: int) -> None:
    """Raises ``TooLarge``."""
    if value is not None and len(value) * 4 > bytes_max and (size := utf8_bytes(value)) > bytes_max:
        raise TooLarge(f"{key}: {size} bytes are more than the {bytes_max} allowed; shorten it", key=key)


def texts_within(key: str, values: Sequence[str] | None, limits: InteractionLimits) -> None:
    if values is None:
        return
    if len(values) > limits.list_items_max:
        raise TooLarge(f"{key}: {len(values)} items are more than the {limits.list_items_max} allowed", key=key)
    for value in values:
        within(key, value, limits.text_bytes_max)


def metadata_within(metadata: JsonObject | None, limits: InteractionLimits) -> None:
    """Bounded, free of our reserved key, and JSON without NaN."""
    if metadata is None:
        return
    require_unmarked(metadata)
    try:
        size = len(canonical_text(metadata))
    except (ValueError, RecursionError):
        raise InvalidInput("metadata: must be JSON without NaN and not nested this deeply", key="metadata") from None
    if size > limits.metadata_bytes_max:
        raise TooLarge(
            f"metadata: {size} bytes are more than the {limits.metadata_bytes_max} allowed; refer to a file instead",
            key="metadata",
        )


def options_within(options: Sequence[JsonObject] | None, limits: InteractionLimits) -> None:
    if options is None:
        return
    if len(options) > limits.options_max:
        raise TooLarge(f"options: {len(options)} are more than the {limits.options_max} allowed", key="options")
    bounds: Mapping[str, int] = {"label": limits.option_label_bytes_max}
    for position, option in enumerate(options):
        for key, value in option.items():
            if isinstance(value, str):
                within(f"options[{position}].{key}", value, bounds.get(key, limits.option_text_bytes_max))


def run_name(value: str) -> None:
    """A run id the caller chooses. Raises ``SchemaViolation``, as the session's schema would."""
    faults = []
    if not value:
        faults.append(Violation("commandRunId", "must have at least 1 character"))
    if len(value) > ID_CHARS_MAX:
        faults.append(Violation("commandRunId", f"must have at most {ID_CHARS_MAX} characters"))
    elif not is_id(value):
        faults.append(Violation("commandRunId", "must be letters, digits and . _ : - beginning with a letter or digit"))
    if faults:
        raise SchemaViolation(f"session {value[:80]!r}", faults)


def known_name(key: str, value: str) -> None:
    """An id to look up: what cannot be an id is not there, and never touches a path."""
    not_blank(key, value)
    if not is_id(value):
        raise NotFound(f"{key}: {value[:80]!r} is not a well-formed id, so there is nothing by that name", key=key)
