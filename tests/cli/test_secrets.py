"""The quick look that spares most results a copy never misses a secret."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chaoscore.app.envelope import Envelope
from chaoscore.domain.json import Json
from chaoscore.domain.redaction import Redactor

SECRETS = ("hunter2-hunter2", 'quo"te\\d-key', "päss-wörter-日本")
KEYS = ("sk-abcdefghijklmnop1234", "AKIAABCDEFGHIJKLMNOP", "Bearer abcdefghijklmnop", "ghp_abcdefghijklmnopqrst")
REDACTOR = Redactor(SECRETS)

texts = st.builds(
    lambda before, middle, after: before + middle + after,
    st.text(max_size=6),
    st.sampled_from(("", *SECRETS, *KEYS, "hunter2-hunter%32", "sk-learn")),
    st.text(max_size=6),
)
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(values)
def test_what_is_called_clean_has_nothing_to_take_out(value: Json) -> None:
    if REDACTOR.is_clean(value):
        assert repr(REDACTOR.json(value)) == repr(value)


@given(texts, values)
def test_no_part_of_an_envelope_keeps_a_secret(text: str, value: Json) -> None:
    envelope = Envelope("X", text, {"value": value}, warnings=(text,), next_action=text, error_details={"k": text})
    shown = repr(envelope.redacted(REDACTOR))
    for secret in (SECRETS[0], SECRETS[2]):
        assert secret not in shown


def test_most_envelopes_are_handed_on_as_they_are() -> None:
    envelope = Envelope("SHOWN", "status ok", {"status": "ok"})
    assert envelope.redacted(REDACTOR) is envelope
