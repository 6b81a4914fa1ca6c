"""The items of the paper by name, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from sedml.errors import InputError
from sedml.lab.reproduce.item_result import ItemResult
from sedml.lab.reproduce.scale import Settings

__all__ = ["ITEMS", "Item", "choose"]


@dataclass(frozen=True)
class Item:
    """An item: its module, imported when it is run, and what it shows."""

    name: str
    about: str

    def run(self, settings: Settings) -> ItemResult:
        """Reproduce it."""
        module = import_module(f"sedml.lab.reproduce.{self.name}")
        run = cast(Callable[[Settings], ItemResult], module.run)
        return run(settings)

    @property
    def title(self) -> str:
        """Its heading on the page."""
        return str(import_module(f"sedml.lab.reproduce.{self.name}").TITLE)


ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        Item("table1", "time by phase"),
        Item("table2", "traffic between the servers by phase"),
        Item("scaling", "time over samples and classes"),
        Item("accuracy", "labels and students, secure against plaintext"),
        Item("threshold", "students over the threshold"),
        Item("homomorphic", "against the homomorphic prior art"),
        Item("peers", "against general engines for secure computation"),
        Item("growth", "how cost grows, and to what"),
    )
}


def choose(name: str) -> list[Item]:
    """The item of that name, or all."""
    if name == "all":
        return list(ITEMS.values())
    if name not in ITEMS:
        raise InputError(f"There is no item {name!r}.", f"Use all, or one of {', '.join(ITEMS)}.")
    return [ITEMS[name]]
