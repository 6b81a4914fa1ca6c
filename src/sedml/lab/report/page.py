"""One self-contained HTML page: cards with the main figures, then parts with a text, a picture or a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Card", "Part", "render"]


@dataclass(frozen=True)
class Card:
    """A figure to see first."""

    value: str
    text: str
    good: bool = False


@dataclass(frozen=True)
class Part:
    """A part of the page: what it shows, in words, and the picture (a data URL) or the table."""

    title: str
    text: str
    picture: str = ""
    rows: Sequence[tuple[str, str]] = ()


def render(title: str, subtitle: str, cards: Sequence[Card], parts: Sequence[Part], footer: str) -> str:
    """The page as text; everything in it is escaped."""
    from jinja2 import Environment

    template = (files("sedml.lab.report") / "page.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True).from_string(template)
    return page.render(title=title, subtitle=subtitle, cards=cards, parts=parts, footer=footer)
