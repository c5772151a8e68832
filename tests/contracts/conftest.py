"""The contract classes ship with the package; their assertions are explained like those of any test."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("chaoscore.testing.contracts")
