"""Commands that write kits: `provision`, `enrol`; `rotate` for a client's tokens, `certify`, `rekey` for a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.output import AsJson, answer, stages
from sedml.privacy.unit import ORGANISATION

_ServerKit = Annotated[Path, typer.Argument(help="The kit of the server, such as kits/s0.")]
_Servers = Annotated[
    str, typer.Option(help="Where clients find S0 and S1: host:port,host:port.", metavar="S0,S1", show_default=False)
]


def provision(
    *,
    servers: _Servers,
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
    budget_unit: Annotated[
        str,
        typer.Option(
            help="Whom that promise protects: each organisation, or each of those whose data it holds: say patient, "
            "customer, or another word."
        ),
    ] = ORGANISATION,
    as_json: AsJson = False,
) -> None:
    """Make the kits of a deployment: a folder with keys and tokens for each server, operator, teacher and requester.

    Whoever runs this sees every secret once. If nobody shall, give --teachers 0 and let everybody make their
    own kit with `sedml enrol`.

    Example: sedml provision --out kits --servers s0.example:8440,s1.example:8441 --teachers 250 --requesters 1

    Example: sedml provision --out kits --servers s0.example:8440,s1.example:8441 --teachers 8 --budget-unit patient
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
            unit=budget_unit,
            names={"s0": _split_names(s0_names), "s1": _split_names(s1_names)},
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
    document: dict[str, Any] = {key: [str(out / name) for name in names] for key, names in folders.items()}
    answer(
        as_json,
        {"folder": str(out), "fingerprint": fingerprint} | document,
        _handover(out, folders),
        f"SHA-256 of the authority's certificate, for whoever joins later: {fingerprint}",
        "Give each folder only to its owner, through a channel that nobody else can read, and delete your copy.",
        Text.assemble(
            (f"Keep {out / 'authority'} offline:", "bold yellow"), " whoever has its ca.key can pose as both servers."
        ),
    )


def enrol(
    name: Annotated[str, typer.Argument(help="Your name at the servers: lower-case letters, digits, '.', '_', '-'.")],
    servers: _Servers,
    ca: Annotated[Path, typer.Option(help="The operators' ca.pem.")],
    role: Annotated[Literal["teacher", "requester"], typer.Option(help="Your role.")] = "teacher",
    organisation: Annotated[
        str | None,
        typer.Option(help="Your organisation, if it has another name. It votes once, however many kits it has."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder. Default: NAME.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Make your own kit, and an enrolment.json for both operators; your tokens never leave the folder.

    Example: sedml enrol clinic-7 --role teacher --servers s0.example:8440,s1.example:8441 --ca ca.pem
    """
    from sedml.service import kits

    folder = Path(name) if out is None else out
    enrolment = kits.enrol(folder, name, role, _both(servers), ca, organisation)
    fingerprint = kits.authority_fingerprint((folder / "ca.pem").read_bytes())
    answer(
        as_json,
        {"folder": str(folder), "fingerprint": fingerprint, "enrolment": enrolment.model_dump()},
        f"Your kit is {folder}. Keep it to yourself.",
        f"Send {folder / 'enrolment.json'} to both operators; it contains no secret.",
        f"Check its SHA-256 with them through another channel than the one ca.pem came by: {fingerprint}",
    )


def certify(
    kit: _ServerKit,
    authority: Annotated[Path, typer.Option(help="The folder with the authority's ca.pem and ca.key.")],
    days: Annotated[int, typer.Option(help="How many days the new certificate is valid.")] = 365,
    names: Annotated[
        str,
        typer.Option(
            help="Names and addresses of the server to add to those it has, with commas between them.",
            show_default=False,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Give a server a new key and certificate, both or neither, and revoke the old certificate.

    Clients do not notice: they trust the authority, which stays the same. The
    new certificate has the host names of the old one, and those of --names. The
    old one is refused by everybody who has the authority's new list,
    revoked.pem.

    Example: sedml certify kits/s0 --authority kits/authority
    """
    from sedml.service import kits

    expires = kits.renew_certificate(kit, authority, days, _split_names(names))
    hosts = kits.ServerKit.load(kit).host_names
    answer(
        as_json,
        {"kit": str(kit), "expires": expires.isoformat(), "names": hosts},
        f"{kit} has a new certificate, valid until {expires:%Y-%m-%d}.",
        f"By its host name, programs find it at: {', '.join(hosts)}.",
        "If the server is running, send it SIGHUP (kill -HUP PID, or systemctl reload) to use it; nobody is cut off.",
        f"After that, give {authority / kits.REVOKED} to the other operator, to copy into the kit of the other server "
        "and send that SIGHUP: until then it takes whoever has the old key for this server.",
    )


def rekey(
    kit: _ServerKit,
    as_json: AsJson = False,
) -> None:
    """Give a server a new storage key; at its next start it encrypts its store anew, then forgets the old key.

    Example: sedml rekey kits/s0
    """
    from sedml.service import kits

    kits.ServerKit.load(kit)
    kits.new_storage_key(kit)
    answer(
        as_json,
        {"kit": str(kit)},
        f"{kit} has a new storage key, and the old one next to it.",
        "Restart the server when it is not in the middle of a job: it encrypts its store anew before it answers.",
    )


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


def _split_names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name for part in text.split(",") if (name := part.strip())]


def _both(servers: str) -> tuple[str, str]:
    parts = [part.strip() for part in servers.split(",")]
    if len(parts) != 2:
        raise typer.BadParameter("two addresses are needed, such as s0.example:8440,s1.example:8441.")
    return parts[0], parts[1]


def _handover(out: Path, folders: dict[str, list[str]]) -> Table:
    table = Table("folder", "goes to", "who then runs", title=f"Kits in {out}", title_justify="left")
    for server, other in (("s0", "S1"), ("s1", "S0")):
        table.add_row(server, f"the machine of {server.upper()}; not to {other}'s operator", f"sedml serve {server}")
        table.add_row(f"operator-{server}", f"the operator of {server.upper()}", "")
    for role in ("teachers", "requesters"):
        if names := folders[role]:
            span = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
            table.add_row(span, f"each to its {role.removesuffix('s')}", "")
    table.add_row("authority", "nobody: offline, to issue the next certificates", "")
    return table
