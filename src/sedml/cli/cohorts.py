"""`sedml budget`: what is left of the privacy that each cohort was promised."""

from __future__ import annotations

from dataclasses import asdict

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.clients import AsJson, KitOption, find_kit
from sedml.cli.output import print_json, show, stages

__all__ = ["budget"]

_UNKNOWN = 1


def budget(kit: KitOption = None, as_json: AsJson = False) -> None:
    """Show each cohort's privacy budget at each server that your kit has access to, in epsilon.

    A server refuses a job that would add more than is left. Teachers see every job at its worst case.

    Exit code 1 if a server does not say.

    Example: sedml budget --kit kits/requester-1
    """
    import anyio

    from sedml.service.client.budgets import read_budgets
    from sedml.service.kits import ClientKit

    loaded = ClientKit.load(find_kit(kit, "requester"))
    with stages():
        found = anyio.run(read_budgets, loaded)
    if as_json:
        print_json(
            {
                "cohorts": [asdict(line) for line in found.lines],
                "worst_case": loaded.role == "teacher",
                "problems": {name: str(error) for name, error in found.problems.items()},
            }
        )
    else:
        table = Table(title="Budgets, in epsilon", title_justify="left")
        table.add_column("cohort", overflow="fold")
        table.add_column("server")
        for column in ("limit", "spent", "reserved", "left", "at delta"):
            table.add_column(column, justify="right", no_wrap=True)
        for line in found.lines:
            figures = (line.limit, line.spent, line.reserved, line.left, line.delta)
            table.add_row(line.cohort, line.server.upper(), *(f"{figure:.4g}" for figure in figures))
        notes = [Text(f"{name.upper()}: {error.what}", style="red") for name, error in found.problems.items()]
        if loaded.role == "teacher":
            notes.append(Text("Every job counts at its worst case: teachers are not shown what it cost."))
        show(table, *notes) if found.lines else show("No cohort has a budget.", *notes)
    if found.problems:
        raise typer.Exit(_UNKNOWN)
