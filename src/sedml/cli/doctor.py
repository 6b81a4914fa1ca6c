"""`sedml doctor`: find out why a kit does not work."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.output import plain_console, print_json, show

__all__ = ["doctor"]

_ILL = 3
_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "bold red"}


def doctor(
    kit: Annotated[Path, typer.Option(envvar="SEDML_KIT", help="Folder of the kit: a client's or a server's.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Check that a kit works: its files, certificates and tokens, the clock, the network and both servers.

    Exit code 3 if a check fails; warnings do not count.

    Example: sedml doctor --kit kits/teacher-007
    """
    import anyio

    from sedml.service.client.checkup import examine

    with plain_console(stderr=True).status("looking"):
        checks = anyio.run(examine, kit)
    failed = [check for check in checks if check.verdict == "FAIL"]
    if as_json:
        print_json({"healthy": not failed, "checks": [asdict(check) for check in checks]})
    else:
        table = Table(title=f"Kit {kit}", title_justify="left")
        for column in ("", "what", "found", "what to do"):
            table.add_column(column, overflow="fold")
        for check in checks:
            verdict = Text(check.verdict, style=_COLOURS[check.verdict])
            table.add_row(verdict, check.what, check.found, check.do)
        show(table)
    if failed:
        raise typer.Exit(_ILL)
