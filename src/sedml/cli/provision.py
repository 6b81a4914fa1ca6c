"""`sedml provision` and `sedml enrol`: the kits of a deployment, and one that joins it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.certify import split_names
from sedml.cli.output import print_json, show, stages

__all__ = ["enrol", "provision"]


def provision(
    *,
    servers: Annotated[
        str,
        typer.Option(help="Where clients find S0 and S1: host:port,host:port.", metavar="S0,S1", show_default=False),
    ],
    teachers: Annotated[int, typer.Option(help="Kits for teachers, named teacher-001 and so on.")],
    requesters: Annotated[int, typer.Option(help="Kits for requesters, named requester-1 and so on.")] = 1,
    out: Annotated[Path, typer.Option(help="A new folder; it must not exist or must be empty.")] = Path("kits"),
    link: Annotated[
        str | None,
        typer.Option(help="host:port where S1 reaches S0. Default: S0's host, and its port + 100."),
    ] = None,
    days: Annotated[int, typer.Option(help="How many days the servers' certificates are valid.")] = 365,
    s0_names: Annotated[
        str,
        typer.Option(
            help="More names and addresses of S0 for its certificate, with commas between them: s0.internal,10.0.0.5.",
            show_default=False,
        ),
    ] = "",
    s1_names: Annotated[str, typer.Option(help="The same for S1.", show_default=False)] = "",
    budget_epsilon: Annotated[
        float,
        typer.Option(help="Epsilon promised to the teachers for all jobs together: the most privacy they can lose."),
    ] = 10.0,
    budget_delta: Annotated[float, typer.Option(help="The delta of that promise.")] = 1e-5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Make the kits of a deployment: a folder with keys and tokens for each server, operator, teacher and requester.

    Whoever runs this sees every secret once. If that is too much trust, give --teachers 0 and let everybody make their
    own kit with `sedml enrol`.

    Example: sedml provision --out kits --servers s0.example:8440,s1.example:8441 --teachers 250 --requesters 1
    """
    from sedml.service import kits
    from sedml.service.kits.provisioning import client_names

    with stages() as progress:
        kits.provision(
            out,
            _both(servers),
            link,
            teachers,
            requesters,
            days=days,
            budget=(budget_epsilon, budget_delta),
            names={"s0": split_names(s0_names), "s1": split_names(s1_names)},
            progress=progress,
        )
    fingerprint = kits.authority_fingerprint((out / "authority" / "ca.pem").read_bytes())
    folders = {
        "authority": ["authority"],
        "servers": ["s0", "s1"],
        "operators": ["operator-s0", "operator-s1"],
        "teachers": client_names("teacher", teachers),
        "requesters": client_names("requester", requesters),
    }
    if as_json:
        document: dict[str, Any] = {key: [str(out / name) for name in names] for key, names in folders.items()}
        print_json({"folder": str(out), "fingerprint": fingerprint} | document)
        return
    show(
        _handover(out, folders),
        f"SHA-256 of the authority's certificate, for whoever joins later: {fingerprint}",
        "Give each folder only to its owner, through a channel that nobody else can read, and delete your copy.",
        Text.assemble(
            (f"Keep {out / 'authority'} offline:", "bold yellow"), " whoever has its ca.key can pose as both servers."
        ),
    )


def enrol(
    name: Annotated[str, typer.Argument(help="Your name at the servers: lower-case letters, digits, '-'.")],
    servers: Annotated[
        str, typer.Option(help="Where S0 and S1 are: host:port,host:port.", metavar="S0,S1", show_default=False)
    ],
    ca: Annotated[Path, typer.Option(help="The operators' ca.pem.")],
    role: Annotated[Literal["teacher", "requester"], typer.Option(help="Your role.")] = "teacher",
    out: Annotated[Path | None, typer.Option(help="A new folder. Default: NAME.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the enrolment as one JSON document.")] = False,
) -> None:
    """Make your own kit, and an enrolment.json for both operators; your tokens never leave the folder.

    Example: sedml enrol clinic-7 --role teacher --servers s0.example:8440,s1.example:8441 --ca ca.pem
    """
    from sedml.service import kits

    folder = Path(name) if out is None else out
    enrolment = kits.enrol(folder, name, role, _both(servers), ca)
    fingerprint = kits.authority_fingerprint((folder / "ca.pem").read_bytes())
    if as_json:
        print_json({"folder": str(folder), "fingerprint": fingerprint, "enrolment": enrolment.model_dump()})
        return
    show(
        f"Your kit is {folder}. Keep it to yourself.",
        f"Send {folder / 'enrolment.json'} to both operators; it contains no secret.",
        f"Check its SHA-256 with them through another channel than the one ca.pem came by: {fingerprint}",
    )


def _both(servers: str) -> tuple[str, str]:
    parts = [part.strip() for part in servers.split(",")]
    if len(parts) != 2:
        raise typer.BadParameter("two addresses are needed, such as s0.example:8440,s1.example:8441.")
    return parts[0], parts[1]


def _handover(out: Path, folders: dict[str, list[str]]) -> Table:
    table = Table(title=f"Kits in {out}", title_justify="left")
    table.add_column("folder")
    table.add_column("goes to")
    table.add_column("who then runs")
    for server in ("s0", "s1"):
        other = "s1" if server == "s0" else "s0"
        table.add_row(
            server, f"the machine of {server.upper()}; not to {other.upper()}'s operator", f"sedml serve {server}"
        )
        table.add_row(f"operator-{server}", f"the operator of {server.upper()}", "")
    for role in ("teachers", "requesters"):
        if names := folders[role]:
            span = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
            table.add_row(span, f"each to its {role.removesuffix('s')}", "")
    table.add_row("authority", "nobody: offline, to issue the next certificates", "")
    return table
