"""Which files ``fs.*`` may touch, decided on the file that is opened, never on the text of a path alone.

The three capabilities stand above it; the operating system's ``openat`` below. Every operation walks from ``/`` one
name at a time with ``O_NOFOLLOW``, relative to the folder already open: no symbolic link is followed anywhere, and
whoever swaps a folder for a link meanwhile changes nothing about the folder that is open. Each folder passed, and the
file at the end, is compared by identity (device and inode) with what is protected, so other spellings of a protected
path (case, mounts) meet the same refusal.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from chaoscore.adapters.capabilities.fs.names import PATH_CHARS_MAX, folded, name_fault, protected_name
from chaoscore.domain.errors import ConfigurationInvalid, NotPerformed

NO_ROOT = "FS_NO_ROOT"
PATH_REFUSED = "FS_PATH_REFUSED"
NOT_FOUND = "FS_NOT_FOUND"
WRONG_KIND = "FS_WRONG_KIND"
FAILED = "FS_FAILED"

_PASS_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_LIST_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_RDONLY
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NO_ROOT = (
    "no folder is open to fs.*; the operator allows one with CHAOS_CORE_FS_ROOTS=/path/to/folder, "
    "or for one goal with: chaoscore achieve --root DIR"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A path as read: the root it lies in, the names below that root, and how it is written in results.

    ``shown`` means the same file when it is given back: relative below the first root, absolute below any other.
    """

    root: str
    names: tuple[str, ...]
    shown: str

    @property
    def protected(self) -> str | None:
        """What makes this a path that is never touched; the root's own names count too."""
        return protected_name((*_split(self.root), *self.names))

    def protected_here(self) -> str | None:
        """``protected`` for a place whose parent is not."""
        return protected_name((*_split(self.root)[-1:], *self.names)[-2:])

    def child(self, name: str) -> Place:
        shown = name if self.shown == "." else f"{self.shown}/{name}"
        return Place(self.root, (*self.names, name), shown)


@dataclass(frozen=True, slots=True)
class Guard:
    """What is protected, by identity: ``identities`` are files and folders that exist, ``entries`` are names in a
    folder, there or not: a policy file that does not exist yet must not be written by a plan."""

    identities: frozenset[tuple[int, int]]
    entries: frozenset[tuple[int, int, str]]

    def covers(self, folder: os.stat_result, name: str, found: os.stat_result | None) -> bool:
        if (folder.st_dev, folder.st_ino, folded(name)) in self.entries:
            return True
        return found is not None and (found.st_dev, found.st_ino) in self.identities


