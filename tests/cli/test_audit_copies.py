"""Audits that are verified where nothing may be written, and checkpoints that are lost and accepted again."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.harness import Desk, needs_modes, needs_mount, only_read, without_powers

FILE = "chaoscore.db"


def remember(desk: Desk, *keys: str) -> None:
    for key in keys:
        done = desk.run("memory", "set", key, "v")
        assert done.code == 0, done.err


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def copy(desk: Desk, *, without: tuple[str, ...] = ()) -> Path:
    """A backup of the data directory in which nobody worked: no locks, no policy."""
    made = desk.place / "copy"
    made.mkdir()
    for name in {FILE, "audit.key", "audit.head"} - set(without):
        shutil.copy(desk.data / name, made / name)
    return made


def copy_while_written(desk: Desk, *, without: tuple[str, ...] = ()) -> Path:
    """A copy whose newest events stand in the log beside the database."""
    with sqlite3.connect(desk.data / FILE) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM audit").fetchone()  # keeps the log from being put into the database
        remember(desk, "k3", "k4")
        made = copy(desk, without=without)
        for end in {"-wal", "-shm"} - set(without):
            shutil.copy(desk.data / f"{FILE}{end}", made / f"{FILE}{end}")
    reader.close()
    return made


def verified(desk: Desk, place: Path, around: list[str]) -> tuple[int, dict[str, object]]:
    before = files(place)
    done = desk.run("audit", "verify", "--json", "--data-dir", str(place), around=around)
    assert files(place) == before, "something was made or changed"
    return done.code, done.json()


@needs_mount
def test_a_copy_on_a_read_only_file_system_is_verified_and_nothing_is_made_there(desk: Desk) -> None:
    remember(desk, "k1", "k2")
    made = copy(desk)
    code, answer = verified(desk, made, only_read(made))
    assert (code, answer["ok"], answer["events"], answer["unchecked"]) == (0, True, 2, [])
    said = desk.run("audit", "verify", "--data-dir", str(made), around=only_read(made))
    assert said.code == 0 and "the audit is whole: 2 events" in said.out


@needs_mount
@pytest.mark.parametrize("without", [(), ("-shm",)], ids=["with its shared memory", "without it"])
def test_the_log_of_a_copy_is_verified_too(without: tuple[str, ...], desk: Desk) -> None:
    remember(desk, "k1", "k2")
    made = copy_while_written(desk, without=without)
    code, answer = verified(desk, made, only_read(made))
    assert (code, answer["events"], answer["fault"]) == (0, 4, None)


@needs_mount
def test_a_log_that_was_left_out_of_a_copy_is_found_missing(desk: Desk) -> None:
    remember(desk, "k1", "k2")
    made = copy_while_written(desk, without=("-wal", "-shm"))
    code, answer = verified(desk, made, only_read(made))
    assert code == 1 and "cut off: it ends at 2, the checkpoint knows 4" in str(answer["fault"])


@needs_modes
def test_a_copy_that_this_user_may_only_read_is_verified(desk: Desk) -> None:
    remember(desk, "k1", "k2")
    made = copy(desk)
    for path in made.iterdir():
        path.chmod(0o400)
    made.chmod(0o500)
    try:
        code, answer = verified(desk, made, without_powers())
    finally:
        made.chmod(0o700)
    assert (code, answer["events"]) == (0, 2)


@needs_mount
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("audit.key", "whether any event was altered"),
        ("audit.head", "whether events were cut off at the end"),
    ],
)
def test_what_a_copy_leaves_unchecked_is_named(name: str, says: str, desk: Desk) -> None:
    remember(desk, "k1", "k2")
    made = copy(desk, without=(name,))
    code, answer = verified(desk, made, only_read(made))
    gaps = answer["unchecked"]
    assert isinstance(gaps, list)
    (gap,) = gaps
    assert code == 1 and answer["ok"] is False and answer["fault"] is None and answer["events"] == 2
    assert says in str(gap) and name in str(gap) and "missing" in str(gap)
    said = desk.run("audit", "verify", "--data-dir", str(made), around=only_read(made))
    assert says in said.err and "not whole" not in said.err


@needs_mount
def test_an_altered_event_is_found_in_a_copy_that_can_only_be_read(desk: Desk) -> None:
    remember(desk, "k1", "k2")
    made = copy(desk)
    behind_the_back(made, "UPDATE audit SET body = replace(body, 'k1', 'k7') WHERE seq = 1")
    code, answer = verified(desk, made, only_read(made))
    assert code == 1 and answer["at"] == 1 and "altered" in str(answer["fault"])


def test_verifying_begins_nothing(desk: Desk) -> None:
    for place in (desk.data, desk.work):
        done = desk.run("audit", "verify", "--data-dir", str(place))
        assert done.code == 1 and "there is no audit" in done.err
    assert not desk.data.exists() and not files(desk.work)


# -- a checkpoint that is lost ---------------------------------------------------------------------------------------


def behind_the_back(place: Path, statement: str) -> None:
    with sqlite3.connect(place / FILE) as database:
        for (guard,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {guard}")
        database.execute(statement)
    database.close()


def deleted(desk: Desk) -> None:
    (desk.data / "audit.head").unlink()


def overwritten(desk: Desk) -> None:
    (desk.data / "audit.head").write_text("nothing " * 40)


def older_database(desk: Desk) -> None:
    shutil.copy(desk.data / FILE, desk.place / "older")
    remember(desk, "k3", "k4")
    shutil.copy(desk.place / "older", desk.data / FILE)


def another_chain(desk: Desk) -> None:
    older_database(desk)
    remember(desk, "other3", "other4", "other5")


LOST: list[tuple[Callable[[Desk], None], str, str]] = [
    (deleted, "missing", "audit.head is missing"),
    (overwritten, "malformed", "audit.head is no checkpoint"),
    (older_database, "ahead", "the audit ends at event 2, the checkpoint knows 4: 2 events at its end went missing"),
    (another_chain, "differs", "event 4 is another one than the checkpoint knows"),
]


@pytest.mark.parametrize(("lose", "state", "says"), LOST, ids=[state for _, state, _ in LOST])
def test_a_lost_checkpoint_is_explained_and_accepted_only_when_told_to(
    lose: Callable[[Desk], None], state: str, says: str, desk: Desk
) -> None:
    remember(desk, "k1", "k2")
    lose(desk)
    assert desk.run("audit", "verify").code == 1
    before = files(desk.data)
    asked = desk.run("audit", "accept-head")
    assert asked.code == 1 and says in asked.err and "--accept" in asked.err and asked.out == ""
    assert files(desk.data) == before
    accepted = desk.run("audit", "accept-head", "--accept", "--json").json()
    assert accepted["checkpoint"] == state
    newest = desk.run("audit", "tail", "--json").json()["events"][0]
    assert newest["kind"] == "audit-head-accepted" and newest["seq"] == accepted["accepted"]["seq"]
    assert newest["data"]["checkpoint"] == state
    assert newest["data"]["approver"] == newest["principal"] == f"local:{os.getuid()}"
    assert (newest["data"]["kept"] is None) == (state in ("missing", "malformed"))
    assert desk.run("audit", "verify").code == 0
    remember(desk, "later")
    again = desk.run("audit", "verify", "--json").json()
    assert again["ok"] is True and again["head"]["seq"] == accepted["accepted"]["seq"] + 1
    behind_the_back(desk.data, f"DELETE FROM audit WHERE seq = {again['head']['seq']}")
    assert "cut off" in desk.run("audit", "verify").err, "the new checkpoint keeps nothing"


def test_a_checkpoint_that_fits_is_left_alone(desk: Desk) -> None:
    remember(desk, "k1")
    before = files(desk.data)
    done = desk.run("audit", "accept-head", "--accept")
    assert done.code == 0 and "nothing to accept" in done.out
    assert files(desk.data) == before


@pytest.mark.parametrize("fault", ["altered", "key"])
def test_what_a_checkpoint_cannot_mend_is_not_accepted(fault: str, desk: Desk) -> None:
    remember(desk, "k1", "k2")
    deleted(desk)
    if fault == "altered":
        behind_the_back(desk.data, "UPDATE audit SET body = replace(body, 'k1', 'k7') WHERE seq = 1")
    else:
        (desk.data / "audit.key").unlink()
    before = files(desk.data)
    done = desk.run("audit", "accept-head", "--accept", "--json")
    assert done.code == 1 and done.json()["accepted"] is None and "does not hold" in done.err
    assert files(desk.data) == before and not (desk.data / "audit.head").exists()


def test_accepting_tells_its_json_reader_what_it_only_explained(desk: Desk) -> None:
    remember(desk, "k1")
    deleted(desk)
    done = desk.run("audit", "accept-head", "--json")
    assert done.code == 1
    answer = json.loads(done.out)
    assert answer["accepted"] is None and answer["checkpoint"] == "missing" and answer["unchecked"]
