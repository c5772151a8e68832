"""Bounds of ``json.query``. Plain values; bootstrap makes one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """``steps_max`` bounds the work of one query: a step is about one visited value or sixteen characters."""

    query_chars_max: int = 4_000
    data_bytes_max: int = 4_194_304
    result_bytes_max: int = 1_048_576
    steps_max: int = 1_000_000
