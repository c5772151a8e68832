"""Every recorded case of the original against ours: equal, but for differences that a requirement asks for."""

from __future__ import annotations

import json
from typing import cast

import pytest

from chaoscore.domain.json import Json, canonical_text, digest
from tests.interop import recorded

DEVIATIONS = recorded.HERE / "deviations.json"
SHOWN_CHARS_MAX = 240


def brief(value: Json) -> Json:
    """Long values stand in the list by their digest."""
    return value if len(canonical_text(value)) <= SHOWN_CHARS_MAX else {"digest": digest(value)}


def deviations() -> list[dict[str, Json]]:
    return cast("list[dict[str, Json]]", json.loads(DEVIATIONS.read_text("utf-8")))


def key(entry: dict[str, Json]) -> str:
    fields = ("case", "step", "pointer", "theirs", "ours")
    return canonical_text({name: entry[name] for name in fields})


@pytest.mark.parametrize("name", recorded.names())
def test_a_recorded_case_differs_only_where_a_requirement_asks_for_it(name: str) -> None:
    allowed = {key(entry) for entry in deviations() if entry["case"] == name}
    found = {
        key({**entry, "theirs": brief(entry["theirs"]), "ours": brief(entry["ours"])})
        for entry in recorded.case_differences(name)
    }
    assert sorted(found - allowed) == [], "a difference that nothing asks for"
    assert sorted(allowed - found) == [], "a deviation that is not used any more"


def test_every_deviation_says_which_requirement_asks_for_it() -> None:
    for entry in deviations():
        assert entry["case"] in recorded.names()
        assert str(entry["line"]).split("/")[0][0] in "ABCD" and entry["why"], entry


def test_the_copied_cases_are_the_published_ones() -> None:
    published = recorded.shared()
    if published is None:
        pytest.skip("no published cases beside this checkout")
    for folder in ("scenarios", "golden"):
        for path in sorted((published / folder).glob("*.json")):
            assert (recorded.CASES / folder / path.name).read_bytes() == path.read_bytes()
