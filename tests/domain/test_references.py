"""References: typed, in place of a value, resolved whole and never looked into again."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.json import Json, MissingPath, equal, pointer_join, resolve_pointer
from chaoscore.domain.plan import ItemReference, Reference
from chaoscore.domain.references import (
    Malformed,
    escape,
    find_references,
    resolve,
    scan,
    unescape,
)
from tests.domain.values import json_objects, json_values, nested, wild_json

OUTPUTS: dict[str, Json] = {
    "s1": {"body": {"items": [{"id": 7}, {"id": 8}]}, "status": 200, "": "empty key", "a/b": "slash", "none": None},
    "s2": [1, 2],
    "s3": "text",
}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ({"$from": "s1"}, OUTPUTS["s1"]),
        ({"$from": "s1", "path": ""}, OUTPUTS["s1"]),
        ({"$from": "s1", "path": "/status"}, 200),
        ({"$from": "s1", "path": "/body/items/1/id"}, 8),
        ({"$from": "s1", "path": "/"}, "empty key"),
        ({"$from": "s1", "path": "/a~1b"}, "slash"),
        ({"$from": "s1", "path": "/none"}, None),
        ({"$from": "s2", "path": "/0"}, 1),
        ({"$item": ""}, {"name": "n", "tags": ["t"]}),
        ({"$item": "/tags/0"}, "t"),
        ([{"$from": "s3"}, "literal", {"deep": {"$item": "/name"}}], ["text", "literal", {"deep": "n"}]),
        ({"$$from": "s1"}, {"$from": "s1"}),
        ({"$$$x": 1, "$$": 2}, {"$$x": 1, "$": 2}),
        ("$from s1 ${s1} {{s1.body}}", "$from s1 ${s1} {{s1.body}}"),
        ({"path": "/status"}, {"path": "/status"}),
    ],
)
def test_a_reference_is_replaced_by_the_value_it_names(written: Json, found: Json) -> None:
    assert resolve(written, OUTPUTS, {"name": "n", "tags": ["t"]}) == found


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ({"$from": "s9"}, "s9"),
        ({"$from": "s9", "path": "/x"}, "s9/x"),
        ({"$from": "s1", "path": "/nope"}, "s1/nope"),
        ({"$from": "s2", "path": "/2"}, "s2/2"),
        ({"$from": "s2", "path": "/-"}, "s2/-"),
        ({"$from": "s3", "path": "/length"}, "s3/length"),
        ([{"a": {"$item": "/nope"}}], "$item/nope"),
    ],
)
def test_a_reference_that_leads_nowhere_is_a_missing_path_with_its_name(written: Json, name: str) -> None:
    with pytest.raises(MissingPath) as raised:
        resolve(written, OUTPUTS, {"name": "n"})
    assert str(raised.value) == name


def test_an_item_reference_without_an_item_is_a_missing_path() -> None:
    with pytest.raises(MissingPath):
        resolve({"$item": ""}, OUTPUTS)


def test_null_is_an_item_like_any_other() -> None:
    assert resolve([{"$item": ""}], OUTPUTS, None) == [None]


MALFORMED: list[tuple[Json, str, str]] = [
    ({"$from": "s1", "extra": 1}, "/extra", "no key 'extra'"),
    ({"$from": "s1", "path": "/a", "max": 3}, "/max", "no key 'max'"),
    ({"$from": 1}, "/$from", "must be text, not integer"),
    ({"$from": None, "path": ""}, "/$from", "must be text, not null"),
    ({"$from": {"$from": "s1"}}, "/$from", "must be text, not object"),
    ({"$from": "s1", "path": 0}, "/path", "must be text, not integer"),
    ({"$from": "s1", "path": None}, "/path", "must be text, not null"),
    ({"$from": "s1", "path": "body"}, "/path", "'body' is not a JSON Pointer"),
    ({"$from": "s1", "path": "$.body[0]"}, "/path", "not a JSON Pointer"),
    ({"$from": "s1", "path": "/~2"}, "/path", "not a JSON Pointer"),
    ({"$item": "name"}, "/$item", "not a JSON Pointer"),
    ({"$item": 0}, "/$item", "must be text, not integer"),
    ({"$item": "", "path": "/a"}, "/path", "no key 'path'"),
    ({"$from": "s1", "$item": ""}, "", "'$item' is not a reference"),
    ({"$frm": "s1"}, "", "'$frm' is not a reference"),
    ({"$": 1}, "", "'$' is not a reference"),
    ({"$ref": "#/x"}, "", "'$ref' is not a reference"),
    ({"$from": "s1", "$path": "/x"}, "", "'$path' is not a reference"),
    ({"$from": "s1", "$$literal": 1}, "/$$literal", "no key '$$literal'"),
]


@pytest.mark.parametrize(("written", "at", "words"), MALFORMED)
def test_what_only_looks_like_a_reference_is_a_fault_and_no_literal(written: Json, at: str, words: str) -> None:
    ((pointer, found),) = scan({"a": [written]})
    assert pointer == "/a/0"
    assert isinstance(found, Malformed)
    assert found.at == at
    assert words in found.reason
    assert found.suggestion
    assert list(find_references(written)) == []
    with pytest.raises(ValueError, match=re.escape(found.reason)):
        resolve(written, OUTPUTS, None)
    with pytest.raises(ValueError, match="reference"):
        unescape(written)


def test_a_path_written_another_way_is_told_the_right_way() -> None:
    ((_, found),) = scan({"$from": "s1", "path": "$.body.items[0].id"})
    assert isinstance(found, Malformed)
    assert "'/body/items/0/id'" in found.suggestion


def test_references_are_found_in_document_order_with_their_places() -> None:
    written: Json = {"b": [{"$from": "s1"}, 1], "a": {"x/y": {"$item": "/p"}}, "$$k": {"$from": "s2", "path": "/0"}}
    assert list(find_references(written)) == [
        ("/b/0", Reference("s1", "")),
        ("/a/x~1y", ItemReference("/p")),
        ("/$$k", Reference("s2", "/0")),
    ]


def test_a_reference_as_a_whole_is_found_at_the_root() -> None:
    assert list(find_references({"$from": "s1"})) == [("", Reference("s1", ""))]


@pytest.mark.parametrize("kind", ["array", "object"])
def test_references_are_looked_for_at_any_depth(kind: str) -> None:
    assert list(scan(nested(100_000, kind))) == []


# -- laws ------------------------------------------------------------------------------------------------------

references = st.one_of(
    st.builds(Reference, st.sampled_from(["s1", "s2"]), st.sampled_from(["", "/a", "/0", "/a~1b"])),
    st.builds(ItemReference, st.sampled_from(["", "/a", "/0"])),
)


@given(json_values)
def test_a_literal_survives_being_escaped_and_unescaped(value: Json) -> None:
    assert unescape(escape(value)) == value
    assert resolve(escape(value), {}) == value
    assert list(scan(escape(value))) == []


@given(json_values, json_values)
def test_what_is_put_in_is_never_looked_into(output: Json, item: Json) -> None:
    """Law 8: an output that looks like a reference, or holds one, stays the data it is."""
    taken, of_item = resolve([{"$from": "s1"}, {"$item": ""}], {"s1": output}, item)  # type: ignore[misc]
    assert taken is output
    assert of_item is item


def written_out(reference: Reference | ItemReference) -> Json:
    if isinstance(reference, ItemReference):
        return {"$item": reference.path}
    return {"$from": reference.step, "path": reference.path}


@given(json_objects, references)
def test_a_reference_anywhere_is_found_once_at_its_place(around: dict[str, Json], reference: Reference) -> None:
    escaped = escape(around)
    assert isinstance(escaped, dict)
    written: Json = {**escaped, "here": [1, written_out(reference)]}
    assert list(find_references(written)) == [(pointer_join("here", 1), reference)]
    assert equal(resolve_pointer(written, "/here/1"), written_out(reference))


@given(wild_json)
def test_scanning_and_resolving_any_json_is_total(value: Json) -> None:
    found = list(scan(value))
    try:
        resolved = resolve(value, {}, None)
    except (MissingPath, ValueError):
        assert found
    else:
        assert all(isinstance(reference, ItemReference) for _, reference in found)
        assert found or unescape(value) == resolved or resolved != resolved
