"""The items of the paper by name, in the order of the page; each is a module with a `TITLE` and `run(settings)`."""

from __future__ import annotations

from sedml.errors import InputError

__all__ = ["ITEMS", "items_named"]

ITEMS = ("table1", "table2", "scaling", "accuracy", "threshold", "homomorphic", "peers", "growth")


def items_named(name: str) -> tuple[str, ...]:
    """The item of that name, or all."""
    if name != "all" and name not in ITEMS:
        raise InputError(f"There is no item called {name!r}.", f"Use all, or one of {', '.join(ITEMS)}.")
    return ITEMS if name == "all" else (name,)
