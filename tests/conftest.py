"""What every test shares: Hypothesis profiles, campaigns left out unless asked for, and importable test helpers.

Profiles: ``default`` is fast and always the same, so that a red run is red for everybody; ``campaign`` is long and
random, and prints how to reproduce what it finds: ``pytest -m campaign --hypothesis-profile=campaign``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)  # tests import tests.…; src/ stays out of reach, so what is tested is what is installed

_UNHURRIED = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "default", max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=_UNHURRIED
)
settings.register_profile(
    "campaign", max_examples=5_000, derandomize=False, print_blob=True, deadline=None, suppress_health_check=_UNHURRIED
)
settings.load_profile("default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Campaigns run only when ``-m`` names them, and as long as they need."""
    for item in items:
        if item.get_closest_marker("campaign"):
            item.add_marker(pytest.mark.timeout(0))
    if "campaign" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("campaign")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("campaign")]
