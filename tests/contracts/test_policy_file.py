"""The policy file: strict at start, re-read when it changes, never looser while it is broken."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaoscore.adapters.files.policy_file import SETTLE_SECONDS, PolicyFile, write_default_policy
from chaoscore.app.ports import PolicySource
from chaoscore.domain.errors import PolicyInvalid, StorageError
from chaoscore.domain.json import Json
from chaoscore.domain.policy.evaluate import UNREADABLE
from chaoscore.domain.policy.model import DEFAULT_POLICY, Question
from chaoscore.domain.policy.parse import POLICY_BYTES_MAX

KNOWN = ("http.request", "fs.read_text", "fs.list", "fs.write_text")
READ, LIST, WRITE = (Question(name, builtin=True) for name in ("fs.read_text", "fs.list", "fs.write_text"))
EMPTY: dict[str, Json] = {
    "allowedCapabilities": [],
    "deniedCapabilities": [],
    "requireConfirmationFor": [],
    "httpAllowedDomains": [],
}


class HandClock:
    """A clock that stands still until it is moved. It begins after every file of the test was made."""

    def __init__(self) -> None:
        self.at = 10_000_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@pytest.fixture(params=["settled", "recent"])
def clock(request: pytest.FixtureRequest) -> HandClock:
    """Every test holds whether the last change lies far back (``stat`` alone is trusted) or a moment ago."""
    clock = HandClock()
    if request.param == "recent":
        clock.at = 0.0
    return clock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.json"


def write(path: Path, **changes: Json) -> None:
    path.write_text(json.dumps({**EMPTY, **changes}))


def replace(path: Path, text: str) -> None:
    """As most editors save: a new file put in the place of the old one."""
    draft = path.with_name("draft")
    draft.write_text(text)
    os.replace(draft, path)


def refused(path: Path, clock: HandClock) -> str:
    with pytest.raises(PolicyInvalid) as raised:
        PolicyFile(path, KNOWN, clock)
    assert str(path) in raised.value.message
    return raised.value.message


# -- at start --------------------------------------------------------------------------------------------------


def test_the_default_policy_is_written_when_the_data_directory_is_new(path: Path, clock: HandClock) -> None:
    source: PolicySource = PolicyFile(path, KNOWN, clock, create=True)
    assert json.loads(path.read_text()) == DEFAULT_POLICY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["policy.json"]
    assert source.verdict(WRITE).effect == "REQUIRE_APPROVAL"
    assert source.verdict(READ).effect == "ALLOW"
    assert source.problem() is None
    assert source.warnings() == ()
    assert source.path == str(path)


def test_the_default_policy_is_for_its_owner_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        assert write_default_policy(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_policy_that_is_there_is_never_overwritten(path: Path, clock: HandClock) -> None:
    write(path, deniedCapabilities=["fs.*"])
    text = path.read_text()
    assert PolicyFile(path, KNOWN, clock, create=True).verdict(READ).effect == "DENY"
    assert path.read_text() == text
    assert write_default_policy(path) is False


def test_a_broken_policy_that_is_there_is_refused_and_kept(path: Path, clock: HandClock) -> None:
    path.write_text("{")
    with pytest.raises(PolicyInvalid):
        PolicyFile(path, KNOWN, clock, create=True)
    assert path.read_text() == "{"


def test_a_missing_policy_is_refused_unless_the_data_directory_is_new(path: Path, clock: HandClock) -> None:
    assert "is missing" in refused(path, clock)
    assert not path.exists()


def test_what_a_dead_process_left_of_its_draft_is_no_obstacle(path: Path) -> None:
    path.with_name(f".policy.json.{os.getpid()}.new").write_text("half a pol")
    assert write_default_policy(path)
    assert json.loads(path.read_text()) == DEFAULT_POLICY


def test_a_misspelt_key_is_refused_with_its_fix(path: Path, clock: HandClock) -> None:
    write(path, deniedCapabilites=["fs.*"])
    assert "did you mean 'deniedCapabilities'?" in refused(path, clock)


def test_a_name_that_is_not_registered_is_refused_with_the_nearest(path: Path, clock: HandClock) -> None:
    write(path, deniedCapabilities=["fs.reed_text"])
    assert "did you mean 'fs.read_text'?" in refused(path, clock)


def make_link(path: Path) -> None:
    real = path.with_name("real.json")
    write(real)
    path.symlink_to(real)


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "is a symbolic link": make_link,
    "is a directory": Path.mkdir,
    "is a pipe": os.mkfifo,
    "has more than 1048576 bytes": lambda path: path.write_bytes(b" " * (POLICY_BYTES_MAX + 1)),
    "is not UTF-8": lambda path: path.write_bytes(b'{"allowedCapabilities": ["\xff"]}'),
    "byte order mark": lambda path: path.write_bytes(b"\xef\xbb\xbf" + json.dumps(EMPTY).encode()),
    "stands there twice": lambda path: path.write_text('{"allowedCapabilities": [], "allowedCapabilities": []}'),
    "NaN is not JSON": lambda path: path.write_text('{"allowedCapabilities": NaN}'),
    "is not JSON": lambda path: path.write_text(""),
}


@pytest.mark.parametrize("words", ODD_FILES)
def test_a_file_that_cannot_be_trusted_is_refused_at_start(words: str, path: Path, clock: HandClock) -> None:
    ODD_FILES[words](path)
    assert words in refused(path, clock)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused_at_start(path: Path, clock: HandClock) -> None:
    write(path)
    path.chmod(0)
    assert "permission denied" in refused(path, clock)


def test_a_device_is_refused(clock: HandClock) -> None:
    assert "is a device" in refused(Path("/dev/null"), clock)


def test_a_link_on_the_way_to_the_file_is_fine(tmp_path: Path, clock: HandClock) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "real" / "policy.json", deniedCapabilities=["fs.*"])
    assert PolicyFile(tmp_path / "link" / "policy.json", KNOWN, clock).verdict(READ).effect == "DENY"


def test_a_default_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as raised:
        write_default_policy(tmp_path / "missing" / "policy.json")
    assert raised.value.code == "IO_ERROR"
    assert "no such file" in raised.value.message


FAULTS = {errno.ENOSPC: "NO_SPACE", errno.EROFS: "READ_ONLY", errno.EACCES: "PERMISSION", errno.EIO: "IO_ERROR"}


@pytest.mark.parametrize("number", FAULTS)
@pytest.mark.parametrize("call", ["write", "fsync", "link", "open"])
def test_a_default_that_cannot_be_made_durable_leaves_nothing_and_can_be_tried_again(
    call: str, number: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as broken:
        if call == "write":
            broken.setattr("chaoscore.adapters.files.policy_file.open", _broken_open(fail), raising=False)
        else:
            broken.setattr(os, call, fail)
        with pytest.raises(StorageError) as raised:
            write_default_policy(path)
        assert raised.value.code == FAULTS[number]
    assert list(path.parent.iterdir()) == []
    assert write_default_policy(path)


def _broken_open(fail: Callable[..., int]) -> Callable[..., object]:
    def broken_open(fd: int, mode: str) -> object:
        file = os.fdopen(fd, mode, buffering=0)

        class Broken:
            def __enter__(self) -> Broken:
                return self

            def __exit__(self, *exc: object) -> None:
                file.close()

            write = staticmethod(fail)

        return Broken()

    return broken_open


def test_the_default_policy_and_its_name_are_durable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    really = os.fsync

    def watch(fd: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(fd).st_mode))
        really(fd)

    monkeypatch.setattr(os, "fsync", watch)
    write_default_policy(path)
    assert synced == [False, True]


def test_without_hard_links_the_default_is_still_written_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*args: object) -> None:
        raise OSError(errno.EPERM, "operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    assert write_default_policy(path)
    assert json.loads(path.read_text()) == DEFAULT_POLICY
    assert write_default_policy(path) is False
    assert [entry.name for entry in path.parent.iterdir()] == ["policy.json"]


# -- while it runs ---------------------------------------------------------------------------------------------


def test_a_change_of_the_file_is_in_force_at_the_next_verdict(path: Path, clock: HandClock) -> None:
    write(path)
    source = PolicyFile(path, KNOWN, clock)
    assert source.verdict(READ).effect == "ALLOW"
    write(path, deniedCapabilities=["fs.*"])
    assert source.verdict(READ).effect == "DENY"
    replace(path, json.dumps({**EMPTY, "requireConfirmationFor": ["fs.*"]}))
    assert source.verdict(READ).effect == "REQUIRE_APPROVAL"
    assert source.policy().confirm == ("fs.*",)
    write(path)
    assert source.verdict(READ).effect == "ALLOW"


def break_by_text(text: str) -> Callable[[Path], None]:
    return lambda path: replace(path, text)


def break_in_place(path: Path) -> None:
    os.truncate(path, 5)


def break_by_bytes(path: Path) -> None:
    path.write_bytes(b"\xff" * 40)


def break_by_link(path: Path) -> None:
    path.unlink()
    make_link(path)


def break_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def break_by_folder(path: Path) -> None:
    path.unlink()
    path.parent.rename(path.parent.with_name("elsewhere"))


def mend(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    elif path.is_symlink():
        path.unlink()
    elsewhere = path.parent.with_name("elsewhere")
    if elsewhere.exists():
        elsewhere.rename(path.parent)
    write(path, deniedCapabilities=["fs.list"])


BREAKS: dict[str, Callable[[Path], None]] = {
    "deleted": Path.unlink,
    "emptied": break_by_text(""),
    "cut off": break_in_place,
    "no JSON": break_by_text("{,}"),
    "an empty object": break_by_text("{}"),
    "a misspelt key": break_by_text(json.dumps({**EMPTY, "deniedCapabilites": []})),
    "an unknown name": break_by_text(json.dumps({**EMPTY, "deniedCapabilities": ["fs.nothing"]})),
    "duplicate keys": break_by_text('{"deniedCapabilities": [], "deniedCapabilities": []}'),
    "a link": break_by_link,
    "a directory": break_by_directory,
    "its folder moved away": break_by_folder,
    "too large": break_by_text(" " * (POLICY_BYTES_MAX + 1)),
    "not UTF-8": break_by_bytes,
}


@pytest.fixture
def in_folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "policy.json"


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_policy_never_loosens_and_recovers_when_mended(how: str, in_folder: Path, clock: HandClock) -> None:
    write(in_folder, deniedCapabilities=["fs.list"], requireConfirmationFor=["fs.write_text"])
    source = PolicyFile(in_folder, KNOWN, clock)
    good = source.policy()
    BREAKS[how](in_folder)

    for _ in range(3):
        listed, read, written = (source.verdict(question) for question in (LIST, READ, WRITE))
        assert (listed.effect, listed.rule) == ("DENY", "deniedCapabilities[0]: fs.list")
        assert (read.effect, read.rule) == ("REQUIRE_APPROVAL", UNREADABLE)
        assert (written.effect, written.rule) == ("REQUIRE_APPROVAL", UNREADABLE)
    problem = source.problem()
    assert problem is not None
    assert str(in_folder) in problem
    assert source.policy() == good, "the last good policy stays known"

    mend(in_folder)
    assert source.verdict(READ).effect == "ALLOW"
    assert source.verdict(LIST).effect == "DENY"
    assert source.problem() is None


def test_one_broken_edit_after_another_keeps_the_last_good_policy(path: Path, clock: HandClock) -> None:
    write(path, deniedCapabilities=["fs.list"])
    source = PolicyFile(path, KNOWN, clock)
    problems = []
    for text in ("{", "[]", "{}", ""):
        replace(path, text)
        assert source.verdict(LIST).effect == "DENY"
        assert source.verdict(READ).rule == UNREADABLE
        problems.append(source.problem())
    assert len(set(problems)) == 4


def test_the_last_good_policy_is_the_newest_good_one_not_the_first(path: Path, clock: HandClock) -> None:
    write(path)
    source = PolicyFile(path, KNOWN, clock)
    write(path, deniedCapabilities=["fs.list"])
    assert source.verdict(LIST).effect == "DENY"
    path.unlink()
    assert source.verdict(LIST).effect == "DENY"
    assert source.policy().denied == ("fs.list",)


def test_the_same_policy_put_back_is_in_force_again(path: Path, clock: HandClock) -> None:
    write(path)
    source, text = PolicyFile(path, KNOWN, clock), path.read_text()
    replace(path, "{")
    assert source.verdict(READ).rule == UNREADABLE
    replace(path, text)
    assert source.verdict(READ).effect == "ALLOW"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_policy_that_may_no_longer_be_read_asks_until_it_may(path: Path, clock: HandClock) -> None:
    write(path)
    source = PolicyFile(path, KNOWN, clock)
    path.chmod(0)
    assert source.verdict(READ).rule == UNREADABLE
    path.chmod(0o600)
    assert source.verdict(READ).effect == "ALLOW"


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE, errno.ESTALE, errno.ELOOP])
def test_a_read_that_fails_asks_until_it_succeeds(
    number: int, path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path)
    source = PolicyFile(path, KNOWN, clock)

    def fail(*args: object, **kwargs: object) -> int:
        raise OSError(number, os.strerror(number))

    replace(path, path.read_text() + " ")
    with monkeypatch.context() as broken:
        broken.setattr(os, "open", fail)
        assert source.verdict(READ).rule == UNREADABLE
        assert source.verdict(READ).rule == UNREADABLE
    assert source.verdict(READ).effect == "ALLOW"


def test_an_unforeseen_error_while_reading_only_tightens(
    path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, deniedCapabilities=["fs.list"])
    source = PolicyFile(path, KNOWN, clock)
    replace(path, path.read_text() + "\n")

    def fail(*args: object, **kwargs: object) -> bytes:
        raise MemoryError("no memory for sk-secret")

    with monkeypatch.context() as broken:
        broken.setattr(os, "read", fail)
        assert source.verdict(READ).rule == UNREADABLE
        assert source.verdict(LIST).effect == "DENY"
        assert "sk-secret" not in (source.problem() or "")
    assert source.verdict(READ).effect == "ALLOW"


def test_a_change_within_one_tick_of_the_file_system_is_seen(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file changed twice within one tick looks unchanged to ``stat``; so a file changed just now is read again."""
    path.write_text(json.dumps({**EMPTY, "deniedCapabilities": ["fs.list"]}))
    found = path.stat()
    monkeypatch.setattr(os, "stat", lambda *args, **kwargs: found)
    monkeypatch.setattr(os, "fstat", lambda *args, **kwargs: found)
    clock = HandClock()
    clock.at = found.st_ctime + SETTLE_SECONDS / 2
    source = PolicyFile(path, KNOWN, clock)
    assert source.verdict(READ).effect == "ALLOW"
    with path.open("r+") as file:
        file.write(json.dumps({**EMPTY, "deniedCapabilities": ["fs.*"]}).replace('"fs.*"', '"fs.*"   '))
    assert source.verdict(READ).effect == "DENY"


