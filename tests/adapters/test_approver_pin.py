"""The PIN's file: what is kept, who may read it, what wrong tries cost, and what is never overwritten."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaoscore.adapters.files.approver_pin import LOCK_NAME, LOCK_SECONDS_MAX, PIN_NAME, TRIES_NAME, FilePin
from chaoscore.adapters.system import SystemClock
from chaoscore.app.approval_ports import ApproverPin
from chaoscore.domain.errors import ChaosError, Conflict, InvalidInput, NotFound, PinRefused, StorageError
from chaoscore.testing.fakes import FakeClock

PIN = "tulpe-19-mond"
WRONG = "tulpe-19-sonne"
PATIENCE_SECONDS = 60.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def pin(data: Path, clock: FakeClock) -> FilePin:
    made = FilePin(data, clock)
    made.create(PIN)
    return made


def refusal(pin: FilePin, given: str | None = WRONG) -> PinRefused:
    with pytest.raises(PinRefused) as caught:
        pin.check(given)
    return caught.value


def expect(kind: type[ChaosError], call: Callable[[], None]) -> None:
    with pytest.raises(kind):
        call()


def names(data: Path) -> set[str]:
    return {path.name for path in data.iterdir()}


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_only_a_slow_hash_is_kept_and_only_its_owner_may_read_it(data: Path, clock: FakeClock) -> None:
    before = os.umask(0)
    try:
        FilePin(data, clock).create(PIN)
    finally:
        os.umask(before)
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    for path in data.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
        assert PIN.encode() not in path.read_bytes()
    kept = json.loads((data / PIN_NAME).read_bytes())
    assert kept["kdf"] == "scrypt" and kept["n"] * kept["r"] * 128 >= 2**24


def test_the_right_pin_passes_and_leaves_no_trace_of_a_try(pin: FilePin, data: Path) -> None:
    port: ApproverPin = pin
    asyncio.run(port.require(PIN))
    assert names(data) == {PIN_NAME, LOCK_NAME}


def test_two_people_with_the_same_pin_have_different_hashes(tmp_path: Path, clock: FakeClock) -> None:
    hashes = set()
    for name in ("a", "b"):
        FilePin(tmp_path / name, clock).create(PIN)
        hashes.add(json.loads((tmp_path / name / PIN_NAME).read_bytes())["hash"])
    assert len(hashes) == 2


def test_without_a_pin_none_is_right_and_asking_makes_nothing(data: Path, clock: FakeClock) -> None:
    pin = FilePin(data, clock)
    assert not pin.is_set()
    assert "pin set" in refusal(pin, PIN).message
    expect(NotFound, lambda: pin.change(PIN, WRONG))
    expect(NotFound, lambda: pin.remove(PIN))
    assert not data.exists()


def test_a_pin_set_by_another_process_counts_at_once(pin: FilePin, data: Path, clock: FakeClock) -> None:
    other = FilePin(data, clock)
    assert other.is_set()
    other.check(PIN)
    pin.remove(PIN)
    assert not other.is_set()


def test_a_second_pin_does_not_take_the_place_of_the_first(pin: FilePin) -> None:
    with pytest.raises(Conflict):
        pin.create("rose-20-stern")
    pin.check(PIN)


def test_a_changed_pin_is_the_only_one_that_is_right(pin: FilePin) -> None:
    pin.change(PIN, "rose-20-stern")
    pin.check("rose-20-stern")
    refusal(pin, PIN)


def test_changing_and_removing_need_the_pin_and_a_wrong_one_changes_nothing(pin: FilePin, data: Path) -> None:
    before = (data / PIN_NAME).read_bytes()
    expect(PinRefused, lambda: pin.change(WRONG, "rose-20-stern"))
    expect(PinRefused, lambda: pin.remove(WRONG))
    assert (data / PIN_NAME).read_bytes() == before
    assert pin.status().wrong_tries == 2


def test_a_weak_pin_and_the_old_one_are_refused(pin: FilePin) -> None:
    for new in ("123456", "short", PIN):
        with pytest.raises(InvalidInput):
            pin.change(PIN, new)
    pin.check(PIN)


def test_nothing_that_was_typed_is_logged_or_told(pin: FilePin, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        error = refusal(pin)
        pin.check(PIN)
    for secret in (PIN, WRONG):
        assert secret not in caplog.text and secret not in repr(error) + repr(error.details)


def test_checking_does_not_hold_the_event_loop_up(pin: FilePin) -> None:
    async def both() -> int:
        check = asyncio.create_task(pin.require(PIN))
        turns = 0
        while not check.done():
            await asyncio.sleep(0)
            turns += 1
        await check
        return turns

    assert asyncio.run(both()) > 10


# -- wrong tries -----------------------------------------------------------------------------------------------------


def test_the_fifth_wrong_try_begins_a_pause_in_which_not_even_the_right_pin_passes(
    pin: FilePin, clock: FakeClock
) -> None:
    for rest in (4, 3, 2, 1):
        assert f"after {rest} more wrong" in refusal(pin).message
    assert "another 60 s" in refusal(pin).message
    clock.advance(17.5)
    error = refusal(pin, PIN)
    assert "another 43 s" in error.message and error.details["retry_after_seconds"] == 43
    clock.advance(42.5)
    pin.check(PIN)
    assert pin.status().wrong_tries == 0


def test_pauses_double_up_to_fifteen_minutes_and_the_right_pin_ends_the_row(pin: FilePin, clock: FakeClock) -> None:
    for _ in range(4):
        refusal(pin)
    for seconds in (60, 120, 240, 480, 900, 900):
        assert refusal(pin).details["retry_after_seconds"] == seconds
        clock.advance(seconds)
    pin.check(PIN)
    assert "after 4 more" in refusal(pin).message


def test_a_try_in_a_pause_makes_the_pause_no_longer(pin: FilePin, clock: FakeClock) -> None:
    for _ in range(5):
        refusal(pin)
    for _ in range(10):
        refusal(pin)
    assert pin.status().seconds_left == 60
    clock.advance(60)
    pin.check(PIN)


def test_no_pin_given_is_refused_and_not_counted(pin: FilePin) -> None:
    for nothing in (None, ""):
        assert "none was given" in refusal(pin, nothing).message
    assert pin.status().wrong_tries == 0


@pytest.mark.parametrize("given", ["x", "x" * 10_000_000, "tulpe\ud80019", "\0" * 8])
def test_what_cannot_be_a_pin_is_a_wrong_try(given: str, pin: FilePin) -> None:
    refusal(pin, given)
    assert pin.status().wrong_tries == 1


def test_a_clock_that_goes_back_prolongs_a_pause_once_and_not_for_ever(pin: FilePin, clock: FakeClock) -> None:
    for _ in range(5):
        refusal(pin)
    clock.advance(-365 * 86_400)
    assert refusal(pin, PIN).details["retry_after_seconds"] == 60
    clock.advance(59)
    assert refusal(pin, PIN).details["retry_after_seconds"] == 1
    clock.advance(1)
    pin.check(PIN)


def test_tries_of_all_processes_count_together(data: Path) -> None:
    FilePin(data, SystemClock()).create(PIN)
    program = (
        "import sys; from pathlib import Path\n"
        "from chaoscore.adapters.files.approver_pin import FilePin\n"
        "from chaoscore.adapters.system import SystemClock\n"
        "from chaoscore.domain.errors import PinRefused\n"
        "try: FilePin(Path(sys.argv[1]), SystemClock()).check('rose-20-stern')\n"
        "except PinRefused as error: print(error.details.get('retry_after_seconds', 0))\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(data)], stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    told = [int(child.communicate(timeout=PATIENCE_SECONDS)[0]) for child in children]
    assert told.count(0) == 4
    assert all(50 <= seconds <= 60 for seconds in told if seconds)
    assert json.loads((data / TRIES_NAME).read_bytes())["wrong"] == 5
    assert "too many" in refusal(FilePin(data, SystemClock()), PIN).message


def test_right_pins_at_the_same_time_all_pass(pin: FilePin) -> None:
    async def crowd() -> None:
        await asyncio.gather(*(pin.require(PIN) for _ in range(8)))

    asyncio.run(crowd())
    assert pin.status().wrong_tries == 0


def test_a_process_that_dies_while_it_checks_has_used_its_try(data: Path) -> None:
    """Killed at the moment the hash is computed, which is after the try was counted."""
    FilePin(data, SystemClock()).create(PIN)
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from chaoscore.adapters.files import approver_pin\n"
        "from chaoscore.adapters.system import SystemClock\n"
        "approver_pin.hashlib.scrypt = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "approver_pin.FilePin(Path(sys.argv[1]), SystemClock()).check('rose-20-stern')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(data)], timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == -signal.SIGKILL
    after = FilePin(data, SystemClock())
    assert after.status().wrong_tries == 1
    after.check(PIN)


def test_where_no_try_can_be_counted_no_pin_is_looked_at(pin: FilePin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a full disk would answer as many guesses as anybody likes."""

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    told = []
    for given in (PIN, WRONG):
        with pytest.raises(StorageError) as caught:
            pin.check(given)
        told.append((caught.value.code, caught.value.message))
    assert told[0] == told[1] and told[0][0] == "NO_SPACE"
    monkeypatch.undo()
    pin.check(PIN)


