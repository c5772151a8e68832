"""The folders that settings name: the user's own, the data directory, and the roots that fs.* may touch."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from chaoscore.domain.errors import ConfigurationInvalid, StorageError
from chaoscore.settings.sources import Found

DATA_DIR_NAME = "chaos-core"
_HOW = "name another one with --data-dir or CHAOS_CORE_DATA_DIR"


def absolute(text: str, found: Found, cwd: Path, environ: Mapping[str, str]) -> Path:
    """A path as an operator wrote it: relative to ``cwd``; ``~`` is the user's own folder, for files no shell reads."""
    if "\0" in text:
        raise found.wrong(f"{text!r} is not a path")
    if text == "~" or text.startswith("~/"):
        text = f"{home(environ)}{text[1:]}"
    return Path(os.path.abspath(cwd / text))


def existing_folder(path: Path, found: Found) -> Path:
    """The folder itself, links resolved: what an operator allowed does not move when a link does."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise found.wrong(f"{str(path)!r} is not there or cannot be reached; name an existing folder") from None
    if not real.is_dir():
        raise found.wrong(f"{str(path)!r} is not a folder")
    return real


def home(environ: Mapping[str, str]) -> Path:
    """The user's own folder: ``HOME`` where it is set, otherwise what the system knows of the user."""
    named = environ.get("USERPROFILE" if sys.platform == "win32" else "HOME") or _home_of_uid()
    if not named:
        raise ConfigurationInvalid(
            f"this user has no home folder: HOME is not set and the system knows none; {_HOW}", variable="HOME"
        )
    if not os.path.isabs(named):
        raise ConfigurationInvalid(f"HOME is {named!r}, which is not an absolute path; {_HOW}", variable="HOME")
    return Path(named)


def _home_of_uid() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):
        return ""


def user_data_dir(environ: Mapping[str, str]) -> Path:
    """Where the platform keeps a program's data for one user."""
    if sys.platform in ("darwin", "win32"):
        from platformdirs import user_data_path

        return user_data_path(DATA_DIR_NAME, appauthor=False)
    # The XDG rule, read from ``environ`` and without an import that every server would pay for at its start.
    base = environ.get("XDG_DATA_HOME", "")
    return (Path(base) if os.path.isabs(base) else home(environ) / ".local" / "share") / DATA_DIR_NAME


def data_folder(path: Path, found: Found | None, *, writable: bool) -> Path:
    """``path``, if it is a folder or can be made one, and if this user may write there, where that is asked for.

    Makes nothing. Raises ``ConfigurationInvalid`` for what can be no folder, ``StorageError`` (``READ_ONLY`` for what
    can be read and not be written, ``PERMISSION`` for what cannot be reached) for one that cannot be used.
    """
    place, code, fault = _look(path)
    if fault is None and writable:
        code, fault = _unwritable(place)
    if fault is None:
        return path
    if code is not None:
        raise StorageError(
            f"the data directory {str(path)!r} cannot be written: {fault}; {_HOW}", code=code, path=str(place)
        )
    if found is not None:
        raise found.wrong(f"{str(path)!r} cannot be the data directory: {fault}")
    raise ConfigurationInvalid(
        f"the data directory {str(path)!r} cannot be used: {fault}; {_HOW}", variable="CHAOS_CORE_DATA_DIR"
    )


def _look(path: Path) -> tuple[Path, str | None, str | None]:
    """The folder, or the nearest one above it that is there; the code and the words of what keeps it from being one."""
    for place in (path, *path.parents):
        try:
            mode = os.stat(place).st_mode
        except FileNotFoundError:
            if os.path.islink(place):
                return place, None, f"{str(place)!r} is a link that leads nowhere"
            continue
        except NotADirectoryError:
            continue
        except OSError as error:
            code = "PERMISSION" if isinstance(error, PermissionError) else None
            return place, code, f"{str(place)!r}: {(error.strerror or 'it cannot be reached').lower()}"
        if not stat.S_ISDIR(mode):
            return place, None, f"{str(place)!r} is not a folder"
        return place, None, None
    return path, None, "it has no parent"


def _unwritable(place: Path) -> tuple[str | None, str | None]:
    if os.access(place, os.W_OK | os.X_OK):
        return None, None
    if not os.access(place, os.R_OK | os.X_OK):
        return "PERMISSION", f"this user may not use {str(place)!r}"
    if hasattr(os, "statvfs") and os.statvfs(place).f_flag & os.ST_RDONLY:
        return "READ_ONLY", f"{str(place)!r} lies on a file system that can only be read"
    return "READ_ONLY", f"this user may not write in {str(place)!r}"
