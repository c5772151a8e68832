"""A repository and a desk for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.harness import Desk
from tests.interaction_surface.support import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def desk(repository: Repository) -> Desk:
    """The people's commands, standing in the repository."""
    desk = Desk(repository.place)
    desk.work.rmdir()
    desk.work.symlink_to(repository.path)
    return desk
