"""One self-contained HTML page: cards with the main figures, then parts with a text, a picture or a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files

import sedml

__all__ = ["Card", "Part", "Row", "render"]


@dataclass(frozen=True)
class Card:
    """A figure to see first."""

    value: str
    text: str
    good: bool = False


@dataclass(frozen=True)
class Row:
    """A line of a table; one that was measured, such as a time, is another every time."""

    name: str
    value: str
    measured: bool = False


@dataclass(frozen=True)
class Part:
    """A part of the page: what it shows, in words, and the picture (a data URL) or the table."""

    title: str
    text: str
    picture: str = ""
    rows: Sequence[Row] = ()


def render(
    title: str, subtitle: str, cards: Sequence[Card], parts: Sequence[Part], footer: str, *, notice: str = ""
) -> str:
    """The page as text; everything in it is escaped. A notice is said before anything else."""
    from jinja2 import Environment

    template = (files("sedml.lab.report") / "page.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True).from_string(template)
    return page.render(
        title=title,
        subtitle=subtitle,
        notice=notice,
        cards=cards,
        parts=parts,
        footer=footer,
        version=sedml.__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
