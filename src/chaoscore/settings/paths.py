"""The folders that settings name: the user's own, the data directory, and the roots that fs.* may touch."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from chaoscore.domain.errors import ConfigurationInvalid
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


def writable_folder(path: Path, found: Found | None) -> Path:
    """``path``, if it is a folder this user may write in or can be made one. Makes nothing."""
    fault = _unwritable(path)
    if fault is None:
        return path
    if found is not None:
        raise found.wrong(f"{str(path)!r} cannot be the data directory: {fault}")
    raise ConfigurationInvalid(
        f"the data directory {str(path)!r} cannot be used: {fault}; {_HOW}", variable="CHAOS_CORE_DATA_DIR"
    )


def _unwritable(path: Path) -> str | None:
    for place in (path, *path.parents):
        try:
            mode = os.stat(place).st_mode
        except FileNotFoundError:
            if os.path.islink(place):
                return f"{str(place)!r} is a link that leads nowhere"
            continue
        except OSError as error:
            if not isinstance(error, NotADirectoryError):
                return f"{str(place)!r}: {(error.strerror or 'it cannot be reached').lower()}"
            continue
        if not stat.S_ISDIR(mode):
            return f"{str(place)!r} is not a folder"
        if not os.access(place, os.W_OK | os.X_OK):
            return f"this user may not write in {str(place)!r}"
        return None
    return "it has no parent"