def test_a_settled_file_costs_a_verdict_one_stat_and_no_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path)
    source = PolicyFile(path, KNOWN, HandClock())
    calls: list[str] = []
    really_stat = os.stat

    def count_stat(*args: Any, **kwargs: Any) -> os.stat_result:
        calls.append("stat")
        return really_stat(*args, **kwargs)

    def no_open(*args: object, **kwargs: object) -> int:
        raise AssertionError("the file was opened")

    monkeypatch.setattr(os, "stat", count_stat)
    monkeypatch.setattr(os, "open", no_open)
    for _ in range(5):
        assert source.verdict(READ).effect == "ALLOW"
    assert calls == ["stat"] * 5


def test_warnings_follow_the_file(path: Path, clock: HandClock) -> None:
    write(path)
    path.chmod(0o600)
    source = PolicyFile(path, KNOWN, clock)
    assert source.warnings() == ()
    write(path, deniedCapabilities=["zz.*"])
    assert [warning.partition(";")[0] for warning in source.warnings()] == [
        "deniedCapabilities[0]: 'zz.*' matches no capability"
    ]
    path.chmod(0o666)
    assert any("others can write" in warning and "chmod 600" in warning for warning in source.warnings())


def test_threads_never_see_a_denial_loosened_while_the_file_changes_and_breaks(path: Path) -> None:
    texts = [
        json.dumps({**EMPTY, "deniedCapabilities": ["fs.list"]}),
        "{",
        json.dumps({**EMPTY, "deniedCapabilities": ["fs.*"]}),
        json.dumps({**EMPTY, "deniedCapabilites": []}),
    ]
    replace(path, texts[0])
    source = PolicyFile(path, KNOWN, HandClock())
    stop = threading.Event()
    wrong: list[object] = []
    asked = 0

    def ask() -> None:
        nonlocal asked
        while not stop.is_set():
            try:
                if source.verdict(LIST).effect != "DENY":
                    wrong.append(source.verdict(LIST))
                source.verdict(READ)
            except BaseException as error:
                wrong.append(error)
            asked += 1

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(200):
        replace(path, texts[turn % len(texts)])
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert asked > 3
    replace(path, texts[0])
    assert source.problem() is None
