"""What an item hands back: tables for CSV files, charts for pictures, and the words between them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sedml.files.documents import finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Cell", "Chart", "Column", "Headline", "ItemResult", "Table", "csv_text", "document", "shown"]

_CSS_DPI = 96

Cell: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True)
class Column:
    """A column: its name in the CSV file, its heading on the page, and how its numbers are written there."""

    key: str
    heading: str
    form: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of plain values; None is a cell with nothing to say."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    page: bool = True
    """Whether it is on the page as well; a long one is in its CSV file alone."""


@dataclass(frozen=True, eq=False)
class Chart:
    """A picture and what it shows."""

    name: str
    caption: str
    figure: Figure = field(repr=False)


@dataclass(frozen=True)
class Headline:
    """One line of the summary: the paper's number and ours."""

    what: str
    paper: str
    ours: str
    verdict: str = ""


@dataclass(frozen=True, eq=False)
class ItemResult:
    """An item of the paper, reproduced or skipped."""

    name: str
    title: str
    paper: str
    """What the paper reports."""
    ours: str = ""
    """What was found here."""
    measured: tuple[str, ...] = ()
    modelled: tuple[str, ...] = ()
    """What was not measured in this run: quoted, extrapolated or assumed."""
    headlines: tuple[Headline, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    skipped: str = ""
    """Why the item, or a part of it, is missing."""
    agrees: bool | None = None
    """Whether every label that a protocol made is the one that plain aggregation gives for the same noise."""


def csv_text(table: Table) -> str:
    """The table as CSV, unrounded."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([column.key for column in table.columns])
    writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)
    return buffer.getvalue()


def shown(table: Table) -> list[list[str]]:
    """The cells as people read them."""
    return [
        [_text(cell, column.form) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows
    ]  # fmt: skip


def document(result: ItemResult) -> dict[str, Any]:
    """All of it but the pictures, for JSON."""
    return {
        "name": result.name,
        "title": result.title,
        "paper": result.paper,
        "ours": result.ours,
        "measured": list(result.measured),
        "modelled": list(result.modelled),
        "headlines": [asdict(line) for line in result.headlines],
        "tables": [_table(table) for table in result.tables],
        "charts": [
            {"name": chart.name, "caption": chart.caption, "width": round(_CSS_DPI * chart.figure.get_figwidth())}
            for chart in result.charts
        ],
        "skipped": result.skipped,
        "agrees": result.agrees,
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.title,
        "note": table.note,
        "page": table.page,
        "headings": [column.heading for column in table.columns],
        "numeric": [_numeric([row[place] for row in table.rows]) for place in range(len(table.columns))],
        "shown": shown(table),
        "rows": [
            finite({column.key: cell for column, cell in zip(table.columns, row, strict=True)}) for row in table.rows
        ],
    }


def _numeric(cells: Sequence[Cell]) -> bool:
    return any(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


def _text(cell: Cell, form: str) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cell
    return "none" if math.isinf(cell) else format(cell, form)
