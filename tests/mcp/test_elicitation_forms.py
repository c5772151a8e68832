"""Forms as values: what MCP lets a server ask, and that what fits the schema is exactly what is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp_types._v2025_11_25 import ElicitRequestFormParams as Params2025
from mcp_types._v2026_07_28 import ElicitRequestFormParams as Params2026

from chaoscore.adapters.mcp.forms import requested_schema
from chaoscore.app.elicitation import Field, Form, FormOption, FreeText, MultiChoice, SingleChoice, YesNo
from chaoscore.domain.errors import InvalidInput
from chaoscore.domain.redaction import Redactor

WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=["Cs"]), max_size=8)
OPTIONS = st.lists(
    st.builds(FormOption, st.sampled_from(["", "a", "b", "审批", "a b"]), WORDS),
    min_size=1,
    max_size=4,
    unique_by=lambda option: option.value,
).map(tuple)
LABELS: dict[str, st.SearchStrategy[str]] = {"title": WORDS, "description": WORDS}


def _field(name: str) -> st.SearchStrategy[Field]:
    named = st.just(name)
    return st.one_of(
        st.builds(SingleChoice, name=named, options=OPTIONS, required=st.booleans(), **LABELS),
        st.builds(MultiChoice, name=named, options=OPTIONS, at_least=st.integers(0, 2), **LABELS),
        st.builds(YesNo, name=named, required=st.booleans(), **LABELS),
        st.builds(FreeText, name=named, chars_max=st.integers(0, 6), required=st.booleans(), **LABELS),
    )


FORMS = st.builds(
    lambda message, fields: Form(message, fields),
    WORDS,
    st.tuples(_field("x")) | st.tuples(_field("x"), _field("y")) | st.just(()),
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.integers(-1, 1),
    st.sampled_from(["", "a", "b", "c", "审批", "1234567"]),
    st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=3, unique=True),
    st.just({}),
)
CONTENTS = st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES, max_size=3)


@given(FORMS)
def test_every_form_is_one_that_both_eras_allow(form: Form) -> None:
    for version, params in (("2025-11-25", Params2025), ("2026-07-28", Params2026)):
        schema = requested_schema(form, version)
        assert schema is not None
        Draft202012Validator.check_schema(schema)
        read = params.model_validate({"mode": "form", "message": form.message, "requestedSchema": schema})
        # The revision's own types know every key: nothing falls out on the way.
        told = read.model_dump(by_alias=True, exclude_none=True)["requestedSchema"]
        assert told == schema


@given(FORMS, CONTENTS)
def test_what_the_schema_allows_is_what_is_read(form: Form, content: dict[str, Any]) -> None:
    schema = requested_schema(form, "2025-11-25")
    assert schema is not None
    if not Draft202012Validator(schema).is_valid(content):
        with pytest.raises(InvalidInput) as unfit:
            form.read(content)
        assert unfit.value.details["key"] in {*content, *schema.get("required", [])}
        return
    read = form.read(content)
    asked = {item.name for item in form.fields}
    assert {key: value for key, value in content.items() if key in asked}.items() <= read.items()
    assert set(read) <= asked


def test_null_is_nothing_and_a_choice_made_twice_is_made_once() -> None:
    form = Form(
        "?",
        (
            FreeText(name="why", required=False),
            MultiChoice(name="what", options=(FormOption("a"), FormOption("b")), at_most=1),
        ),
    )
    assert form.read({"why": None, "what": None}) == {"what": []}
    assert form.read({"what": ["a", "a"]}) == {"what": ["a"]}
    with pytest.raises(InvalidInput, match="what: has 2 options"):
        form.read({"what": ["a", "b"]})


@pytest.mark.parametrize(
    "fields",
    [
        (YesNo(name="a"), FreeText(name="a")),
        (YesNo(name=""),),
        (SingleChoice(name="a", options=()),),
        (MultiChoice(name="a", options=(FormOption("x"), FormOption("x", "other words"))),),
    ],
)
def test_a_form_that_could_never_be_answered_is_not_made(fields: tuple[Field, ...]) -> None:
    with pytest.raises(ValueError, match="of its own"):
        Form("?", fields)


def test_a_user_reads_no_secret() -> None:
    secret = "swordfish-9"
    form = Form(
        f"Use {secret}?",
        (
            SingleChoice(name="x", title=secret, description=secret, options=(FormOption("x", f"the {secret}"),)),
            MultiChoice(name="y", title=secret, options=(FormOption("y", f"the {secret}"),)),
            YesNo(name="z", description=secret),
            FreeText(name="w", title=secret),
        ),
    )
    shown = form.redacted(Redactor([secret]))
    assert secret not in repr(shown)
    assert repr(shown).count("[redacted]") == 8
    assert shown.read({"x": "x", "y": ["y"], "z": True, "w": ""}) == form.read(
        {"x": "x", "y": ["y"], "z": True, "w": ""}
    )
