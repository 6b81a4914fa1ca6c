"""Which format a file has by its name, and why it cannot be used, in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sedml.errors import FileFormatError

__all__ = ["by_suffix", "reason"]


def by_suffix(path: Path, table: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The entry of a table of formats that a file's suffix chooses."""
    known = table.get(path.suffix.lower())
    if known is None:
        raise FileFormatError(
            f"{path} is not a file of a known kind ({path.suffix or 'no suffix'}).", f"Use one of {', '.join(table)}."
        )
    return known


def reason(error: OSError) -> str:
    """The system's own words for what went wrong."""
    return error.strerror or type(error).__name__
