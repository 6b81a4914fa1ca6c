"""Reports for people: what tables, pictures and pages of the laboratory have in common.

Nothing in here is imported by `sedml` itself, and matplotlib and jinja2 only when something is drawn or written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

__all__ = ["figure", "render", "table"]


def figure(value: float) -> str:
    """Four digits, or "none" where there is no guarantee."""
    return f"{value:.4g}" if math.isfinite(value) else "none"


def table(
    title: str,
    words: Sequence[str],
    numbers: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    caption: str | None = None,
) -> Table:
    """A table for the terminal: columns of words, then columns of numbers; no heading where all of them are empty."""
    made = Table(title=title, title_justify="left", caption=caption, caption_justify="left",
                 show_header=any((*words, *numbers)))  # fmt: skip
    for name in words:
        made.add_column(name)
    for name in numbers:
        made.add_column(name, justify="right")
    for row in rows:
        made.add_row(*row)
    return made


def render(template: str, **shown: Any) -> str:  # noqa: ANN401 - whatever the template shows
    """A page that needs no other file; everything in it is escaped."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("sedml.lab.report", "")
    pages = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=loader)
    return pages.get_template(template).render(**shown)
