"""Every write of the SQLite stores, failed at each of its calls to SQLite and to the disk.

After a crash the directory says what it said before or what it says after, whole either way, and the next process goes
on. After an error the caller was told of, it says what it said before; the next call works once the fault is over.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaoscore.domain.errors import StorageError
from chaoscore.testing.faults import Crash, FaultInjector, When, fault_points
from tests.faults.sqlite_points import FILE, OPERATIONS, Mortal, heal_and_go_on, open_world, prepare, state

State = dict[str, list[tuple[object, ...]]]
MEMORY_DISK = Path("/dev/shm")


# What is tried here is where a call fails, not whether the disk keeps its word: without a disk it takes seconds.
@pytest.fixture(scope="module")
def quick() -> Iterator[Path]:
    base = MEMORY_DISK if MEMORY_DISK.is_dir() and os.access(MEMORY_DISK, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="chaoscore-faults-", dir=base) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def template(quick: Path) -> Path:
    directory = quick / "template"
    asyncio.run(prepare(directory))
    return directory


def copy_of(template: Path, where: Path) -> Path:
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(template, where)
    return where


async def outcome(directory: Path, name: str, injector: FaultInjector, again: bool = False) -> BaseException | None:
    """Do the operation under the injector. ``again`` repeats it in the same process, with the fault over."""
    injector.armed = False
    mortal = Mortal()
    world = await open_world(directory, injector, mortal)
    try:
        injector.armed = True
        error: BaseException | None = None
        try:
            await OPERATIONS[name](world)
        except (Crash, StorageError) as caught:
            error = caught
        injector.armed = False
        if again and error is not None:
            await OPERATIONS[name](world)
        return error
    finally:
        injector.armed = False
        await world.stores.close()
        mortal.die()


def _differ(one: State, other: State) -> list[str]:
    """The tables that differ: whole tables would make a message that nobody can read."""
    return [name for name in one if one[name] != other[name]]


def done(template: Path, quick: Path, name: str) -> State:
    directory = copy_of(template, quick / "done")
    assert asyncio.run(outcome(directory, name, FaultInjector())) is None
    return state(directory)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_crash_at_any_point_leaves_the_old_state_or_the_new_one(
    template: Path, quick: Path, name: str, when: When
) -> None:
    before, after = state(template), done(template, quick, name)
    assert _differ(before, after)
    seen: list[bool] = []
    for number in fault_points():
        injector = FaultInjector(number, lasting=True, when=when)
        directory = copy_of(template, quick / "data")
        error = asyncio.run(outcome(directory, name, injector))
        if not injector.fired:
            assert error is None
            break
        now = state(directory)
        known = now in (before, after)
        assert known, f"half done after a crash at {injector.calls[number - 1]}"
        seen.append(now == after)
        assert isinstance(error, Crash) or seen[-1], "told that it was done, and it was not"
        asyncio.run(heal_and_go_on(directory))
    assert seen and not seen[0], "a crash before anything was done must have done nothing"


def io_error(name: str) -> Exception:
    if name.startswith("connect"):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_IOERR_WRITE, "SQLITE_IOERR_WRITE"
        return error
    return OSError(errno.EIO, "Input/output error")


def no_space(name: str) -> Exception:
    if name.startswith("connect"):
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_FULL, "SQLITE_FULL"
        return error
    return OSError(errno.ENOSPC, "No space left on device")


FAULTS: dict[str, tuple[Callable[[str], Exception], str]] = {
    "IO_ERROR": (io_error, "IO_ERROR"),
    "NO_SPACE": (no_space, "NO_SPACE"),
}


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("kind", list(FAULTS))
@pytest.mark.parametrize("name", list(OPERATIONS))
def test_an_error_at_any_point_is_told_and_leaves_the_old_state(
    template: Path, quick: Path, name: str, kind: str, lasting: bool
) -> None:
    before, after = state(template), done(template, quick, name)
    fault, code = FAULTS[kind]
    failed = 0
    for number in fault_points():
        injector = FaultInjector(number, fault=fault, lasting=lasting)
        directory = copy_of(template, quick / "data")
        error = asyncio.run(outcome(directory, name, injector))
        if not injector.fired:
            assert error is None
            break
        now = state(directory)
        if error is None:
            assert not _differ(now, after), f"told that it was done, and it was not: {injector.calls[number - 1]}"
            continue
        failed += 1
        assert isinstance(error, StorageError) and error.code == code, (error, injector.calls[number - 1])
        assert str(directory) in str(error)
        assert not _differ(now, before), f"told that it failed, and it did not: {injector.calls[number - 1]}"
        injector = FaultInjector(number, fault=fault, lasting=lasting)
        directory = copy_of(template, quick / "data")
        asyncio.run(outcome(directory, name, injector, again=True))
        assert not _differ(state(directory), after), f"the next call did not work after {injector.calls[number - 1]}"
    assert failed >= 3


async def opening(directory: Path, injector: FaultInjector, kind: type[BaseException]) -> BaseException | None:
    """Open a directory that is not there yet."""
    mortal = Mortal()
    try:
        world = await open_world(directory, injector, mortal)
        injector.armed = False
        await world.stores.close()
    except kind as error:
        return error
    finally:
        mortal.die()
    return None


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_point_of_making_a_directory_leaves_one_that_can_be_used(quick: Path, when: When) -> None:
    for number in fault_points():
        directory = quick / "data"
        shutil.rmtree(directory, ignore_errors=True)
        injector = FaultInjector(number, lasting=True, when=when)

        asyncio.run(opening(directory, injector, Crash))
        if not injector.fired:
            break
        asyncio.run(heal_and_go_on(directory))
        shutil.rmtree(directory)
    assert (quick / "data" / FILE).exists()


def test_an_error_while_making_a_directory_is_told_and_the_next_try_works(quick: Path) -> None:
    for number in fault_points():
        directory = quick / "data"
        shutil.rmtree(directory, ignore_errors=True)
        injector = FaultInjector(number, fault=io_error)

        error = asyncio.run(opening(directory, injector, StorageError))
        if isinstance(error, StorageError):
            assert error.code == "IO_ERROR" and str(directory) in str(error), error
        if not injector.fired:
            break
        asyncio.run(heal_and_go_on(directory))
