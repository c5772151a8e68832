"""Tests in a real browser are a command of their own: ``pytest -m campaign tests/web``."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.name.startswith("test_browser"):
        item.add_marker(pytest.mark.campaign)
