"""`sedml account` and `sedml rotate`: who may call a server, and new tokens for oneself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sedml.cli.clients import AsJson, KitOption, find_kit
from sedml.cli.output import print_json, show, stages

if TYPE_CHECKING:
    from sedml.service.client import Operator

__all__ = ["account", "rotate"]

account = typer.Typer(help="Accounts at a server, for its operator.", no_args_is_help=True)


@account.callback()
def _group() -> None:
    """Accounts at a server, for its operator."""


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
    operator = _operator(kit)
    with stages():
        made = operator.add_account(document)
    if as_json:
        print_json(made.model_dump(mode="json"))
    else:
        show(f"{made.role.capitalize()} {made.name} may call {_server(operator)}.")


@account.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The name of the account.")],
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Revoke an account's access to your server, at once.

    Example: sedml account revoke teacher-007 --kit kits/operator-s0
    """
    operator = _operator(kit)
    with stages():
        revoked = operator.revoke_account(name)
    if as_json:
        print_json(revoked.model_dump(mode="json"))
    else:
        show(f"{revoked.name} may not call {_server(operator)} any more. Tell the other operator.")


@account.command("list")
def list_(kit: KitOption = None, as_json: AsJson = False) -> None:
    """List the accounts of your server.

    Example: sedml account list --kit kits/operator-s0
    """
    operator = _operator(kit)
    with stages():
        found = operator.accounts()
    if as_json:
        print_json({"accounts": [one.model_dump(mode="json") for one in found]})
        return
    table = Table(title=f"Accounts of {_server(operator)}", title_justify="left")
    for column in ("name", "role", "since", "revoked"):
        table.add_column(column)
    for one in found:
        gone = "" if one.revoked_at is None else f"{one.revoked_at:%Y-%m-%d}"
        table.add_row(one.name, one.role, f"{one.created_at:%Y-%m-%d}", gone)
    show(table)


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

    with stages():
        replaced = anyio.run(replace, ClientKit.load(kit))
    if as_json:
        print_json({"name": replaced.name, "servers": list(replaced.servers)})
    else:
        show(f"{replaced.name} has new tokens for {' and '.join(name.upper() for name in replaced.servers)}.")


def _operator(kit: Path | None) -> Operator:
    from sedml.service.client import Operator

    return Operator(find_kit(kit, "operator"))


def _server(operator: Operator) -> str:
    return next(iter(operator.asynchronous.kit.servers)).upper()
