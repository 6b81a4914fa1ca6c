"""`sedml account` and `sedml rotate`: who may call a server, and new tokens for oneself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sedml.cli.clients import KitOption, find_operator
from sedml.cli.output import AsJson, answer

__all__ = ["account", "rotate"]

account = typer.Typer(help="Accounts at a server, for its operator.", no_args_is_help=True)


@account.command()
def add(
    enrolment: Annotated[
        Path, typer.Argument(help="The enrolment.json that a teacher or requester made with `sedml enrol`.")
    ],
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Add an account for a teacher or requester to your server. The other operator does the same at theirs.

    Example: sedml account add enrolment.json --kit kits/operator-s0
    """
    from sedml.service.kits import load_enrolment

    document = load_enrolment(enrolment)
    operator, server = find_operator(kit)
    made = operator.add_account(document)
    line = f"{made.role.capitalize()} {made.name} may call {server.upper()}."
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
    table = Table("name", "role", "since", "revoked", title=f"Accounts of {server.upper()}", title_justify="left")
    for one in found:
        gone = "" if one.revoked_at is None else f"{one.revoked_at:%Y-%m-%d}"
        table.add_row(one.name, one.role, f"{one.created_at:%Y-%m-%d}", gone)
    answer(as_json, {"accounts": [one.model_dump(mode="json") for one in found]}, table)


def rotate(
    kit: Annotated[Path, typer.Option(envvar="SEDML_KIT", help="Folder of your kit.")],
    as_json: AsJson = False,
) -> None:
    """Replace your kit's tokens at every server that it has access to.

    If it is interrupted, the kit keeps working, and the same command finishes the job.

    Example: sedml rotate --kit kits/teacher-007
    """
    import anyio

    from sedml.service.client.administration import rotate as replace
    from sedml.service.kits import ClientKit

    replaced = anyio.run(replace, ClientKit.load(kit))
    line = f"{replaced.name} has new tokens for {' and '.join(name.upper() for name in replaced.servers)}."
    answer(as_json, {"name": replaced.name, "servers": list(replaced.servers)}, line)
