"""Documented bounds on every input of the decision runtime; checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InteractionLimits:
    """``*_bytes_max`` count UTF-8 bytes, for JSON values of their compact text."""

    command_bytes_max: int = 4_096
    title_bytes_max: int = 16_384
    context_bytes_max: int = 1_048_576
    text_bytes_max: int = 1_048_576
    options_max: int = 100
    option_label_bytes_max: int = 16_384
    option_text_bytes_max: int = 262_144
    answer_bytes_max: int = 1_048_576
    metadata_bytes_max: int = 262_144
    list_items_max: int = 1_000
    document_bytes_max: int = 8_388_608
    page_max: int = 500
    page_default: int = 50
    sessions_page_default: int = 20
    ttl_seconds_max: int = 31_622_400
    index_bytes_max: int = 65_536
    locks_bytes_max: int = 32_768


def utf8_bytes(value: str) -> int:
    """UTF-8 length; a lone surrogate counts as the six bytes it is written with."""
    return len(value.encode("utf-8", "surrogatepass"))