class Confinement:
    """The operator's folders and what is protected even inside them. All methods block: call them in a thread.

    ``roots`` are folders that exist; ``protected`` are paths of files and folders (the data directory, a policy file)
    that need not exist. Raises ``ConfigurationInvalid`` for a root that is not a folder, is ``/``, or is protected.
    """

    def __init__(self, roots: Sequence[str] = (), protected: Sequence[str] = ()) -> None:
        self._protected = tuple(os.path.abspath(path) for path in protected)
        self._spellings: list[tuple[tuple[str, ...], str]] = []
        self.roots = tuple(dict.fromkeys(self._root(path) for path in roots))

    def _root(self, path: str) -> str:
        spelled, real = os.path.abspath(path), os.path.realpath(path)
        names = _split(real)
        if not os.path.isdir(real):
            raise ConfigurationInvalid(f"the fs root {path!r} is not a folder; create it or name another", root=path)
        if not names:
            raise ConfigurationInvalid("the fs root '/' is everything; name the folders that are meant", root=path)
        why = protected_name(names)
        if why is None and any(_inside(names, _split(os.path.realpath(item))) for item in self._protected):
            why = "the data directory or a policy file"
        if why is not None:
            raise ConfigurationInvalid(f"the fs root {path!r} lies in {why}, which fs.* never touches", root=path)
        self._spellings += [(names, real), (_split(spelled), real)]
        return real

    # -- reading a path --------------------------------------------------------------------------------------

    def locate(self, path: str) -> Place:
        """Where a path lies; touches no file. Raises ``NotPerformed`` for one outside every root or with a name that
        is never touched."""
        if not self.roots:
            raise NotPerformed(_NO_ROOT, code=NO_ROOT)
        if len(path) > PATH_CHARS_MAX:
            raise NotPerformed(f"the path has {len(path)} characters, at most {PATH_CHARS_MAX}", code=PATH_REFUSED)
        names = _split(path)
        fault = next((fault for name in names if (fault := name_fault(name))), None)
        if fault is not None:
            raise refused(path, fault)
        if path.startswith("/"):
            root, names = self._root_of(path, names)
        else:
            root = self.roots[0]
        below = "/".join(names) or "."
        place = Place(root, names, below if root == self.roots[0] else os.path.join(root, *names))
        if place.protected is not None:
            raise refused(path, f"it is {place.protected}, which is never touched")
        return place

    def _root_of(self, path: str, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        for spelling, root in self._spellings:
            if _inside(names, spelling):
                return root, names[len(spelling) :]
        raise refused(path, f"it lies outside the folders that are open: {', '.join(self.roots)}")

    # -- opening ---------------------------------------------------------------------------------------------

    def guard(self) -> Guard:
        """What is protected as it is on the disk now."""
        identities: set[tuple[int, int]] = set()
        entries: set[tuple[int, int, str]] = set()
        for path in self._protected:
            for spelling in {path, os.path.realpath(path)}:
                parent = _stat(os.path.dirname(spelling))
                if parent is not None:
                    entries.add((parent.st_dev, parent.st_ino, folded(os.path.basename(spelling))))
            found = _stat(path)
            if found is not None:
                identities.add((found.st_dev, found.st_ino))
        return Guard(frozenset(identities), frozenset(entries))

    @contextmanager
    def folder(self, place: Place, guard: Guard) -> Iterator[int]:
        """A descriptor of the folder at ``place``, good for listing, and as ``dir_fd``. Raises ``NotPerformed``."""
        with reported(place):
            held = os.open("/", _PASS_FLAGS)
            try:
                for name in (*_split(place.root), *place.names):
                    inner = open_inside(held, name, place, guard, _PASS_FLAGS)
                    os.close(held)
                    held = inner
                listing = os.open(".", _LIST_FLAGS, dir_fd=held)
            finally:
                os.close(held)
        try:
            yield listing
        finally:
            os.close(listing)

    def read(self, place: Place, bytes_max: int) -> bytes | None:
        """The content of a regular file, ``None`` when it has more than ``bytes_max`` bytes. Raises ``NotPerformed``.

        A file with several names (hard links) is refused: another name of it may lie outside every root.
        """
        guard = self.guard()
        if not place.names:
            raise wrong_kind(place, "a folder")
        parent, name = Place(place.root, place.names[:-1], place.shown), place.names[-1]
        with self.folder(parent, guard) as folder, reported(place):
            # Asked before opening: opening a device can already do something.
            require_readable(place, os.stat(name, dir_fd=folder, follow_symlinks=False))
            descriptor = os.open(name, _READ_FLAGS, dir_fd=folder)
            with open(descriptor, "rb", buffering=0) as file:
                info = os.fstat(descriptor)
                require_readable(place, info)
                if guard.covers(os.fstat(folder), name, info):
                    raise refused(place.shown, "it is the data directory or a policy file, which is never touched")
                return _read_at_most(file.read, bytes_max)


def open_inside(held: int, name: str, place: Place, guard: Guard, flags: int = _LIST_FLAGS) -> int:
    """A descriptor of the folder ``name`` in the folder ``held``. Raises ``NotPerformed`` for everything else."""
    try:
        inner = os.open(name, flags, dir_fd=held)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise wrong_kind(place, _kind_of(held, name)) from None
        raise failed(place, error) from None
    try:
        covered = guard.covers(os.fstat(held), name, os.fstat(inner))
    except OSError as error:
        os.close(inner)
        raise failed(place, error) from None
    if covered:
        os.close(inner)
        raise refused(place.shown, "it leads into the data directory, which is never touched")
    return inner


def require_readable(place: Place, info: os.stat_result) -> None:
    """Raises ``NotPerformed`` for what is not a regular file with one name."""
    if not stat.S_ISREG(info.st_mode):
        raise wrong_kind(place, kind_words(info.st_mode))
    if info.st_nlink > 1:
        why = f"it has {info.st_nlink} names (hard links), and another one may lie outside; make a copy"
        raise refused(place.shown, why)


def kind_words(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link, which is never followed"
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a file" if stat.S_ISREG(mode) else "a device, a pipe or a socket"


def refused(path: str, why: str) -> NotPerformed:
    return NotPerformed(f"the path {path[:300]!r} is refused: {why}", code=PATH_REFUSED)


def wrong_kind(place: Place, kind: str) -> NotPerformed:
    return NotPerformed(f"{place.shown!r} is, or leads through, {kind}", code=WRONG_KIND)


def failed(place: Place, error: OSError) -> NotPerformed:
    """The operating system's refusal before anything was changed."""
    if error.errno == errno.ENOENT:
        return NotPerformed(f"{place.shown!r} does not exist; fs.list shows what does", code=NOT_FOUND)
    if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENXIO):
        return wrong_kind(place, "something other than a plain file")
    reason = os.strerror(error.errno).lower() if error.errno else "unknown error"
    return NotPerformed(f"{place.shown!r} cannot be used: {reason}", code=FAILED)


@contextmanager
def reported(place: Place) -> Iterator[None]:
    """Turns the operating system's refusals into ours. Only around what changes nothing."""
    try:
        yield
    except OSError as error:
        raise failed(place, error) from None


def _read_at_most(read: Callable[[int], bytes | None], bytes_max: int) -> bytes | None:
    content = bytearray()
    while chunk := read(min(1_048_576, bytes_max + 1 - len(content))):
        content += chunk
        if len(content) > bytes_max:
            return None
    return bytes(content)


def _kind_of(folder: int, name: str) -> str:
    try:
        return kind_words(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return "something other than a folder"


def _split(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name not in ("", "."))


def _inside(names: Sequence[str], outer: Sequence[str]) -> bool:
    return tuple(names[: len(outer)]) == tuple(outer)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
