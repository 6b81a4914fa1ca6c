"""`sedml account`: who may call a server, for its operator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sedml.cli.clients import KitOption, find_operator
from sedml.cli.output import AsJson, answer
from sedml.errors import InputError

account = typer.Typer(name="account", help="Accounts at a server, for its operator.", no_args_is_help=True)


@account.command()
def add(
    enrolment: Annotated[
        Path, typer.Argument(help="The enrolment.json that a teacher or requester made with `sedml enrol`.")
    ],
    organisation: Annotated[
        str | None,
        typer.Option(help="Whose account it is, if the enrolment names an organisation: the name you know to be true."),
    ] = None,
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Add an account for a teacher or requester to your server. The other operator does the same at theirs.

    An organisation votes once, and what was spent on it stays with its name: make sure who it is before you add it.

    Example: sedml account add enrolment.json --kit kits/operator-s0
    """
    from sedml.service.kits import load_enrolment

    document = load_enrolment(enrolment)
    if document.organisation != organisation:
        named = document.organisation
        raise InputError(
            f"The enrolment of {document.name} names {f'the organisation {named}' if named else 'no organisation'}.",
            f"If you know that to be true, {f'say --organisation {named}' if named else 'leave out --organisation'}.",
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
