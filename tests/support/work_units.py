"""What pytest's workers are given at a time: the tests of a file, so that its fixtures make once what they share.

xdist can group tests by a mark, but with pytest 9.2 it passes over the marks in silence (pytest-dev/pytest-xdist#1386).
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_E2E = ("access", "floods", "jobs", "watch")
_TOGETHER = {f"tests/e2e/test_e2e_{name}.py": "e2e" for name in _E2E} | {
    f"tests/console/test_{name}.py": "console" for name in ("browser", "calls")
}
"""Files whose tests share a pair of servers."""
_APART = ("tests/faults/test_fault_sequences.py",)
"""Files of long tests that share nothing."""

_FIRST = (
    "tests/e2e/",
    "tests/property/",
    "tests/docs/",
    "tests/faults/",
    "tests/deploy/",
    "tests/console/",
    "tests/attacks/",
)
"""Folders of long tests: whatever comes last keeps one worker busy while the others wait."""


def long_ones_first(items: list[pytest.Item]) -> None:
    """Put them into the order in which they are handed out."""
    items.sort(key=lambda item: not item.nodeid.startswith(_FIRST))


class ByFile(LoadScopeScheduling):
    """Hands out files in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file in _APART else _TOGETHER.get(file, file)
