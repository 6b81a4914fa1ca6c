"""Run items one after the other; each is on disk as soon as it is done, and so is the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from sedml.errors import SedmlError, require_libraries
from sedml.lab.reproduce.item_result import ItemResult
from sedml.lab.reproduce.items import ITEMS
from sedml.lab.reproduce.machine import About
from sedml.lab.reproduce.results_page import write_item, write_results_page
from sedml.lab.reproduce.scale import Settings

__all__ = ["Run", "run_items"]


@dataclass(frozen=True)
class Run:
    """What came of a run: the items as documents, those that failed with the reason, and the page."""

    items: list[dict[str, Any]]
    failed: dict[str, str]
    page: Path

    @property
    def agrees(self) -> bool:
        """Whether no label of any item was wrong."""
        return all(item["agrees"] is not False for item in self.items)


def run_items(names: Sequence[str], settings: Settings, about: About) -> Run:
    """Reproduce the items. One that fails is on the page with its reason, and the others go on.

    A single item that fails raises: there is nothing to go on with.
    """
    require_libraries("matplotlib", "jinja2")  # for the pictures and the page, before anything is measured
    documents: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for done, name in enumerate(names):
        settings.progress(name, done, len(names))
        item, start = import_module(f"sedml.lab.reproduce.{name}"), perf_counter()
        try:
            result: ItemResult = item.run(settings)
        except SedmlError as error:
            if len(names) == 1:
                raise
            failed[name] = f"{error.what} {error.do}"
            result = ItemResult(name, item.TITLE, paper="", skipped=f"It failed: {failed[name]}")
        documents.append(write_item(settings.out, result, about, perf_counter() - start))
        write_results_page(settings.out, ITEMS)
    return Run(documents, failed, settings.out / "index.html")
