"""The README's two commands: there are exactly two, and the first does what the README shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Installed

COMMANDS = ["bash scripts/try", "bash scripts/check"]


def shown(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md"])
def test_there_are_two_commands_and_no_third(page: str) -> None:
    assert re.findall(r"^\$ (bash .+)$", shown(page), re.MULTILINE) == COMMANDS


def tried(source: Path, installed: Installed, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The first command in the copy, with the wheel's environment in place of one that it would have to download."""
    environ = {**installed.environ(home), "CHAOSCORE_VENV": str(installed.folder)}
    stamp = subprocess.run(
        ["bash", "scripts/venv", "stamp"], cwd=source, env=environ, capture_output=True, text=True, check=True
    )
    (installed.folder / ".chaoscore-run").write_text(stamp.stdout)
    return subprocess.run(
        ["bash", "scripts/try", *arguments],
        cwd=source,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def masked(line: str) -> str:
    line = re.sub(r"\b([pr])-[a-z0-9]{16}\b", r"\1-…", line.rstrip())
    return re.sub(r"\d+", "N", re.sub(r"/\S+/chaos-core\b", "/…", line))


def test_the_first_command_does_the_job_and_says_what_the_readme_shows(
    source: Path, installed: Installed, tmp_path: Path
) -> None:
    done = tried(source, installed, tmp_path, "--yes")
    assert done.returncode == 0, done.stderr
    index = (source / "DOCS.md").read_text("utf-8")
    pages = sorted((source / "docs").rglob("*.md"))
    assert f"Documents: {len(pages)} " in index
    for page in pages:
        assert page.relative_to(source).as_posix() in index

    (screen,) = re.findall(r"^```text\n(.*?)^```", shown("README.md"), re.MULTILINE | re.DOTALL)
    said = {masked(line) for line in done.stdout.splitlines()}
    for line in screen.splitlines():
        if line.strip() and "…" not in line and not line.startswith(("  [y]es", "  > ")):
            assert masked(line) in said, line


def test_without_anybody_to_ask_the_first_command_writes_nothing(
    source: Path, installed: Installed, tmp_path: Path
) -> None:
    (source / "DOCS.md").unlink(missing_ok=True)
    done = tried(source, installed, tmp_path)
    assert done.returncode == 3
    assert not (source / "DOCS.md").exists()
