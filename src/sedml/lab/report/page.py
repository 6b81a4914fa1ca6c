"""One self-contained HTML page: cards with the headline figures, then parts with a text, a picture or a table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from sedml.errors import FileFormatError

__all__ = ["Card", "Part", "render", "write_page"]


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


def write_page(path: Path, page: str) -> None:
    """Write the page whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(page)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be written ({error.strerror or type(error).__name__}).",
            "Choose a folder that you may write to, on a disk with enough space.",
        ) from error
