"""Commands that this command suggests, with the flags it was itself given.

Whoever reads them sits at the terminal that this command was typed into: the environment is there already, only flags
would be missing. One invocation is one process, so they are kept for the process, like the secrets of ``terminal``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from chaoscore.app.copyable import PLAIN, Copyable

if TYPE_CHECKING:
    import argparse

_DATA = (("data_dir", "--data-dir"), ("policy_path", "--policy"))
_FOLDER = (("repo_root", "--repo-root"), ("root", "--root"), ("schema_dir", "--schema-dir"), ("config", "--config"))
_copyable = [PLAIN]


def keep_flags(args: argparse.Namespace, cwd: Path) -> None:
    """Suggest these from here on."""
    roots = getattr(args, "fs_roots", None) or ()
    _copyable[0] = Copyable(
        _given(args, _DATA, cwd), _given(args, _FOLDER, cwd), tuple(_at(cwd, root) for root in roots)
    )


def copyable() -> Copyable:
    return _copyable[0]


def command(*words: str) -> str:
    """See ``Copyable``."""
    return _copyable[0](*words)


def going_on(run: str, roots: Iterable[str] = ()) -> str:
    """See ``Copyable.going_on``."""
    return _copyable[0].going_on(run, roots)


def _given(args: argparse.Namespace, flags: Iterable[tuple[str, str]], cwd: Path) -> tuple[str, ...]:
    given = ((flag, getattr(args, name, None)) for name, flag in flags)
    return tuple(part for flag, value in given if value for part in (flag, _at(cwd, str(value))))


def _at(cwd: Path, path: str) -> str:
    return os.path.abspath(cwd / path)
