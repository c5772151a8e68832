"""Bounds of ``fs.*``. Plain values; bootstrap makes one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FsOptions:
    """``entries_max`` bounds a listing, ``visited_max`` what is looked at to make it; ``depth_max`` counts folders
    below the one that is listed."""

    read_bytes_max: int = 1_048_576
    write_bytes_max: int = 1_048_576
    entries_max: int = 1_000
    visited_max: int = 100_000
    depth_max: int = 32