HOLD = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.flock(f, 2); print(flush=True); input()"


def test_a_process_that_keeps_the_lock_is_waited_for(pin: FilePin, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits, sleep = threading.Event(), time.sleep

    def told(seconds: float) -> None:
        waits.set()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", told)
    with holder_of(data / LOCK_NAME) as holder:
        checking = threading.Thread(target=pin.check, args=(PIN,))
        checking.start()
        assert waits.wait(PATIENCE_SECONDS) and checking.is_alive()
        holder.communicate(b"\n", timeout=PATIENCE_SECONDS)
        checking.join(PATIENCE_SECONDS)
        assert not checking.is_alive()


def test_a_process_that_never_lets_go_is_not_waited_for_for_ever(
    pin: FilePin, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    with holder_of(data / LOCK_NAME), pytest.raises(StorageError, match=LOCK_NAME) as caught:
        pin.check(PIN)
    assert caught.value.code == "STORE_BUSY"
    assert sum(waited) == pytest.approx(LOCK_SECONDS_MAX)


@contextmanager
def holder_of(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, with the lock in its hands until it reads a line."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline()
            yield holder
        finally:
            holder.kill()


# -- what cannot be used ---------------------------------------------------------------------------------------------

GOOD = {"format": 1, "kdf": "scrypt", "n": 32768, "r": 8, "p": 1, "salt": "00" * 16, "hash": "00" * 32}
MALFORMED = {
    "empty": b"",
    "no JSON": b"{",
    "deep": b"[" * 4000,
    "long": b" " * 5000,
    "an array": b"[]",
    "no text": b"\xff\xfe",
    "a key too many": json.dumps({**GOOD, "more": 1}).encode(),
    "a key too few": json.dumps({k: v for k, v in GOOD.items() if k != "salt"}).encode(),
    "a newer format": json.dumps({**GOOD, "format": 2}).encode(),
    "true for one": json.dumps({**GOOD, "p": True}).encode(),
    "too cheap": json.dumps({**GOOD, "n": 2}).encode(),
    "too dear": json.dumps({**GOOD, "n": 2**30}).encode(),
    "no power of two": json.dumps({**GOOD, "n": 32769}).encode(),
    "no hex": json.dumps({**GOOD, "hash": "zz" * 32}).encode(),
    "a short hash": json.dumps({**GOOD, "hash": "00"}).encode(),
    "another function": json.dumps({**GOOD, "kdf": "md5"}).encode(),
}


def every_call(pin: FilePin) -> list[ChaosError]:
    errors = []
    calls: tuple[Callable[[], object], ...] = (
        lambda: pin.check(PIN),
        lambda: pin.create(PIN),
        lambda: pin.change(PIN, "rose-20-stern"),
        lambda: pin.remove(PIN),
        lambda: pin.status(),
    )
    for call in calls:
        with pytest.raises(ChaosError) as caught:
            call()
        errors.append(caught.value)
    return errors


@pytest.mark.parametrize("content", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_refused_by_path_and_stays_as_it_is(content: bytes, pin: FilePin, data: Path) -> None:
    path = data / PIN_NAME
    path.write_bytes(content)
    assert pin.is_set(), "a file that cannot be used is not the same as none"
    for error in every_call(pin):
        assert error.code == "STORE_CORRUPT" and str(path) in error.message
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b'{"format": 1, "wrong": 0, "at": 1}', b'{"format": 1, "wrong": 1, "at": NaN}', b'{"wrong": 1}'],
)
def test_a_malformed_count_is_refused_by_path_and_stays_as_it_is(content: bytes, pin: FilePin, data: Path) -> None:
    path = data / TRIES_NAME
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(StorageError, match=TRIES_NAME) as caught:
        pin.check(PIN)
    assert caught.value.code == "STORE_CORRUPT"
    assert path.read_bytes() == content


def test_a_link_a_folder_and_a_pipe_are_refused(data: Path, clock: FakeClock, tmp_path: Path) -> None:
    FilePin(tmp_path / "elsewhere", clock).create(PIN)
    data.mkdir()
    path, pin = data / PIN_NAME, FilePin(data, clock)
    makers: tuple[Callable[[], None], ...] = (
        lambda: path.symlink_to(tmp_path / "elsewhere" / PIN_NAME),
        lambda: path.symlink_to(tmp_path / "nowhere"),
        lambda: path.mkdir(),
        lambda: os.mkfifo(path),
    )
    for make in makers:
        make()
        assert pin.is_set()
        for error in every_call(pin):
            assert error.code == "STORE_CORRUPT" and str(path) in error.message
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_may_use_is_refused_with_what_to_do(mode: int, pin: FilePin, data: Path) -> None:
    (data / PIN_NAME).chmod(mode)
    with pytest.raises(StorageError, match="chmod 600") as caught:
        pin.check(PIN)
    assert caught.value.code == "PERMISSION"


def test_a_draft_left_by_a_process_that_died_is_in_nobodys_way(data: Path, clock: FakeClock) -> None:
    data.mkdir()
    for name in (PIN_NAME, TRIES_NAME):
        (data / f".{name}.draft").write_bytes(b"half")
    pin = FilePin(data, clock)
    pin.create(PIN)
    refusal(pin)
    pin.check(PIN)
    assert names(data) == {PIN_NAME, LOCK_NAME}
