"""The ports' stores in one SQLite file that many processes share. ``open_stores`` is the way in."""

from __future__ import annotations

from chaoscore.adapters.sqlite.stores import Stores, open_stores

__all__ = ["Stores", "open_stores"]
