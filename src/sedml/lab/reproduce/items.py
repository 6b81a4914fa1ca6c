"""The items of the paper by name, and running them one after the other.

An item is a function of the settings that hands back an `ItemResult`: rows for tables, what its charts show, and the
words between them. Each is on disk as soon as it is done, and so is the page.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import sedml
from sedml.errors import InputError, SedmlError
from sedml.extras import require_libraries

if TYPE_CHECKING:
    from sedml.lab.reproduce.results import ItemResult
    from sedml.lab.reproduce.scale import Settings

ITEMS = {
    "table1": ("phases", "Table 1: time by phase"),
    "table2": ("phases", "Table 2: traffic between the servers by phase"),
    "scaling": ("scaling", "Scalability: time over samples and over classes"),
    "accuracy": ("accuracy", "Accuracy: labels and students over the number of teachers"),
    "threshold": ("accuracy", "Threshold: how it changes labels and students"),
}
"""By name, in the order of the page: the module that has a function of that name, and the title."""


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


def items_named(name: str) -> tuple[str, ...]:
    """The item of that name, or all."""
    if name != "all" and name not in ITEMS:
        raise InputError(f"There is no item called {name!r}.", f"Use all, or one of {', '.join(ITEMS)}.")
    return tuple(ITEMS) if name == "all" else (name,)


def run_items(names: Sequence[str], settings: Settings, about: dict[str, str]) -> Run:
    """Reproduce the items. One that fails is on the page with its reason, and the others go on.

    A single item that fails raises: there is nothing to go on with.
    """
    require_libraries("matplotlib", "jinja2")  # for the pictures and the page, before anything is measured
    from sedml.lab.reproduce.results import ItemResult, write_item, write_page

    documents: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    for done, name in enumerate(names):
        settings.progress(name, done, len(names))
        module, title = ITEMS[name]
        start = perf_counter()
        try:
            result: ItemResult = getattr(import_module(f"sedml.lab.reproduce.{module}"), name)(settings)
        except SedmlError as error:
            if len(names) == 1:
                raise
            failed[name] = f"{error.what} {error.do}"
            result = ItemResult(paper="", skipped=f"It failed: {failed[name]}")
        documents.append(write_item(settings.out / name, title, result, about, perf_counter() - start))
        write_page(settings.out, ITEMS)
    return Run(documents, failed, settings.out / "index.html")


def about_now(command: str) -> dict[str, str]:
    """Where results come from: the command, the date, and the machine in words, without its name."""
    import numpy as np

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = [f"{cores} {'core' if cores == 1 else 'cores'} ({platform.machine()})"]
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        parts.append(f"{memory / 2**30:.0f} GiB of memory")
    except (ValueError, OSError, AttributeError):
        pass
    parts += [platform.system(), f"Python {platform.python_version()}", f"NumPy {np.__version__}"]
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"command": command, "date": date, "machine": ", ".join(parts), "sedml": sedml.__version__}
