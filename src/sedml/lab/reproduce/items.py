"""The items of the paper by name, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from sedml.errors import InputError

if TYPE_CHECKING:
    from sedml.lab.reproduce.item_result import ItemResult
    from sedml.lab.reproduce.scale import Settings

__all__ = ["ITEMS", "Item", "items_named"]


@dataclass(frozen=True)
class Item:
    """An item: its module, imported when it is run."""

    name: str

    def run(self, settings: Settings) -> ItemResult:
        """Reproduce it."""
        module = import_module(f"sedml.lab.reproduce.{self.name}")
        run = cast("Callable[[Settings], ItemResult]", module.run)
        return run(settings)

    @property
    def title(self) -> str:
        """Its heading on the page."""
        return str(import_module(f"sedml.lab.reproduce.{self.name}").TITLE)


ITEMS: dict[str, Item] = {
    name: Item(name)
    for name in ("table1", "table2", "scaling", "accuracy", "threshold", "homomorphic", "peers", "growth")
}


def items_named(name: str) -> list[Item]:
    """The item of that name, or all."""
    if name == "all":
        return list(ITEMS.values())
    if name not in ITEMS:
        raise InputError(f"There is no item called {name!r}.", f"Use all, or one of {', '.join(ITEMS)}.")
    return [ITEMS[name]]
