"""``fs.write_text``: one text file, whole or not at all.

The gate stands above it, ``confine`` below. The text goes to a nameless or temporary file in the same folder, to the
disk, and only then gets its name: a reader, a crash or a full disk never sees half a file. Without ``overwrite`` the
name is taken only if it is free at that moment.

It is not idempotent: repeated without ``overwrite`` it fails although it worked, repeated with it after a crash it may
replace what somebody wrote since. So a lost outcome is a person's question.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from io import FileIO

from chaoscore.adapters.capabilities.fs.confine import (
    Confinement,
    Place,
    failed,
    kind_words,
    refused,
    reported,
    wrong_kind,
)
from chaoscore.adapters.capabilities.fs.names import PATH_CHARS_MAX, TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from chaoscore.adapters.capabilities.fs.options import FsOptions
from chaoscore.adapters.capabilities.fs.read_text import NOT_TEXT, TOO_LARGE
from chaoscore.app.ports import HandlerContext, Provided
from chaoscore.domain.capability import Annotations, Capability, Sink
from chaoscore.domain.errors import CapabilityError, NotPerformed
from chaoscore.domain.json import Json, JsonObject

NAME = "fs.write_text"
EXISTS = "FS_EXISTS"
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# How systems answer that know no nameless files, or have no /proc to name one from.
_NO_NAMELESS = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS, errno.EPERM})


def provide(confinement: Confinement, options: FsOptions, new_label: Callable[[], str]) -> Provided:
    """``new_label`` gives a text of letters, digits and dashes that has not been given before (the temporary name)."""

    async def write_text(arguments: JsonObject, _: HandlerContext) -> Json:
        path, text = str(arguments["path"]), str(arguments["text"])
        write = _Write(confinement, options, bool(arguments.get("overwrite", False)), new_label())
        return await asyncio.to_thread(write.run, path, text)

    return Provided(_capability(confinement, options), write_text)


def _capability(confinement: Confinement, options: FsOptions) -> Capability:
    return Capability(
        name=NAME,
        description=(
            "Write a UTF-8 text file in the folders the operator opened, whole or not at all. Fails when the file "
            "exists, unless overwrite is true. The folder must exist."
        ),
        risk="high",
        input_schema={
            "type": "object",
            "required": ["path", "text"],
            "additionalProperties": False,
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": PATH_CHARS_MAX,
                    "description": "the file; relative to the first open folder, or absolute within any",
                },
                "text": {
                    "type": "string",
                    "maxLength": options.write_bytes_max,
                    "description": "the whole content; line ends are written as they are",
                },
                "overwrite": {
                    "type": "boolean",
                    "description": "replace the file if there is one; false by default",
                },
            },
        },
        output_schema={
            "type": "object",
            "required": ["path", "bytes"],
            "additionalProperties": False,
            "properties": {
                "path": {"type": "string", "description": "the file, as fs.* takes it back"},
                "bytes": {"type": "integer", "description": "how many bytes it has now"},
            },
        },
        annotations=Annotations(read_only=False, idempotent=False, destructive=True, open_world=False),
        untrusted_output=False,
        sinks=(Sink("/path", "path"),),
        builtin=True,
        scope={"roots": list(confinement.roots)},
    )


class _Write:
    """One write. Every error before the file has its name is ``NotPerformed``, and leaves nothing behind."""

    def __init__(self, confinement: Confinement, options: FsOptions, overwrite: bool, label: str) -> None:
        self._confinement = confinement
        self._options = options
        self._overwrite = overwrite
        self._temporary = f"{TEMPORARY_PREFIX}{label}{TEMPORARY_SUFFIX}"

    def run(self, path: str, text: str) -> dict[str, Json]:
        place = self._confinement.locate(path)
        if not place.names:
            raise wrong_kind(place, "a folder")
        try:
            content = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise NotPerformed(f"the text has half a character at {error.start}", code=NOT_TEXT) from None
        if len(content) > self._options.write_bytes_max:
            most = self._options.write_bytes_max
            raise NotPerformed(f"the text has {len(content)} bytes, at most {most} are written", code=TOO_LARGE)
        guard = self._confinement.guard()
        parent, name = Place(place.root, place.names[:-1], place.shown), place.names[-1]
        with self._confinement.folder(parent, guard) as folder:
            with reported(place):
                before = self._present(folder, name, place)
                if guard.covers(os.fstat(folder), name, before):
                    raise refused(place.shown, "it is the data directory or a policy file, which is never touched")
            self._put(folder, name, place, content, None if before is None else stat.S_IMODE(before.st_mode))
        return {"path": place.shown, "bytes": len(content)}

    def _present(self, folder: int, name: str, place: Place) -> os.stat_result | None:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            raise wrong_kind(place, kind_words(found.st_mode))
        if not self._overwrite:
            raise _exists(place)
        return found

    def _put(self, folder: int, name: str, place: Place, content: bytes, mode: int | None) -> None:
        if self._overwrite or not self._put_nameless(folder, name, place, content):
            self._put_named(folder, name, place, content, mode)
        try:
            os.fsync(folder)
        except OSError as error:
            why = f"may not survive a power cut: {_reason(error)}"
            raise CapabilityError(f"{place.shown!r} was written, but {why}") from None

    def _put_nameless(self, folder: int, name: str, place: Place, content: bytes) -> bool:
        """A file that has no name until it is whole, and takes it only if it is free. False where there is no such."""
        if not hasattr(os, "O_TMPFILE"):
            return False
        try:
            descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
        except OSError as error:
            if error.errno in _NO_NAMELESS:
                return False
            raise failed(place, error) from None
        with open(descriptor, "wb", buffering=0) as file:
            identity = _fill(file, place, content, None)
            try:
                os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)
            except FileExistsError:
                raise _exists(place) from None
            except OSError as error:
                if error.errno in _NO_NAMELESS:
                    return False
                self._settle(folder, name, place, identity, error)
        return True

    def _put_named(self, folder: int, name: str, place: Place, content: bytes, mode: int | None) -> None:
        """A file beside it, renamed. Without ``overwrite`` an empty file first takes the name, exclusively."""
        placeholder = False
        try:
            try:
                # What replaces a private file is never readable by others, not even while it is written.
                first_mode = 0o666 if mode is None else 0o600
                descriptor = os.open(self._temporary, _NEW_FLAGS, first_mode, dir_fd=folder)
            except OSError as error:
                raise failed(place, error) from None
            with open(descriptor, "wb", buffering=0) as file:
                identity = _fill(file, place, content, mode)
            if not self._overwrite:
                self._take_name(folder, name, place)
                placeholder = True
            try:
                os.rename(self._temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                self._settle(folder, name, place, identity, error)
        except NotPerformed:
            for leftover in (self._temporary, *([name] if placeholder else [])):
                with suppress(OSError):
                    os.unlink(leftover, dir_fd=folder)
            raise

    def _take_name(self, folder: int, name: str, place: Place) -> None:
        try:
            os.close(os.open(name, _NEW_FLAGS, 0o666, dir_fd=folder))
        except FileExistsError:
            raise _exists(place) from None
        except OSError as error:
            raise failed(place, error) from None

    def _settle(self, folder: int, name: str, place: Place, identity: tuple[int, int], error: OSError) -> None:
        """Naming the file failed, or so the system says (a file server's answer can get lost): look who has the name.

        Returns when our file has it. Raises ``NotPerformed`` when it certainly has not, ``CapabilityError`` else.
        """
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise failed(place, error) from None
        except OSError:
            raise CapabilityError(f"nobody can say whether {place.shown!r} was written: {_reason(error)}") from None
        if (found.st_dev, found.st_ino) != identity:
            raise failed(place, error) from None


def _fill(file: FileIO, place: Place, content: bytes, mode: int | None) -> tuple[int, int]:
    """Write everything, to the disk. Its device and inode. Raises ``NotPerformed``."""
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
        info = os.fstat(file.fileno())
    except OSError as error:
        raise failed(place, error) from None
    return (info.st_dev, info.st_ino)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno or errno.EIO).lower()


def _exists(place: Place) -> NotPerformed:
    return NotPerformed(f"{place.shown!r} exists; set overwrite to true if it shall be replaced", code=EXISTS)
