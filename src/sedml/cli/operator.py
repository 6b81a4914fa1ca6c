"""What an operator asks of its server: `sedml account`, who may call it, and `sedml audit`, what has happened there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.clients import KitOption, find_operator
from sedml.cli.job_tables import short_ids
from sedml.cli.output import AsJson, answer
from sedml.errors import InputError

if TYPE_CHECKING:
    from sedml.service.client.auditing import AuditReading

__all__ = ["account", "audit"]

_ILL = 3
_JOB = r"[0-9a-f]{32}"

account = typer.Typer(name="account", help="Accounts at a server, for its operator.", no_args_is_help=True)


@account.command()
def add(
    enrolment: Annotated[
        Path, typer.Argument(help="The enrolment.json that a teacher or requester made with `sedml enrol`.")
    ],
    organisation: Annotated[
        str | None,
        typer.Option(help="Whose account it is, if the enrolment names an organisation: write what you know to be so."),
    ] = None,
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Add an account for a teacher or requester to your server. The other operator does the same at theirs.

    An organisation votes once, and what was spent on it stays with its name: look who it is before you add it.

    Example: sedml account add enrolment.json --kit kits/operator-s0
    """
    from sedml.service.kits import load_enrolment

    document = load_enrolment(enrolment)
    if document.organisation != organisation:
        named = document.organisation
        raise InputError(
            f"The enrolment of {document.name} names {f'the organisation {named}' if named else 'no organisation'}.",
            f"If you know that to be so, {f'say --organisation {named}' if named else 'leave out --organisation'}.",
        )
    operator, server = find_operator(kit)
    made = operator.add_account(document)
    whose = "" if made.organisation == made.name else f" of {made.organisation}"
    line = f"{made.role.capitalize()} {made.name}{whose} may call {server.upper()}."
    answer(as_json, made.model_dump(mode="json"), line)


@account.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The name of the account.")],
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Revoke an account's access to your server, at once.

    Example: sedml account revoke teacher-007 --kit kits/operator-s0
    """
    operator, server = find_operator(kit)
    revoked = operator.revoke_account(name)
    line = f"{revoked.name} may not call {server.upper()} any more. Tell the other operator."
    answer(as_json, revoked.model_dump(mode="json"), line)


@account.command("list")
def list_(kit: KitOption = None, as_json: AsJson = False) -> None:
    """List the accounts of your server.

    Example: sedml account list --kit kits/operator-s0
    """
    operator, server = find_operator(kit)
    found = operator.accounts()
    table = Table(
        "name", "organisation", "role", "since", "revoked", title=f"Accounts of {server.upper()}", title_justify="left"
    )
    for one in found:
        gone = "" if one.revoked_at is None else f"{one.revoked_at:%Y-%m-%d}"
        table.add_row(one.name, one.organisation, one.role, f"{one.created_at:%Y-%m-%d}", gone)
    answer(as_json, {"accounts": [one.model_dump(mode="json") for one in found]}, table)


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
    answer(as_json, _document(server, found), *_shown(server, found))
    if found.complaint is not None:
        raise typer.Exit(_ILL)


def _document(server: str, found: AuditReading) -> dict[str, Any]:
    head = None if found.head is None else found.head.model_dump(mode="json")
    entries = [entry.model_dump(mode="json") for entry in found.entries]
    return {"server": server, "complaint": found.complaint, "read": found.read, "head": head, "entries": entries}


def _shown(server: str, found: AuditReading) -> Iterator[Table | Text | str]:
    table = Table(title=f"Audit log of {server.upper()}", title_justify="left")
    table.add_column("line", justify="right")
    for column in ("at (UTC)", "who", "did", "to", "outcome"):
        table.add_column(column, overflow="fold", no_wrap=column == "at (UTC)")
    jobs = short_ids(one.subject for one in found.entries if re.fullmatch(_JOB, one.subject))
    for one in found.entries:
        told = (one.actor, one.action, jobs.get(one.subject, one.subject), one.outcome)
        table.add_row(str(one.number), f"{one.at:%Y-%m-%d %H:%M:%S}", *told)
    yield table
    if found.complaint is not None:
        advice = " Keep the store as it is, and find out who could write to it."
        yield Text.assemble((found.complaint, "bold red"), advice)
    else:
        yield f"The {found.read} lines that were read fit each other."
    if found.head is not None:
        yield f"Head: {found.head.number}:{found.head.digest}"
