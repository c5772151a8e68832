"""JSON as Hypothesis draws it: tame, and wild (what a program may be handed that no JSON text can hold)."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from chaoscore.domain.json import Json

tame_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = st.one_of(
    st.sampled_from(["a", "b", "id", "path", "", "0", "~", "/", "a/b", "$", "$$", "$from", "$item", "$$from", "$x"]),
    tame_text,
)
numbers = st.one_of(
    st.integers(-5, 5),
    st.integers(),
    st.sampled_from([2**53, 2**53 + 1, 2**63, 2**64, -(2**63), 1.0, -0.0, 1e16, 1e-9, 0.1]),
    st.floats(allow_nan=False, allow_infinity=False),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, tame_text)


def containers(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(parts, max_size=4), st.dictionaries(keys, parts, max_size=4))


json_values: st.SearchStrategy[Json] = st.recursive(scalars, containers, max_leaves=12)
json_objects: st.SearchStrategy[dict[str, Json]] = st.dictionaries(keys, json_values, max_size=4)

wild_scalars: st.SearchStrategy[Any] = st.one_of(
    scalars, st.sampled_from([math.nan, math.inf, -math.inf, "\ud800", "a\udfffb", 10**400, -(10**1_000)]), st.text()
)
wild_json: st.SearchStrategy[Json] = st.recursive(
    wild_scalars,
    lambda parts: st.one_of(
        st.lists(parts, max_size=4), st.dictionaries(st.one_of(keys, st.text(max_size=4)), parts, max_size=4)
    ),
    max_leaves=12,
)


def nested(depth: int, kind: str = "array") -> Json:
    """``[[[…]]]`` or ``{"a": {"a": …}}`` of this many levels, made without recursion."""
    value: Json = 1
    for _ in range(depth):
        value = [value] if kind == "array" else {"a": value}
    return value
