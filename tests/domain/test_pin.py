"""What may be a PIN, and how long wrong tries are answered with a pause."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoscore.domain.pin import normal_form, pause_seconds, pin_fault


@pytest.mark.parametrize(
    "pin",
    ["739164", "correct horse", "tulpe-19-mond", "日本語の合言葉", "x" * 63 + "y" * 64 + "z", "1a2b3c", "Ünïcødé"],
)
def test_a_pin_that_is_not_easily_guessed_is_taken(pin: str) -> None:
    assert pin_fault(pin) is None


@pytest.mark.parametrize(
    ("pin", "says"),
    [
        ("", "6 to 128 characters; this one has 0"),
        ("73916", "this one has 5"),
        ("7391" * 33, "this one has 132"),
        ("7391\t64", "printable"),
        ("7391\x1b64", "printable"),
        ("7391\ud80064", "printable"),
        (" 739164", "blank"),
        ("739164 ", "blank"),
        ("777777", "different characters"),
        ("121221", "different characters"),
        ("１１１１１１", "different characters"),
        ("123123", "repeats its first 3"),
        ("71917191", "repeats its first 4"),
        ("123456", "follows"),
        ("654321", "follows"),
        ("567890", "follows"),
        ("789012", "follows"),
        ("abcdef", "follows"),
        ("FEDCBA", "follows"),
        ("qwertz", "follows"),
        ("lkjhgf", "follows"),
        ("PassWord", "most common"),
        ("112233", "most common"),
    ],
)
def test_a_weak_pin_is_refused_with_the_reason_and_never_repeated(pin: str, says: str) -> None:
    why = pin_fault(pin)
    assert why is not None and says in why
    assert len(pin) < 5 or pin not in why


@given(st.text(max_size=140))
def test_the_rules_answer_every_text_and_what_they_take_can_be_stored(pin: str) -> None:
    if pin_fault(normal_form(pin)) is None:
        assert 6 <= len(normal_form(pin)) <= 128
        assert normal_form(pin).encode("utf-8")


def test_letters_typed_on_two_keyboards_are_the_same() -> None:
    composed, apart = unicodedata.normalize("NFC", "über-é"), unicodedata.normalize("NFD", "über-é")
    assert composed != apart
    assert normal_form(composed) == normal_form(apart)


def test_pauses_begin_with_the_fifth_wrong_try_and_double_up_to_a_quarter_of_an_hour() -> None:
    assert [pause_seconds(wrong) for wrong in range(11)] == [0, 0, 0, 0, 0, 60, 120, 240, 480, 900, 900]
    assert pause_seconds(10**9) == 900
