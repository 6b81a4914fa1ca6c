"""`sedml doctor`: find out why a kit does not work."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.output import AsJson, answer, plain_console
from sedml.errors import KitError, MissingExtraError

if TYPE_CHECKING:
    from sedml.service.kits.inspection import Check

_ILL = 3
_COLOURS = {"PASS": "green", "WARN": "yellow", "FAIL": "bold red"}


def doctor(
    kit: Annotated[Path, typer.Option(envvar="SEDML_KIT", help="Folder of the kit: a client's or a server's.")],
    as_json: AsJson = False,
) -> None:
    """Check that a kit works: its files, certificates and tokens, the clock, the network, both servers and their logs.

    With the kit of a server, on its machine: also the settings, the disk, the databases and the link.

    Exit code 3 if a check fails; warnings do not count.

    Example: sedml doctor --kit kits/teacher-007
    """
    with plain_console(stderr=True).status("looking"):
        checks = _checks(kit)
    failed = [check for check in checks if check.verdict == "FAIL"]
    table = Table(title=f"Kit {kit}", title_justify="left")
    for column in ("", "what", "found, and what to do"):
        table.add_column(column, overflow="fold")
    for check in checks:
        verdict = Text(check.verdict, style=_COLOURS[check.verdict])
        table.add_row(verdict, check.what, "\n".join(filter(None, (check.found, check.do))))
    answer(as_json, {"healthy": not failed, "checks": [asdict(check) for check in checks]}, table)
    if failed:
        raise typer.Exit(_ILL)


def _checks(folder: Path) -> list[Check]:
    import anyio

    from sedml.service.client.checkup import examine
    from sedml.service.kits import ServerKit
    from sedml.service.kits.inspection import Check
    from sedml.service.server import check_installed

    try:
        server = ServerKit.load(folder)
    except KitError:  # a client's, or one that `examine` has to say more about
        return anyio.run(examine, folder)
    try:
        check_installed()
    except MissingExtraError as error:
        return [*anyio.run(examine, folder), Check("installed", "FAIL", error.what, error.do)]
    from sedml.service.server.ops.preflight import inspect

    found = inspect(server)
    return [*anyio.run(examine, folder, found.listens, found.link), *found.checks]
