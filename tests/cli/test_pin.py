"""``chaoscore pin`` at a real terminal: nothing that is typed is shown, and nobody but a person at one can set it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from chaoscore.adapters.files.approver_pin import FilePin
from chaoscore.adapters.system import SystemClock
from chaoscore.domain.errors import PinRefused
from tests.cli.harness import CHAOSCORE, PATIENCE_SECONDS, Desk, Session, at_a_terminal

PIN = "tulpe-19-mond"
NEW = "rose-20-stern"


def pin_of(desk: Desk) -> FilePin:
    return FilePin(desk.data, SystemClock())


def answer(session: Session, question: str, text: str) -> None:
    session.until(question)
    session.type(text + "\n")


def files(desk: Desk) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in desk.data.iterdir()} if desk.data.exists() else {}


def test_a_pin_is_typed_twice_and_not_shown(desk: Desk) -> None:
    with at_a_terminal(desk, "pin", "set") as session:
        answer(session, "a new PIN, 6 to 128 characters: ", PIN)
        answer(session, "the same once more: ", PIN)
        assert session.end() == 0
        assert "the PIN is set" in session.screen
        assert PIN not in session.raw
    pin_of(desk).check(PIN)


def test_what_may_not_be_a_pin_is_asked_for_again_with_the_reason(desk: Desk) -> None:
    with at_a_terminal(desk, "pin", "set") as session:
        answer(session, "characters: ", "123456")
        assert "easily guessed" in session.until("characters: ")
        session.type(PIN + "\n")
        answer(session, "the same once more: ", NEW)
        assert "not the same" in session.until("characters: ")
        session.type(NEW + "\n")
        answer(session, "the same once more: ", NEW)
        assert session.end() == 0
        assert PIN not in session.raw and NEW not in session.raw
    pin_of(desk).check(NEW)


def test_after_three_that_may_not_be_one_it_ends_with_the_code_of_a_wrong_input(desk: Desk) -> None:
    with at_a_terminal(desk, "pin", "set") as session:
        for _ in range(3):
            answer(session, "a new PIN", "777777")
        assert session.end() == 2
        assert "nothing was changed" in session.screen
    assert not pin_of(desk).is_set()


def test_a_second_set_says_to_change_it_and_asks_nothing(desk: Desk) -> None:
    pin_of(desk).create(PIN)
    before = files(desk)
    with at_a_terminal(desk, "pin", "set") as session:
        assert session.end() == 1
        assert "pin change" in session.screen and "characters" not in session.screen
    assert files(desk) == before


def test_a_change_asks_for_the_old_one_first(desk: Desk) -> None:
    pin_of(desk).create(PIN)
    with at_a_terminal(desk, "pin", "change") as session:
        answer(session, "the PIN that is set: ", PIN)
        answer(session, "a new PIN", NEW)
        answer(session, "the same once more: ", NEW)
        assert session.end() == 0
        assert PIN not in session.raw and NEW not in session.raw
    pin_of(desk).check(NEW)


def test_a_wrong_old_one_changes_and_removes_nothing_and_counts(desk: Desk) -> None:
    pin_of(desk).create(PIN)
    for command in ("change", "remove"):
        with at_a_terminal(desk, "pin", command) as session:
            answer(session, "the PIN that is set: ", NEW)
            assert session.end() == 1
            assert "the PIN is wrong" in session.screen and "a new PIN" not in session.screen
    assert pin_of(desk).status().wrong_tries == 2
    pin_of(desk).check(PIN)


def test_a_removed_pin_is_gone(desk: Desk) -> None:
    pin_of(desk).create(PIN)
    with at_a_terminal(desk, "pin", "remove") as session:
        answer(session, "the PIN that is set: ", PIN)
        assert session.end() == 0
    assert not pin_of(desk).is_set()


def test_without_one_there_is_nothing_to_change_or_remove(desk: Desk) -> None:
    for command in ("change", "remove"):
        with at_a_terminal(desk, "pin", command) as session:
            assert session.end() == 1
            assert "no PIN is set" in session.screen and "pin set" in session.screen


def test_a_pause_is_told_with_the_seconds_that_are_left(desk: Desk) -> None:
    pin = pin_of(desk)
    pin.create(PIN)
    for _ in range(5):
        with pytest.raises(PinRefused):
            pin.check(NEW)
    with at_a_terminal(desk, "pin", "remove") as session:
        answer(session, "the PIN that is set: ", PIN)
        assert session.end() == 1
        assert "too many wrong PINs" in session.screen and " s, try again then" in session.screen
    done = desk.run("pin", "status", "--json")
    assert done.code == 0 and done.json()["wrong_tries"] == 5 and 0 < done.json()["seconds_left"] <= 60


@pytest.mark.parametrize(("keys", "code"), [("\x03", 130), ("\x04", 1)], ids=["Ctrl-C", "end of input"])
def test_whoever_stops_in_the_middle_has_changed_nothing_and_sees_what_they_type_again(
    keys: str, code: int, desk: Desk
) -> None:
    with at_a_terminal(desk, "pin", "set") as session:
        answer(session, "a new PIN", PIN)
        session.until("the same once more: ")
        session.type(keys)
        assert session.end() == code
    assert not pin_of(desk).is_set()


@pytest.mark.parametrize("command", ["set", "change", "remove"])
def test_a_pipe_sets_changes_and_removes_no_pin(command: str, desk: Desk) -> None:
    if command != "set":
        pin_of(desk).create(PIN)
    before = files(desk)
    done = desk.run("pin", command, stdin=f"{PIN}\n{PIN}\n{PIN}\n")
    assert (done.code, done.out) == (2, "")
    assert "terminal" in done.err
    assert files(desk) == before


@pytest.mark.parametrize("piped", ["stdin", "stdout"])
def test_half_a_terminal_is_none(piped: str, desk: Desk) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{PIN}\n{PIN}\n".encode())
        done = subprocess.run(
            [CHAOSCORE, "pin", "set"],
            stdin=subprocess.DEVNULL if piped == "stdin" else theirs,
            stdout=subprocess.PIPE if piped == "stdout" else theirs,
            stderr=subprocess.PIPE,
            env=desk.environ(),
            cwd=desk.work,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2 and b"terminal" in done.stderr
    assert not pin_of(desk).is_set()


def test_status_tells_whether_one_is_set_and_makes_nothing(desk: Desk) -> None:
    done = desk.run("pin", "status")
    assert done.code == 1 and "no PIN is set" in done.out
    assert not desk.data.exists()
    pin_of(desk).create(PIN)
    before = files(desk)
    done = desk.run("pin", "status", "--json")
    assert done.code == 0
    assert done.json() == {
        "set": True,
        "path": str(desk.data / "approver.pin"),
        "wrong_tries": 0,
        "seconds_left": 0,
    }
    assert files(desk) == before


@pytest.mark.parametrize("command", ["set", "change", "remove", "status"])
def test_a_malformed_file_is_named_and_kept(command: str, desk: Desk) -> None:
    desk.data.mkdir(mode=0o700)
    path: Path = desk.data / "approver.pin"
    path.write_text(json.dumps({"hash": "mine"}), encoding="utf-8")
    path.chmod(0o600)
    before = files(desk)
    with at_a_terminal(desk, "pin", command) as session:
        assert session.end() == 8
        assert "approver.pin" in session.screen and "malformed" in session.screen
    assert files(desk) == before


@pytest.mark.parametrize("command", [(), ("set",), ("change",), ("remove",), ("status",)])
def test_help_shows_examples(command: tuple[str, ...], desk: Desk) -> None:
    done = desk.run("pin", *command, "--help")
    assert done.code == 0 and "examples:" in done.out and "chaoscore pin" in done.out


def test_the_kernel_starts_beside_a_pin_that_was_set_before_it(desk: Desk) -> None:
    pin_of(desk).create(PIN)
    done = desk.run("inspect", "health")
    assert done.code == 0, done.err
    pin_of(desk).check(PIN)
