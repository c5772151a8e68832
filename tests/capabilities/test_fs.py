"""``fs.*`` in an ordinary folder: what it reads, lists and writes, and what it says when it cannot."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from chaoscore.adapters.capabilities.fs.options import FsOptions
from chaoscore.domain.errors import CapabilityError, ConfigurationInvalid, NotPerformed
from chaoscore.domain.json import Json
from tests.capabilities.support import Desk, desk, names


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "docs" / "deep").mkdir(parents=True)
    (folder / "README.md").write_text("# Read me\n\nHello\n")
    (folder / "docs" / "b.md").write_text("# B\r\nsecond\r\n")
    (folder / "docs" / "a.md").write_text("# A")
    (folder / "docs" / "deep" / "c.md").write_text("")
    (folder / "docs" / "notes.txt").write_text("x")
    return folder


@pytest.fixture
def fs(root: Path) -> Desk:
    return desk(roots=[root])


def test_reading_gives_the_text_as_it_is_and_its_lines(fs: Desk) -> None:
    assert fs.call("fs.read_text", path="docs/b.md") == {
        "path": "docs/b.md",
        "text": "# B\r\nsecond\r\n",
        "lines": ["# B", "second"],
    }


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n\n", ["a", ""]),
        ("\ufeff# T\n", ["# T"]),
        ("a\u2028b\x0cc", ["a\u2028b\x0cc"]),
    ],
)
def test_lines_are_counted_as_editors_count_them(root: Path, fs: Desk, content: str, lines: list[str]) -> None:
    (root / "x.txt").write_bytes(content.encode())
    output = fs.call("fs.read_text", path="x.txt")
    assert (output["lines"], output["text"]) == (lines, content)


@pytest.mark.parametrize("path", ["docs/a.md", "./docs//a.md", "docs/./a.md", "{root}/docs/a.md"])
def test_relative_and_absolute_spellings_mean_the_same_file(root: Path, fs: Desk, path: str) -> None:
    assert fs.call("fs.read_text", path=path.format(root=root))["path"] == "docs/a.md"


def test_listing_is_sorted_and_its_paths_can_be_read(fs: Desk) -> None:
    output = fs.call("fs.list", path=".", recursive=True)
    entries = output["entries"]
    assert entries == [
        {"path": "README.md", "kind": "file", "bytes": 17},
        {"path": "docs", "kind": "directory", "bytes": None},
        {"path": "docs/a.md", "kind": "file", "bytes": 3},
        {"path": "docs/b.md", "kind": "file", "bytes": 13},
        {"path": "docs/deep", "kind": "directory", "bytes": None},
        {"path": "docs/deep/c.md", "kind": "file", "bytes": 0},
        {"path": "docs/notes.txt", "kind": "file", "bytes": 1},
    ]
    for entry in entries:
        if entry["kind"] == "file":
            assert fs.call("fs.read_text", path=entry["path"])["path"] == entry["path"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "docs"}, ["docs/a.md", "docs/b.md", "docs/deep", "docs/notes.txt"]),
        ({"path": "docs", "glob": "*.md"}, ["docs/a.md", "docs/b.md"]),
        ({"path": "docs", "glob": "*.md", "recursive": True}, ["docs/a.md", "docs/b.md", "docs/deep/c.md"]),
        ({"path": ".", "glob": "docs/**/*.md"}, ["docs/a.md", "docs/b.md", "docs/deep/c.md"]),
        ({"path": ".", "glob": "docs/*.md"}, ["docs/a.md", "docs/b.md"]),
        ({"path": ".", "glob": "**/deep/*"}, ["docs/deep/c.md"]),
        ({"path": ".", "glob": "**"}, ["README.md", "docs/a.md", "docs/b.md", "docs/deep/c.md", "docs/notes.txt"]),
        ({"path": "docs", "glob": "[ab].md"}, ["docs/a.md", "docs/b.md"]),
        ({"path": "docs", "glob": "?.md"}, ["docs/a.md", "docs/b.md"]),
        ({"path": "docs", "glob": "*.MD"}, []),
        ({"path": "docs/deep"}, ["docs/deep/c.md"]),
    ],
)
def test_a_glob_names_files_and_only_files(fs: Desk, arguments: dict[str, Json], expected: list[str]) -> None:
    assert names(fs.call("fs.list", **arguments)["entries"]) == expected


def test_a_hostile_glob_takes_no_time(root: Path, fs: Desk) -> None:
    (root / ("a" * 200)).touch()
    assert fs.call("fs.list", path=".", glob="*a" * 60 + "b", recursive=True)["entries"] == []
    assert fs.call("fs.list", path=".", glob="**/" * 60 + "b", recursive=True)["entries"] == []


def test_a_second_root_is_spoken_of_by_absolute_paths(tmp_path: Path, root: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.md").write_text("x")
    both = desk(roots=[root, other])
    listed = both.call("fs.list", path=str(other))["entries"]
    assert names(listed) == [str(other / "x.md")]
    assert both.call("fs.read_text", path=str(other / "x.md"))["path"] == str(other / "x.md")
    assert both.refusal("fs.read_text", path="x.md").code == "FS_NOT_FOUND"
    assert both.capability("fs.list").capability.scope == {"roots": [str(root), str(other)]}


def test_a_root_named_through_a_link_may_be_spelled_that_way(tmp_path: Path, root: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    aliased = desk(roots=[tmp_path / "alias"])
    assert aliased.call("fs.read_text", path=str(tmp_path / "alias" / "README.md"))["path"] == "README.md"
    assert aliased.capability("fs.list").capability.scope == {"roots": [str(root)]}


def test_without_a_root_every_fs_capability_says_how_to_allow_one() -> None:
    closed = desk()
    for name, arguments in (
        ("fs.read_text", {"path": "a"}),
        ("fs.list", {"path": "."}),
        ("fs.write_text", {"path": "a", "text": ""}),
    ):
        error = closed.refusal(name, **arguments)
        assert error.code == "FS_NO_ROOT"
        assert "CHAOS_CORE_FS_ROOTS" in error.message
        assert "chaoscore achieve --root DIR" in error.message
        assert closed.capability(name).capability.scope == {"roots": []}


@pytest.mark.parametrize("bad", ["missing", "README.md", "/", ".git", "data", "data/inner", ".chaos/interactions"])
def test_a_root_that_cannot_be_one_refuses_to_start(root: Path, bad: str) -> None:
    for folder in (".git", "data/inner", ".chaos/interactions"):
        (root / folder).mkdir(parents=True)
    with pytest.raises(ConfigurationInvalid) as error:
        desk(roots=[root / bad], protected=[root / "data"])
    assert repr(str(root / bad)) in error.value.message or "'/'" in error.value.message


# -- what cannot be read ---------------------------------------------------------------------------------------


def test_what_is_not_utf8_is_said_to_be_no_text(root: Path, fs: Desk) -> None:
    (root / "latin.txt").write_bytes(b"caf\xe9 secret")
    error = fs.refusal("fs.read_text", path="latin.txt")
    assert (error.code, "byte 3" in error.message, "secret" in error.message) == ("FS_NOT_TEXT", True, False)


def test_sizes_are_bounded(root: Path) -> None:
    small = desk(roots=[root], fs=FsOptions(read_bytes_max=10, write_bytes_max=10, entries_max=3, depth_max=1))
    (root / "ten").write_text("0123456789")
    assert small.call("fs.read_text", path="ten")["text"] == "0123456789"
    assert small.refusal("fs.read_text", path="README.md").code == "FS_TOO_LARGE"
    assert small.refusal("fs.write_text", path="new", text="é" * 6).code == "FS_TOO_LARGE"
    assert small.refusal("fs.list", path=".", recursive=True).code == "FS_TOO_MANY"
    assert len(names(small.call("fs.list", path="docs", glob="*.md")["entries"])) == 2


def test_depth_and_what_is_looked_at_are_bounded(root: Path) -> None:
    (root / "1" / "2" / "3").mkdir(parents=True)
    shallow = desk(roots=[root / "1"], fs=FsOptions(depth_max=1))
    error = shallow.refusal("fs.list", path=".", recursive=True)
    assert (error.code, "deep" in error.message) == ("FS_TOO_MANY", True)
    hasty = desk(roots=[root], fs=FsOptions(visited_max=4))
    assert hasty.refusal("fs.list", path=".", glob="nothing", recursive=True).code == "FS_TOO_MANY"


def test_pipes_devices_sockets_and_folders_are_refused_without_waiting(root: Path, fs: Desk) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        previous = os.getcwd()
        os.chdir(root)  # a socket's path is short
        try:
            server.bind("socket")
        finally:
            os.chdir(previous)
        for name in ("pipe", "socket", "docs", "."):
            assert fs.refusal("fs.read_text", path=name).code == "FS_WRONG_KIND"
            assert fs.refusal("fs.write_text", path=name, text="", overwrite=True).code == "FS_WRONG_KIND"
        assert fs.call("fs.list", path=".", glob="*[ep]t")["entries"] == []
        assert fs.call("fs.list", path=".")["skipped"] == 2
    assert stat.S_ISFIFO((root / "pipe").stat().st_mode)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing.md", "FS_NOT_FOUND"),
        ("missing/x.md", "FS_NOT_FOUND"),
        ("README.md/x", "FS_WRONG_KIND"),
        ("a\0b", "FS_PATH_REFUSED"),
        ("a\nb", "FS_PATH_REFUSED"),
        ("a\udc80b", "FS_PATH_REFUSED"),
        ("x" * 300, "FS_PATH_REFUSED"),
        ("invoice\u202etxt.exe", "FS_PATH_REFUSED"),
        ("../project/README.md", "FS_PATH_REFUSED"),
        ("docs/../README.md", "FS_PATH_REFUSED"),
        ("/etc/hostname", "FS_PATH_REFUSED"),
    ],
)
def test_a_path_that_cannot_be_used_fails_alike_for_reading_and_writing(fs: Desk, path: str, code: str) -> None:
    assert fs.refusal("fs.read_text", path=path).code == code
    if path != "missing.md":
        assert fs.refusal("fs.write_text", path=path, text="x").code == code


def test_a_file_that_others_may_not_read_is_reported_by_the_systems_words(root: Path, fs: Desk) -> None:
    (root / "locked").mkdir(mode=0o000)
    if os.access(root / "locked", os.R_OK):
        pytest.skip("this user may read everything")
    assert fs.refusal("fs.list", path="locked").code == "FS_FAILED"


# -- writing ---------------------------------------------------------------------------------------------------


def leftovers(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob(".chaoscore-*"))


def test_writing_makes_the_file_whole_and_leaves_nothing_else(root: Path, fs: Desk) -> None:
    assert fs.call("fs.write_text", path="docs/new.md", text="é\r\n") == {"path": "docs/new.md", "bytes": 4}
    assert (root / "docs" / "new.md").read_bytes() == "é\r\n".encode()
    assert (root / "docs" / "new.md").stat().st_nlink == 1
    assert leftovers(root) == []


def test_an_existing_file_stays_unless_overwriting_was_asked_for(root: Path, fs: Desk) -> None:
    error = fs.refusal("fs.write_text", path="README.md", text="gone")
    assert (error.code, (root / "README.md").read_text()) == ("FS_EXISTS", "# Read me\n\nHello\n")
    os.chmod(root / "README.md", 0o640)
    fs.call("fs.write_text", path="README.md", text="new", overwrite=True)
    assert (root / "README.md").read_text() == "new"
    assert stat.S_IMODE((root / "README.md").stat().st_mode) == 0o640
    assert leftovers(root) == []


def test_overwriting_replaces_the_name_and_never_the_other_names_of_the_file(
    tmp_path: Path, root: Path, fs: Desk
) -> None:
    (tmp_path / "outside").write_text("precious")
    os.link(tmp_path / "outside", root / "linked")
    fs.call("fs.write_text", path="linked", text="new", overwrite=True)
    assert (tmp_path / "outside").read_text() == "precious"


def test_a_text_with_half_a_character_is_refused(fs: Desk) -> None:
    assert fs.refusal("fs.write_text", path="x", text="a\ud800").code == "FS_NOT_TEXT"


FAULTY = ("open", "fchmod", "fsync", "fstat", "link", "rename", "stat")


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_whatever_call_fails_the_file_is_old_or_new_and_the_error_says_which(
    root: Path, fs: Desk, monkeypatch: pytest.MonkeyPatch, overwrite: bool, nameless: bool, number: int
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    target = root / "target.md"
    for faulty in FAULTY:
        for nth in range(1, 30):
            target.unlink(missing_ok=True)
            if overwrite:
                target.write_text("old")
            with monkeypatch.context() as patch:
                fault = _fail_nth(patch, faulty, nth, number)
                outcome = fs.outcome("fs.write_text", path="target.md", text="new", overwrite=overwrite)
            now = target.read_text() if target.exists() else None
            if isinstance(outcome, NotPerformed):
                assert now == ("old" if overwrite else None), (faulty, nth)
            elif isinstance(outcome, CapabilityError):
                assert now in ("new", "old" if overwrite else None)
            else:
                assert now == "new"
            assert leftovers(root) == [], (faulty, nth)
            if not fault.reached:
                break
        else:
            raise AssertionError(f"{faulty} is called without end")
    assert fs.call("fs.write_text", path="fine.md", text="x")["bytes"] == 1


class _Fault:
    reached = False


def _fail_nth(patch: pytest.MonkeyPatch, name: str, nth: int, number: int) -> _Fault:
    """The nth call of an ``os`` function fails with this errno."""
    fault = _Fault()
    real: Callable[..., object] = getattr(os, name)
    seen = 0

    def failing(*args: object, **kwargs: object) -> object:
        nonlocal seen
        seen += 1
        if seen == nth:
            fault.reached = True
            raise OSError(number, os.strerror(number))
        return real(*args, **kwargs)

    patch.setattr(os, name, failing)
    return fault


@pytest.mark.parametrize(("name", "overwrite"), [("rename", True), ("link", False)])
def test_a_lost_answer_to_naming_the_file_is_settled_by_looking(
    root: Path, fs: Desk, monkeypatch: pytest.MonkeyPatch, name: str, overwrite: bool
) -> None:
    real: Callable[..., object] = getattr(os, name)
    real_stat = os.stat
    blind = False

    def done_but_denied(*args: object, **kwargs: object) -> None:
        nonlocal blind
        real(*args, **kwargs)
        blind = see_nothing
        raise OSError(errno.EIO, "lost")

    def stat_or_not(*args: object, **kwargs: object) -> object:
        if blind:
            raise OSError(errno.EIO, "lost")
        return real_stat(*args, **kwargs)  # type: ignore[arg-type]

    for see_nothing in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, done_but_denied)
            patch.setattr(os, "stat", stat_or_not)
            outcome = fs.outcome("fs.write_text", path=f"{see_nothing}.md", text="new", overwrite=overwrite)
        blind = False
        assert (root / f"{see_nothing}.md").read_text() == "new"
        if see_nothing:
            assert isinstance(outcome, CapabilityError) and not isinstance(outcome, NotPerformed)
        else:
            assert not isinstance(outcome, CapabilityError)


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_text_is_on_the_disk_before_the_file_has_its_name_and_the_name_before_the_answer(
    fs: Desk, monkeypatch: pytest.MonkeyPatch, overwrite: bool, nameless: bool
) -> None:
    done: list[str] = []

    def noting(name: str) -> Callable[..., object]:
        real: Callable[..., object] = getattr(os, name)

        def noted(*args: object, **kwargs: object) -> object:
            what = name
            if name == "fsync" and isinstance(args[0], int):
                what = "fsync folder" if stat.S_ISDIR(os.fstat(args[0]).st_mode) else "fsync file"
            done.append(what)
            return real(*args, **kwargs)

        return noted

    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    for name in ("fsync", "link", "rename"):
        monkeypatch.setattr(os, name, noting(name))
    fs.call("fs.write_text", path="durable.md", text="x", overwrite=overwrite)
    naming = "link" if nameless and not overwrite and hasattr(os, "O_TMPFILE") else "rename"
    assert done == ["fsync file", naming, "fsync folder"]


def test_a_full_disk_in_the_middle_of_the_text_changes_nothing(root: Path, fs: Desk) -> None:
    import resource
    import signal

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))
        for overwrite in (True, False):
            name = "README.md" if overwrite else "new.md"
            error = fs.refusal("fs.write_text", path=name, text="x" * 100_000, overwrite=overwrite)
            assert error.code == "FS_FAILED"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    assert (root / "README.md").read_text() == "# Read me\n\nHello\n"
    assert sorted(path.name for path in root.iterdir()) == ["README.md", "docs"]


def test_two_writers_of_one_new_file_are_one_winner_and_one_told_so(root: Path, fs: Desk) -> None:
    import asyncio

    async def race() -> list[object]:
        writes = (fs.start("fs.write_text", {"path": "race.md", "text": f"{n}\n" * 1000}) for n in range(8))
        return list(await asyncio.gather(*writes, return_exceptions=True))

    outcomes = asyncio.run(race())
    refused = [item for item in outcomes if isinstance(item, NotPerformed)]
    assert [item.code for item in refused] == ["FS_EXISTS"] * 7
    content = (root / "race.md").read_text().split("\n")
    assert len(set(content)) == 2 and len(content) == 1001
    assert leftovers(root) == []


WRITER = """
import asyncio, sys
from tests.capabilities.support import desk
fs = desk(roots=[sys.argv[1]])
print("ready", flush=True)
while True:
    for letter in "ab":
        fs.outcome("fs.write_text", path="big.md", text=letter * 300_000, overwrite=True)
        fs.outcome("fs.write_text", path=f"new-{letter}.md", text=letter * 300_000)
"""


def test_a_writer_killed_at_any_moment_leaves_whole_files(root: Path, fs: Desk) -> None:
    import random
    import subprocess
    import sys

    chance = random.Random(7)
    for _ in range(6):
        for name in ("new-a.md", "new-b.md"):
            (root / name).unlink(missing_ok=True)
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(chance.uniform(0.02, 0.12))
        writer.kill()
        writer.wait()
        writer.stdout.close()
        for name in ("big.md", "new-a.md", "new-b.md"):
            if (root / name).exists():
                text = fs.call("fs.read_text", path=name)["text"]
                assert isinstance(text, str) and len(text) == 300_000 and len(set(text)) == 1
        assert all(".chaoscore-" not in str(path) for path in names(fs.call("fs.list", path=".")["entries"]))
