"""The results folder: a folder of CSV files and pictures for each item, and one page made of all that are there.

results/index.html                  everything, pictures included, in one file
results/ITEM/item.json              what the page is made of
results/ITEM/*.csv, *.png           the tables, unrounded, and the charts
results/labels/*.npz                labels, for students trained elsewhere
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from sedml.lab.reproduce.item_result import ItemResult, csv_text, document
from sedml.lab.reproduce.machine import About
from sedml.lab.saving import save_text, saving

__all__ = ["read_items", "render", "write_item", "write_results_page"]

_DPI = 150
_FORMAT = 1


def write_item(out: Path, result: ItemResult, about: About, took: float) -> dict[str, Any]:
    """Write an item's folder anew, and return what the page needs of it."""
    folder = out / result.name
    item = {"format": _FORMAT, **document(result), "about": asdict(about), "seconds": took}
    for table in result.tables:
        save_text(folder / f"{table.name}.csv", csv_text(table))
    for chart in result.charts:
        with saving(folder / f"{chart.name}.png") as stream:
            chart.figure.savefig(stream, format="png", dpi=_DPI)
    save_text(folder / "item.json", json.dumps(item, indent=2, ensure_ascii=False) + "\n")
    kept = {f"{table.name}.csv" for table in result.tables} | {f"{chart.name}.png" for chart in result.charts}
    for old in (*folder.glob("*.csv"), *folder.glob("*.png")):
        if old.name not in kept:
            old.unlink(missing_ok=True)
    return item


def read_items(out: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """The items in a results folder, in this order; those that are damaged or of another format are left out."""
    items = []
    for name in names:
        try:
            item = json.loads((out / name / "item.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(item, dict) and item.get("format") == _FORMAT:
            items.append(item)
    return items


def render(items: Sequence[dict[str, Any]], out: Path) -> str:
    """The page as text; everything in it is escaped, pictures are inside."""
    from jinja2 import Environment

    template = (files("sedml.lab.reproduce") / "page.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(template)
    pictures = {
        (item["name"], chart["name"]): _inline(out / item["name"] / f"{chart['name']}.png")
        for item in items
        for chart in item["charts"]
    }
    return page.render(
        items=items, pictures=pictures, quick=any("--quick" in item["about"]["command"] for item in items)
    )


def write_results_page(out: Path, names: Sequence[str]) -> Path:
    """Make the page of all items that are there."""
    path = out / "index.html"
    save_text(path, render(read_items(out, names), out))
    return path


def _inline(path: Path) -> str:
    try:
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return ""
