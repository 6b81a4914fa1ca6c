"""What an item hands back, the folder of files that is written of it, and one page of all items that are there.

results/index.html                  everything, pictures included, in one file
results/ITEM/item.json              what the page is made of
results/ITEM/*.csv, *.png           the tables, unrounded, and the charts
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sedml.files.documents import finite
from sedml.lab.report import render
from sedml.lab.reproduce.drawing import Chart, draw
from sedml.lab.saving import save_text, saving

_DPI, _CSS_DPI = 150, 96
_FORMAT = 1

Cell: TypeAlias = str | int | float | bool | None
"""None is a cell with nothing to say."""


class Column(NamedTuple):
    """A column: its name in the CSV file, its heading on the page, how its numbers are written there, and its cells."""

    key: str
    heading: str
    form: str = ""
    value: Callable[[Any], Cell] | None = None
    """The cell of a row; unless given, the row's attribute of that name."""


@dataclass(frozen=True)
class Table:
    """What is said of some things, one row each."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Iterable[Any]
    note: str = ""
    page: bool = True
    """Whether it is on the page as well; a long one is in its CSV file alone."""

    @cached_property
    def cells(self) -> list[list[Cell]]:
        """The values, row by row."""
        return [
            [getattr(row, column.key) if column.value is None else column.value(row) for column in self.columns]
            for row in self.rows
        ]

    @property
    def csv(self) -> str:
        """The table as CSV, unrounded."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow([column.key for column in self.columns])
        writer.writerows(["" if cell is None else cell for cell in row] for row in self.cells)
        return buffer.getvalue()

    @property
    def document(self) -> dict[str, Any]:
        """The table for JSON: its values, and its cells as people read them."""
        keys, headings, forms, _ = zip(*self.columns, strict=True)
        return {
            "name": self.name,
            "title": self.title,
            "note": self.note,
            "page": self.page,
            "headings": headings,
            "numeric": [any(map(_is_number, column)) for column in zip(*self.cells, strict=True)],
            "shown": [[_text(*cell) for cell in zip(row, forms, strict=True)] for row in self.cells],
            "rows": [finite(dict(zip(keys, row, strict=True))) for row in self.cells],
        }


@dataclass(frozen=True)
class Headline:
    """One line of the summary: the paper's number and ours."""

    what: str
    paper: str
    ours: str
    verdict: str = ""


@dataclass(frozen=True)
class ItemResult:
    """An item of the paper, reproduced or skipped."""

    paper: str
    """What the paper reports."""
    ours: str = ""
    """What was found here."""
    measured: Sequence[str] = ()
    modelled: Sequence[str] = ()
    """What was not measured in this run: quoted, extrapolated or assumed."""
    headlines: Sequence[Headline] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    skipped: str = ""
    """Why the item, or a part of it, is missing."""
    agrees: bool | None = None
    """Whether every label that a protocol made is the one that plain aggregation gives for the same noise."""


def write_item(folder: Path, title: str, result: ItemResult, about: dict[str, str], took: float) -> dict[str, Any]:
    """Write an item's folder anew, and return what the page needs of it; `about` says where results come from."""
    charts = [
        {"name": chart.name, "caption": chart.caption, "width": round(_CSS_DPI * chart.size[0])}
        for chart in result.charts
    ]
    item = {"format": _FORMAT, "name": folder.name, "title": title, **asdict(replace(result, tables=(), charts=()))}
    item |= {"tables": [table.document for table in result.tables], "charts": charts, "about": about, "seconds": took}
    save_text(folder / "item.json", json.dumps(item, indent=2, ensure_ascii=False) + "\n")
    for old in (*folder.glob("*.csv"), *folder.glob("*.png")):
        old.unlink(missing_ok=True)
    for table in result.tables:
        save_text(folder / f"{table.name}.csv", table.csv)
    for chart in result.charts:
        with saving(folder / f"{chart.name}.png") as stream:
            draw(chart).savefig(stream, format="png", dpi=_DPI)
    return item


def write_page(out: Path, names: Iterable[str]) -> Path:
    """Make the page of all items that are there, in this order; everything is escaped, pictures are inside."""
    items = [item for name in names if (item := _read_item(out / name))]
    pictures = {
        (item["name"], chart["name"]): _inline(out / item["name"] / f"{chart['name']}.png")
        for item in items
        for chart in item["charts"]
    }
    quick = any("--quick" in item["about"]["command"] for item in items)
    path = out / "index.html"
    shown = {"title": "SEDML, reproduced", "items": items, "pictures": pictures, "quick": quick}
    save_text(path, render("results.html.j2", **shown))
    return path


def _read_item(folder: Path) -> dict[str, Any] | None:
    """An item of an earlier run too; None where it is damaged or of another format."""
    try:
        item = json.loads((folder / "item.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return item if isinstance(item, dict) and item.get("format") == _FORMAT else None


def _inline(path: Path) -> str:
    try:
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return ""


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _text(cell: Cell, form: str) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cell
    return "none" if math.isinf(cell) else format(cell, form)
