"""The wheel, built once, and an environment that holds it and not the source tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it. Its other packages are those that the tests run with."""

    wheel: Path
    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def environ(self, home: Path) -> dict[str, str]:
        return {"PATH": f"{self.bin}{os.pathsep}/usr/bin{os.pathsep}/bin", "HOME": str(home)}


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree as a fresh clone has it: nothing that was built, cached or installed."""
    copy = tmp_path_factory.mktemp("clone") / "chaos-core"
    left_out = shutil.ignore_patterns(
        ".git",
        ".venv",
        "__pycache__",
        "*.pyc",
        ".*_cache",
        ".hypothesis",
        "dist",
        "build",
        ".chaos-core",
        "DOCS.md",
        ".env",
    )
    shutil.copytree(ROOT, copy, ignore=left_out, symlinks=True)
    return copy


@pytest.fixture(scope="session")
def installed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (wheel,) = place.glob("*.whl")
    folder = place / "venv"
    venv.create(folder, symlinks=True)
    target = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    subprocess.run(
        [*target, "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", str(wheel)],
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"]},
    )
    # A path in a .pth file is searched, but .pth files found there are not read: the source tree stays out of reach.
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (own / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(wheel, folder)
