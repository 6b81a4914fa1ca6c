"""The two tiers of the suite: `make test` runs all but what is marked `thorough`, `make test-all` runs that too.

CONTRIBUTING.md says which tests are. What a test is run with again and again is in the first tier once:
"""

from __future__ import annotations

import pytest

__all__ = ["DATABASES", "ROLES", "thorough"]

thorough = pytest.mark.thorough

DATABASES = ("sqlite", pytest.param("postgresql", marks=thorough))
"""Of a server, for what is the same with both."""

ROLES = (0, pytest.param(1, marks=thorough))
"""Of the server that fails or cheats, where both are alike."""
