"""Making the kits of a whole deployment at once: authority, both servers, their operators, teachers and
requesters.

Whoever runs this holds every secret of the deployment for a moment. It suits a trial, or parties who trust the one who
hands the kits out; otherwise teachers and requesters join by `enrolment`, and their tokens never leave them.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from sedml import Progress, silent
from sedml.errors import InputError
from sedml.mpc.channel.certificates import issue_certificate, make_authority
from sedml.service.kits.addresses import Address, parse_address
from sedml.service.kits.client_kit import SERVERS, Access, client_text
from sedml.service.kits.folder import format_toml, new_folder, write_private
from sedml.service.kits.server_kit import ACCOUNTS, Enrolled, server_text
from sedml.service.kits.tokens import new_token, token_hash
from sedml.service.messages import Role, ServerName

__all__ = ["AUTHORITY", "LONGEST_DAYS", "OWN_HOSTS", "check_promise", "client_names", "provision"]

AUTHORITY = "authority"

_MOST = 100_000
LONGEST_DAYS = 3_650
"""The most days that a server's certificate may be good for."""
OWN_HOSTS = ("localhost", "127.0.0.1", "::1")
"""What stands in every server's certificate, for checks that run on its own machine."""
_LINK_OFFSET = 100
_SETTINGS = """\
# Settings of this server; what is not here has its default, and a variable SEDML_SERVER__... of the environment goes
# first. Single settings, such as max_samples = 1000000, stand above the first table.

"""


def provision(
    out: Path,
    servers: tuple[str, str],
    link: str | None,
    teachers: int,
    requesters: int,
    *,
    days: int = 365,
    budget: tuple[float, float] = (10.0, 1e-5),
    names: Mapping[ServerName, Sequence[str]] = MappingProxyType({}),
    progress: Progress = silent,
) -> None:
    """Make a folder with a kit for every party, or nothing at all if it cannot be done.

    `servers` and `link` are host:port; S1 finds S0 at `link`, unless given at S0's host and its port + 100. The
    servers' certificates are good for so many `days`, the authority's for ten years more, so that new ones can be
    issued under it. `budget` is the epsilon and delta promised to the cohort "teachers". A server's certificate has the
    host that it is given in `servers`, those in `names`, and those by which its machine knows itself.
    """
    at, link_at = _addresses(servers, link)
    _check_numbers(teachers, requesters, days)
    check_promise(*budget)
    clients: list[tuple[str, Role, tuple[ServerName, ...]]] = [
        ("operator-s0", "operator", ("s0",)),
        ("operator-s1", "operator", ("s1",)),
        *((name, "teacher", SERVERS) for name in client_names("teacher", teachers)),
        *((name, "requester", SERVERS) for name in client_names("requester", requesters)),
    ]
    authority = make_authority("SEDML deployment", days=days + LONGEST_DAYS)
    with new_folder(out) as folder:
        place = _subfolder(folder, AUTHORITY)
        write_private(place / "ca.pem", authority.certificate)
        write_private(place / "ca.key", authority.key)
        accounts: dict[ServerName, list[Enrolled]] = {name: [] for name in SERVERS}
        for done, (name, role, reached) in enumerate(clients, start=1):
            access = {server: Access(at[server].url, new_token()) for server in reached}
            place = _subfolder(folder, name)
            write_private(place / "kit.toml", client_text(name, role, secrets.token_bytes(32), access))
            write_private(place / "ca.pem", authority.certificate)
            for server in reached:
                accounts[server].append(Enrolled(name, role, token_hash(access[server].token)))
            progress("making kits", done, len(clients))
        for server in SERVERS:
            place = _subfolder(folder, server)
            hosts = [at[server].host, *names.get(server, ()), *OWN_HOSTS]
            credentials = issue_certificate(authority, server, days=days, hosts=hosts)
            listen = Address(at[server].listens, at[server].port)
            # S0 listens at its end of the link, S1 dials it: the address S0 is known by may not be of its machine.
            joined = Address(link_at.listens, link_at.port) if server == "s0" else link_at
            other = at["s1" if server == "s0" else "s0"]
            write_private(place / "kit.toml", server_text(server, listen, joined, other))
            write_private(place / "ca.pem", authority.certificate)
            write_private(place / "server.pem", credentials.certificate)
            write_private(place / "server.key", credentials.key)
            write_private(place / "storage.key", secrets.token_hex(32) + "\n")
            write_private(place / "accounts.json", ACCOUNTS.dump_json(tuple(accounts[server]), indent=1))
            write_private(place / "server.toml", _settings(budget))


def client_names(role: Role, count: int) -> list[str]:
    """teacher-001 and so on, all of the same length; requester-1 and so on."""
    width = max(3, len(str(count))) if role == "teacher" else 1
    return [f"{role}-{number:0{width}}" for number in range(1, count + 1)]


def check_promise(epsilon: float, delta: float) -> None:
    """Raise unless this can be promised to teachers."""
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 < delta < 1):
        raise InputError(
            f"Epsilon {epsilon:g} and delta {delta:g} are not a valid privacy budget.",
            "Use an epsilon above 0, and a delta between 0 and 1, such as 1e-5.",
        )


def _addresses(servers: tuple[str, str], link: str | None) -> tuple[dict[ServerName, Address], Address]:
    if len(servers) != len(SERVERS):
        raise InputError(f"{len(servers)} servers were given.", "Give two, S0 and S1, each as host:port.")
    at = {name: parse_address(text) for name, text in zip(SERVERS, servers, strict=True)}
    if link is None:
        default = Address(at["s0"].host, at["s0"].port + _LINK_OFFSET)
        if default.port > 65_535:
            raise InputError(f"The link cannot use port {default.port}.", "Give the link's own host:port.")
        link_at = default
    else:
        link_at = parse_address(link)
    if len({*at.values(), link_at}) != 3:
        raise InputError(
            f"S0 ({at['s0']}), S1 ({at['s1']}) and the link ({link_at}) share an address.", "Give each its own."
        )
    return at, link_at


def _check_numbers(teachers: int, requesters: int, days: int) -> None:
    for what, number, low, high in (
        ("teachers", teachers, 0, _MOST),
        ("requesters", requesters, 0, _MOST),
        ("days", days, 1, LONGEST_DAYS),
    ):
        if not low <= number <= high:
            raise InputError(f"The number of {what} is {number}.", f"Use {low} to {high:,}.")


def _settings(budget: tuple[float, float]) -> str:
    epsilon, delta = map(float, budget)
    return _SETTINGS + format_toml({}, {"budgets.teachers": {"epsilon": epsilon, "delta": delta}})


def _subfolder(folder: Path, name: str) -> Path:
    place = folder / name
    place.mkdir(mode=0o700)
    return place
