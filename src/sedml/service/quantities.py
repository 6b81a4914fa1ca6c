"""Numbers with a unit, as people write them: 45m, 7d, 512KiB."""

from __future__ import annotations

import re
from collections.abc import Mapping

SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
"""How many there are in each unit of time."""


def measured(text: str, units: Mapping[str, float]) -> float | None:
    """A text as a plain number of what the units are made of; None if it is no number with one of them."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)", text.strip())
    return float(found[1]) * units[found[2]] if found and found[2] in units else None
