"""`sedml certify` and `sedml rekey`: a server's next certificate, and its next storage key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sedml.cli.output import print_json, show

__all__ = ["certify", "rekey", "split_names"]


def certify(
    kit: Annotated[Path, typer.Argument(help="The kit of the server, such as kits/s0.")],
    authority: Annotated[Path, typer.Option(help="The folder with the authority's ca.pem and ca.key.")],
    days: Annotated[int, typer.Option(help="How many days the new certificate is valid.")] = 365,
    names: Annotated[
        str,
        typer.Option(
            help="Names and addresses of the server to add to those it has, with commas between them.",
            show_default=False,
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Give a server a new key and certificate, replacing both in its kit or neither, and revoke the one it had.

    Clients do not notice: they trust the authority, which stays the same. It
    has the host names of the certificate that it replaces, and --names. The
    certificate that was replaced is refused by whoever has the authority's new
    list, revoked.pem.

    Example: sedml certify kits/s0 --authority kits/authority
    """
    from sedml.service import kits

    expires = kits.renew_certificate(kit, authority, days, split_names(names))
    hosts = kits.ServerKit.load(kit).host_names
    if as_json:
        print_json({"kit": str(kit), "expires": expires.isoformat(), "names": hosts})
        return
    show(
        f"{kit} has a new certificate, valid until {expires:%Y-%m-%d}.",
        f"By its host name, programs find it at: {', '.join(hosts)}.",
        "If the server is running, send it SIGHUP (kill -HUP PID, or systemctl reload) to use it; nobody is cut off.",
        f"After that, give {authority / kits.REVOKED} to the other operator, to copy into the kit of the other server "
        "and send that SIGHUP: until then it takes whoever has the old key for this server.",
    )


def rekey(
    kit: Annotated[Path, typer.Argument(help="The kit of the server, such as kits/s0.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
) -> None:
    """Give a server a new storage key; at its next start it encrypts its store anew, then forgets the old key.

    Example: sedml rekey kits/s0
    """
    from sedml.service import kits

    kits.ServerKit.load(kit)
    kits.new_storage_key(kit)
    if as_json:
        print_json({"kit": str(kit)})
        return
    show(
        f"{kit} has a new storage key, and the old one next to it.",
        "Restart the server when it is not in the middle of a job: it encrypts its store anew before it answers.",
    )


def split_names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name for part in text.split(",") if (name := part.strip())]
