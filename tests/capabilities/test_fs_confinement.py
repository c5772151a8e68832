"""Nothing outside the operator's folders is ever read or changed, and nothing protected inside them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoscore.domain.errors import CapabilityError, NotPerformed
from chaoscore.domain.json import Json
from tests.capabilities.support import Desk, desk, names

SECRET = "SECRET-OUTSIDE"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An open folder ``root`` beside a closed one ``outside``; data directory and policy inside the open one."""
    build(tmp_path)
    return tmp_path


def build(home: Path) -> None:
    for folder in ("root/docs", "root/.git", "root/.chaos/interactions/active", "root/data/inner", "outside/docs"):
        (home / folder).mkdir(parents=True)
    (home / "root/docs/a.md").write_text("inside")
    for name in (
        "outside/secret.md",
        "outside/docs/a.md",
        "outside/docs/secret.md",
        "root/.git/config",
        "root/.env",
        "root/.env.local",
        "root/docs/.env",
        "root/.chaos/interactions/active/s.json",
        "root/data/chaos.db",
        "root/data/inner/key",
        "root/policy.json",
    ):
        (home / name).write_text(SECRET)


def open_desk(home: Path) -> Desk:
    return desk(
        roots=[home / "root"], protected=[home / "root/data", home / "root/policy.json", home / "root/later.json"]
    )


def outside_state(home: Path) -> dict[str, str]:
    """Everything that must stay as it is: what lies outside, and what is protected."""
    state = {}
    for top in ("outside", "root/.git", "root/.chaos/interactions", "root/data"):
        for path in sorted((home / top).rglob("*")):
            state[str(path.relative_to(home))] = path.read_text() if path.is_file() else "folder"
    for name in ("root/policy.json", "root/.env", "root/.env.local", "root/docs/.env"):
        state[name] = (home / name).read_text()
    state["later"] = str((home / "root/later.json").exists())
    return state


def contents(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() if path.is_file() else "folder" for path in sorted(folder.rglob("*"))}


PROTECTED = [
    "data/chaos.db",
    "data/inner/key",
    "data",
    "DATA/chaos.db",
    "policy.json",
    "Policy.JSON",
    "later.json",
    ".env",
    ".ENV",
    ".env.local",
    ".envrc",
    "docs/.env",
    ".\u200denv",
    "\uff0eenv",
    ".env/x",
    ".git",
    ".git/config",
    ".GIT/config",
    ".gi\u200ct/config",
    "git~1/config",
    ".git./config",
    ".git /config",
    ".git::$INDEX_ALLOCATION/config",
    "docs/.git/hooks",
    ".chaos/interactions",
    ".chaos/interactions/active/s.json",
    ".CHAOS/Interactions/x",
    "docs/.chaos/interactions/x",
]


@pytest.mark.parametrize("path", PROTECTED)
def test_what_is_protected_is_never_touched_even_inside_a_root(home: Path, path: str) -> None:
    fs, before = open_desk(home), outside_state(home)
    for spelling in (path, f"./{path}", f"{home}/root/{path}"):
        for attempt in (
            fs.refusal("fs.read_text", path=spelling),
            fs.refusal("fs.list", path=spelling),
            fs.refusal("fs.write_text", path=spelling, text="x", overwrite=True),
            fs.refusal("fs.write_text", path=spelling, text="x"),
        ):
            assert SECRET not in attempt.message
    assert outside_state(home) == before


def test_names_that_only_look_similar_are_free(home: Path) -> None:
    fs = open_desk(home)
    for path in (".gitignore", "env", "docs/git", ".chaos/notes", "interactions", "data.json", "policy.json.md"):
        fs.call("fs.write_text", path=path, text="x")
        assert fs.call("fs.read_text", path=path)["text"] == "x"


def test_a_listing_shows_nothing_that_is_protected_and_counts_it(home: Path) -> None:
    output = open_desk(home).call("fs.list", path=".", recursive=True)
    assert names(output["entries"]) == [".chaos", "docs", "docs/a.md"]
    assert output["skipped"] == 7  # .env, .env.local, .git, data, policy.json, docs/.env, .chaos/interactions


def test_a_root_above_an_interactions_folder_does_not_open_it(home: Path) -> None:
    fs = desk(roots=[home / "root/.chaos"])
    assert fs.call("fs.list", path=".", recursive=True) == {"entries": [], "skipped": 1}
    assert fs.refusal("fs.read_text", path="interactions/active/s.json").code == "FS_PATH_REFUSED"


def test_the_data_directory_is_known_by_identity_however_it_is_reached(home: Path) -> None:
    (home / "alias").symlink_to(home / "root/data")
    fs = desk(roots=[home / "root"], protected=[home / "alias"])
    assert fs.refusal("fs.read_text", path="data/chaos.db").code == "FS_PATH_REFUSED"
    os.rename(home / "root/data", home / "root/renamed")
    os.unlink(home / "alias")
    (home / "alias").symlink_to(home / "root/renamed")
    assert fs.refusal("fs.read_text", path="renamed/chaos.db").code == "FS_PATH_REFUSED"


