"""Secrets are taken out of text and JSON, known ones by value and others by shape; ordinary text stays."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.json import Json
from chaoscore.domain.redaction import REDACTED, Redactor

SHAPED = [
    "sk-proj-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6-_x",
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrSt_-uv",
    "sk-proj-********************abcd",
    "sk-AbCdEfGhIjKlMnOp1234",
    "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    *(f"gh{kind}_abcdefghijklmnopqrstuvwxyz0123456789" for kind in "pousr"),
    "github_pat_11ABCDEFG0123456789_abcdefghij",
    "glpat-abcdefghij0123456789",
    "xoxb-1234567890-abcdefghij",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "sk_" + "live_abcdefghijklmnop",
    "rk_" + "test_abcdefghijklmnop",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\ncut off",
]
ORDINARY = [
    "sk-learn-contrib is a package",
    "through the night, ghosts",
    "the bearer of bad news arrives",
    "risk-averse-and-cautious-investors",
    "a hash: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "AKIA",
    "task-0123456789abcdef0123",
]
secrets = st.text(min_size=6, max_size=30).filter(lambda text: len(text.strip()) >= 6)


@pytest.mark.parametrize("secret", SHAPED, ids=[text[:12] for text in SHAPED])
def test_what_has_the_shape_of_a_key_goes(secret: str) -> None:
    redacted = Redactor().text(f"before {secret} after" if "cut off" not in secret else f"before {secret}")
    assert redacted.startswith("before [redacted]")
    assert redacted.endswith("after") or "cut off" in secret
    assert not Redactor().finds_nothing_in(json.dumps({"a key": [f"before {secret}"]}))


def test_a_bearer_token_goes_and_the_word_stays() -> None:
    assert Redactor().text("Authorization: Bearer abcdef0123456789abcd==") == f"Authorization: Bearer {REDACTED}"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor(["another secret"]).text(text) == text


@given(secrets, st.text(max_size=40), st.text(max_size=40))
def test_a_known_secret_is_nowhere_in_any_form(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    value = secret.strip()
    for form in (value, json.dumps(value)[1:-1], quote(value, safe="", errors="replace")):
        assert form not in redactor.text(before + form + after).replace(REDACTED, "\x00")


def test_of_two_secrets_where_one_begins_like_the_other_no_tail_is_left() -> None:
    assert Redactor(["secret-1", "secret-1-and-more"]).text("<secret-1-and-more>") == f"<{REDACTED}>"


def test_short_and_missing_secrets_do_not_take_words_out_of_every_text() -> None:
    assert Redactor([None, "", "   ", "none", "abc"]).text("none of abc") == "none of abc"


def test_json_is_redacted_in_values_and_keys_and_keeps_its_form() -> None:
    redactor = Redactor(["first-secret", "second-secret"])
    value: Json = {
        "a": ["x first-secret y", 1, None, True, 1.5],
        "first-secret": {"deep": "second-secret"},
        "second-secret": 2,
    }
    assert redactor.json(value) == {
        "a": [f"x {REDACTED} y", 1, None, True, 1.5],
        REDACTED: {"deep": REDACTED},
        f"{REDACTED} #2": 2,
    }
    assert "first-secret" in json.dumps(value)  # the original is not touched


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_json_without_secrets_comes_back_equal(value: Json) -> None:
    assert Redactor(["a-secret-nobody-writes"]).json(value) == value


def test_a_value_nested_deeper_than_the_interpreter_recurses_is_redacted_too() -> None:
    value: Json = "the-secret"
    for _ in range(20_000):
        value = [value]
    redacted = Redactor(["the-secret"]).json(value)
    for _ in range(20_000):
        assert isinstance(redacted, list)
        redacted = redacted[0]
    assert redacted == REDACTED


def test_its_own_repr_shows_nothing() -> None:
    assert "the-secret" not in repr(Redactor(["the-secret"]))


@pytest.mark.parametrize(
    "text",
    ["sk-" * 200_000, "sk-a" * 200_000, "-----BEGIN PRIVATE KEY-----" * 20_000, "Bearer " * 100_000, "xox" * 200_000],
    ids=["sk-", "sk-a", "pem", "bearer", "xox"],
)
def test_hostile_text_takes_time_in_proportion_to_its_length(text: str) -> None:
    redactor = Redactor(["a-secret-nobody-writes"])

    def cpu_seconds(part: str) -> float:
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            redactor.text(part)
            best = min(best, time.process_time() - started)
        return best

    eighth = cpu_seconds(text[: len(text) // 8])
    assert cpu_seconds(text) < 30 * max(eighth, 0.002)


def test_a_key_goes_as_messages_and_addresses_write_it() -> None:
    key = "a+b/c=d\\e'f\"g<h>"
    redactor = Redactor([key])
    for text in (f"there is no run for {key!r}", f"/one?key={quote(key)}", f"/one?key={quote(key, safe='')}"):
        assert REDACTED in redactor.text(text) and "b/c" not in redactor.text(text)
