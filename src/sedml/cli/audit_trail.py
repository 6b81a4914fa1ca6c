"""`sedml audit`: an operator reads the audit log of its server, and sees whether it was tampered with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.clients import KitOption, find_operator
from sedml.cli.job_tables import short_ids
from sedml.cli.output import AsJson, print_json, show

if TYPE_CHECKING:
    from sedml.service.client.auditing import AuditReading

__all__ = ["audit"]

_ILL = 3
_JOB = r"[0-9a-f]{32}"


def audit(
    kit: KitOption = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check every line from the first on.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="HEAD", help="A head that you noted: is it there still? What came after it?")
    ] = None,
    last: Annotated[int, typer.Option(min=1, max=100_000, help="How many lines to show at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the newest lines of your server's audit log, and whether those that were read fit each other.

    Below them is the head of the log. Note it: lines that are later cut off at
    the end show only with `--since` and a head that you noted before.

    Exit code 3 if the log was tampered with.

    Example: sedml audit --kit kits/operator-s0 --verify
    """
    from sedml.service.client.auditing import parse_head

    noted = None if since is None else parse_head(since)
    operator, server = find_operator(kit)
    found = operator.audit(whole=verify, since=noted, last=last)
    if as_json:
        _document(server, found)
    else:
        _tables(server, found)
    if found.complaint is not None:
        raise typer.Exit(_ILL)


def _document(server: str, found: AuditReading) -> None:
    head = None if found.head is None else found.head.model_dump(mode="json")
    entries = [entry.model_dump(mode="json") for entry in found.entries]
    print_json({"server": server, "complaint": found.complaint, "read": found.read, "head": head, "entries": entries})


def _tables(server: str, found: AuditReading) -> None:
    table = Table(title=f"Audit log of {server.upper()}", title_justify="left")
    table.add_column("line", justify="right")
    for column in ("at (UTC)", "who", "did", "to", "outcome"):
        table.add_column(column, overflow="fold", no_wrap=column == "at (UTC)")
    jobs = short_ids(one.subject for one in found.entries if re.fullmatch(_JOB, one.subject))
    for one in found.entries:
        told = (one.actor, one.action, jobs.get(one.subject, one.subject), one.outcome)
        table.add_row(str(one.number), f"{one.at:%Y-%m-%d %H:%M:%S}", *told)
    show(table)
    if found.complaint is not None:
        advice = " Keep the store as it is, and find out who could write to it."
        show(Text.assemble((found.complaint, "bold red"), advice))
    else:
        show(f"The {found.read} lines that were read fit each other.")
    if found.head is not None:
        show(f"Head: {found.head.number}:{found.head.digest}")