@pytest.mark.parametrize(
    "target", ["../outside", "../outside/secret.md", "{home}/outside", "docs", "docs/a.md", "/etc/passwd"]
)
def test_no_symbolic_link_is_followed_wherever_it_points(home: Path, target: str) -> None:
    fs, before = open_desk(home), outside_state(home)
    (home / "root/link").symlink_to(target.format(home=home))
    for path in ("link", "link/secret.md", "link/a.md", "link/docs/a.md"):
        assert fs.refusal("fs.read_text", path=path).code == "FS_WRONG_KIND"
        assert fs.refusal("fs.list", path=path).code == "FS_WRONG_KIND"
        assert fs.refusal("fs.write_text", path=path, text="x", overwrite=True).code == "FS_WRONG_KIND"
        assert fs.refusal("fs.write_text", path=path, text="x").code == "FS_WRONG_KIND"
    assert "link" not in names(fs.call("fs.list", path=".")["entries"])
    assert outside_state(home) == before
    assert (home / "root/link").is_symlink()


def test_a_dangling_link_is_not_a_free_name(home: Path) -> None:
    (home / "root/dangling").symlink_to(home / "outside/new.md")
    assert open_desk(home).refusal("fs.write_text", path="dangling", text="x").code == "FS_WRONG_KIND"
    assert not (home / "outside/new.md").exists()


@pytest.mark.parametrize("target", ["outside/secret.md", "root/data/chaos.db", "root/policy.json", "root/.env"])
def test_a_second_name_of_a_file_outside_cannot_be_read(home: Path, target: str) -> None:
    fs = open_desk(home)
    os.link(home / target, home / "root/innocent.md")
    error = fs.refusal("fs.read_text", path="innocent.md")
    assert (error.code, "hard link" in error.message, SECRET in error.message) == ("FS_PATH_REFUSED", True, False)
    assert "innocent.md" not in names(fs.call("fs.list", path=".")["entries"])
    fs.outcome("fs.write_text", path="innocent.md", text="x", overwrite=True)  # may take the name, not the file
    assert (home / target).read_text() == SECRET


def test_a_root_that_becomes_a_link_is_closed(home: Path) -> None:
    fs = open_desk(home)
    os.rename(home / "root", home / "moved")
    (home / "root").symlink_to(home / "outside")
    assert fs.refusal("fs.read_text", path="secret.md").code == "FS_WRONG_KIND"
    assert fs.refusal("fs.write_text", path="new.md", text="x").code == "FS_WRONG_KIND"


def test_a_folder_above_a_root_that_becomes_a_link_leads_nowhere(home: Path) -> None:
    fs = desk(roots=[home / "root", home / "root/docs"])
    os.rename(home / "root/docs", home / "root/moved")
    (home / "root/docs").symlink_to(home / "outside/docs")
    assert fs.refusal("fs.read_text", path=str(home / "root/docs/a.md")).code == "FS_WRONG_KIND"


# -- properties ------------------------------------------------------------------------------------------------

_NAME = st.sampled_from(
    ["a", "b", "docs", "..", ".", "", "link", ".env", ".git", "data", "secret.md", "a.md", "é", "A"]
)
_PATH = st.tuples(
    st.sampled_from(["", "/", "{home}/root/", "{home}/outside/"]), st.lists(_NAME, min_size=1, max_size=6)
).map(lambda parts: parts[0] + "/".join(parts[1]))
_LINK = st.tuples(
    st.sampled_from(["a", "b", "docs/b", "docs/link", "link", "docs/a"]),
    st.sampled_from(
        ["..", "../outside", "../../outside", ".", "docs", "{home}/outside/secret.md", "a", "data", ".git", "/"]
    ),
    st.booleans(),
)


@settings(max_examples=80, deadline=None)
@given(links=st.lists(_LINK, max_size=5), paths=st.lists(_PATH, min_size=1, max_size=6))
def test_no_path_in_no_tree_of_links_leads_outside(links: list[tuple[str, str, bool]], paths: list[str]) -> None:
    with TemporaryDirectory() as folder:
        home = Path(os.path.realpath(folder))
        build(home)
        for name, target, hard in links:
            with suppress(OSError):
                if hard:
                    os.link(target.format(home=home), home / "root" / name)
                else:
                    os.symlink(target.format(home=home), home / "root" / name)
        fs, before = open_desk(home), outside_state(home)
        for path in paths:
            spelled = path.format(home=home)
            read = fs.outcome("fs.read_text", path=spelled) if spelled else None
            assert isinstance(read, NotPerformed | None) or SECRET not in str(read)
            listed = fs.outcome("fs.list", path=spelled, recursive=True) if spelled else None
            if listed is not None and not isinstance(listed, CapabilityError):
                for entry in names(listed["entries"]):
                    assert os.path.realpath(home / "root" / str(entry)) == str(home / "root" / str(entry))
            if spelled:
                fs.outcome("fs.write_text", path=spelled, text="written", overwrite=True)
        assert outside_state(home) == before


@contextmanager
def swapping(folder: Path, outside: Path) -> Iterator[None]:
    """As long as this lasts, ``folder`` is now itself, now a link to ``outside``, as fast as the system can."""
    stop = threading.Event()
    aside = folder.with_name("aside")

    def swap() -> None:
        while not stop.is_set():
            os.rename(folder, aside)
            with suppress(FileExistsError):  # a writer took the name meanwhile
                os.symlink(outside, folder)
            os.unlink(folder)
            os.rename(aside, folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_folder_swapped_for_a_link_during_the_work_never_leads_outside(home: Path) -> None:
    fs, before = open_desk(home), outside_state(home)
    reads = writes = refusals = 0
    with swapping(home / "root/docs", home / "outside/docs"):
        # On until some attempts met the folder and some the link: then the race took place.
        for number in range(20_000):
            if number >= 150 and reads and writes and refusals:
                break
            read = fs.outcome("fs.read_text", path="docs/a.md")
            if isinstance(read, CapabilityError):
                refusals += 1
            else:
                assert read["text"] == "inside"
                reads += 1
            listed = fs.outcome("fs.list", path=".", recursive=True)
            assert isinstance(listed, CapabilityError) or "secret.md" not in str(listed)
            written = fs.outcome(
                "fs.write_text", path=f"docs/new-{number % 7}.md", text="mine", overwrite=number % 2 == 0
            )
            writes += not isinstance(written, CapabilityError)
    assert outside_state(home) == before
    assert reads and writes and refusals


def test_a_file_swapped_for_a_link_during_the_work_is_never_read_through(home: Path) -> None:
    fs, before = open_desk(home), outside_state(home)
    inside = 0
    with swapping(home / "root/docs/a.md", home / "outside/docs/a.md"):
        for number in range(20_000):
            if number >= 150 and inside:
                break
            read = fs.outcome("fs.read_text", path="docs/a.md")
            if not isinstance(read, CapabilityError):
                assert read["text"] == "inside"
                inside += 1
    assert inside
    with swapping(home / "root/docs/a.md", home / "outside/docs/a.md"):
        for _ in range(80):
            fs.outcome("fs.write_text", path="docs/a.md", text="inside", overwrite=True)
    assert outside_state(home) == before


SYSTEM_CALLS = ("open", "stat", "fstat", "scandir", "link", "rename")


@contextmanager
def swapped_after_call(number: int, place: Path, target: Path) -> Iterator[list[bool]]:
    """After the nth system call of the work, ``place`` is a link to ``target``: every moment of a race, one by one."""
    real = {name: getattr(os, name) for name in SYSTEM_CALLS}
    seen, swapped = 0, [False]

    def counting(name: str) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            nonlocal seen
            try:
                return real[name](*args, **kwargs)
            finally:
                seen += 1
                if seen == number:
                    swapped[0] = True
                    real["rename"](place, place.with_name("aside"))
                    os.symlink(target, place)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in SYSTEM_CALLS:
            patch.setattr(os, name, counting(name))
        yield swapped


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ("root", "outside"),
        ("root/docs", "outside/docs"),
        ("root/docs/a.md", "outside/docs/a.md"),
        ("root/docs", "root/data"),
        ("root/docs/a.md", "root/policy.json"),
    ],
)
@pytest.mark.parametrize("nameless", [True, False])
def test_a_swap_after_any_system_call_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, target: str, nameless: bool
) -> None:
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    calls: dict[str, tuple[str, dict[str, Json]]] = {
        "read": ("fs.read_text", {"path": "docs/a.md"}),
        "list": ("fs.list", {"path": ".", "recursive": True}),
        "create": ("fs.write_text", {"path": "docs/new.md", "text": "mine"}),
        "replace": ("fs.write_text", {"path": "docs/a.md", "text": "mine", "overwrite": True}),
    }
    for what, (name, arguments) in calls.items():
        for number in range(1, 200):
            home = tmp_path / f"{what}-{number}"
            build(home)
            fs = open_desk(home)
            closed = [home / "outside"] if place == "root" else [home / "outside", home / "root/data"]
            before = [contents(folder) for folder in closed]
            with swapped_after_call(number, home / place, home / target) as swapped:
                outcome = fs.outcome(name, **arguments)
            assert SECRET not in str(outcome)
            assert "secret.md" not in str(outcome) and "chaos.db" not in str(outcome)
            assert [contents(folder) for folder in closed] == before
            if not swapped[0]:
                break
        else:
            raise AssertionError("the work makes system calls without end")


def test_it_holds_no_descriptor_after_success_or_failure(home: Path) -> None:
    fs = open_desk(home)
    (home / "root/link").symlink_to("../outside")

    def everything() -> None:
        for path in ("docs/a.md", "docs", "missing/x", "link/x", "data/chaos.db", ".env", "docs/a.md/x", "/etc/passwd"):
            fs.outcome("fs.read_text", path=path)
            fs.outcome("fs.list", path=path, recursive=True)
            fs.outcome("fs.write_text", path=path, text="x", overwrite=True)

    everything()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(5):
        everything()
    assert (len(os.listdir("/proc/self/fd")) if before else 0) <= before
