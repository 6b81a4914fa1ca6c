"""Making kits: those of a whole deployment at once, and one of a client that joins it.

Whoever provisions a deployment holds every secret of it for a moment. It suits a trial, or parties who trust the one
who hands the kits out. Otherwise teachers and requesters enrol: each makes its own kit, and gives the operators nothing
but hashes of its tokens.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from sedml import Progress, silent
from sedml.errors import InputError, KitError
from sedml.mpc.certificates import issue_certificate, make_authority
from sedml.privacy.charging import MOST_EPSILON
from sedml.privacy.unit import ORGANISATION, Unit
from sedml.service.kits.addresses import Address, parse_address
from sedml.service.kits.client_kit import NAME, SERVERS, Access, client_text, new_token, token_hash
from sedml.service.kits.folder import finding, format_toml, new_folder, read_small, write_private
from sedml.service.kits.log_key import new_log_key
from sedml.service.kits.server_kit import ACCOUNTS, STORAGE_KEY, Enrolled, server_text
from sedml.service.kits.trusted import read_authority
from sedml.service.messages import Role, ServerName
from sedml.service.server_messages import Enrolment, TokenHash
from sedml.service.terms import Name

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

Joining: TypeAlias = Literal["teacher", "requester"]
"""Roles that make their own kits."""


class Enrolments(BaseModel):
    """The public document of a client that wants to join: no token can be told from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    organisation: Name | None = None
    """Whose kit it is, if that has another name."""
    role: Joining
    s0: TokenHash
    s1: TokenHash

    def at(self, server: ServerName) -> Enrolment:
        """What the operator of this server gives to it."""
        token_hash = self.s0 if server == "s0" else self.s1
        return Enrolment(role=self.role, token_hash=token_hash, organisation=self.organisation)


def provision(
    out: Path,
    servers: tuple[str, str],
    link: str | None,
    teachers: int,
    requesters: int,
    *,
    days: int = 365,
    budget: tuple[float, float] = (10.0, 1e-5),
    unit: str = ORGANISATION,
    names: Mapping[ServerName, Sequence[str]] = MappingProxyType({}),
    progress: Progress = silent,
) -> None:
    """Make a folder with a kit for every party, or nothing at all if it cannot be done.

    `servers` and `link` are host:port; S1 finds S0 at `link`, unless given at S0's host and its port + 100. The
    servers' certificates are good for so many `days`, the authority's for ten years more, so that new ones can be
    issued under it. `budget` is the epsilon and delta promised to each `unit` of the cohort "teachers". A server's
    certificate has the host that it is given in `servers`, those in `names`, and those by which its machine knows
    itself.
    """
    at, link_at = _addresses(servers, link)
    _check_numbers(teachers, requesters, days)
    _check_promise(*budget)
    promise: dict[str, str | int | float] = {
        "epsilon": float(budget[0]),
        "delta": float(budget[1]),
        "unit": Unit(unit).name,
    }
    clients: list[tuple[str, Role, tuple[ServerName, ...]]] = [
        ("operator-s0", "operator", ("s0",)),
        ("operator-s1", "operator", ("s1",)),
        *((name, "teacher", SERVERS) for name in client_names("teacher", teachers)),
        *((name, "requester", SERVERS) for name in client_names("requester", requesters)),
    ]
    authority = make_authority("SEDML deployment", days=days + LONGEST_DAYS)
    with new_folder(out) as folder:
        _fill(folder / "authority", {"ca.pem": authority.certificate, "ca.key": authority.key})
        accounts: dict[ServerName, list[Enrolled]] = {name: [] for name in SERVERS}
        for done, (name, role, reached) in enumerate(clients, start=1):
            access = {server: Access(at[server].url, new_token()) for server in reached}
            _fill(folder / name, _client_files(name, role, access, authority.certificate))
            for server in reached:
                accounts[server].append(Enrolled(name, role, token_hash(access[server].token)))
            progress("making kits", done, len(clients))
        for server in SERVERS:
            hosts = [at[server].host, *names.get(server, ()), *OWN_HOSTS]
            credentials = issue_certificate(authority, server, days=days, hosts=hosts)
            listen = Address(at[server].listens, at[server].port)
            # S0 listens at its end of the link, S1 dials it: the address S0 is known by may not be of its machine.
            joined = Address(link_at.listens, link_at.port) if server == "s0" else link_at
            other = at["s1" if server == "s0" else "s0"]
            files: dict[str, str | bytes] = {
                "kit.toml": server_text(server, listen, joined, other),
                "ca.pem": authority.certificate,
                "server.pem": credentials.certificate,
                "server.key": credentials.key,
                **new_log_key(authority, server),
                STORAGE_KEY: secrets.token_hex(32) + "\n",
                "accounts.json": ACCOUNTS.dump_json(tuple(accounts[server]), indent=1),
                "server.toml": _SETTINGS + format_toml({}, {"budgets.teachers": promise}),
            }
            _fill(folder / server, files)


def enrol(
    out: Path, name: str, role: Joining, servers: tuple[str, str], authority: Path, organisation: str | None = None
) -> Enrolments:
    """Make a client's kit in a new folder, and in it `enrolment.json` for both operators.

    `servers` are the addresses of S0 and S1, `authority` is the operators' ca.pem: compare its fingerprint with them.
    """
    for one in (name, organisation or name):
        if re.fullmatch(NAME, one) is None:
            raise InputError(f"{one!r} cannot be a name.", "Use lower-case letters, digits, '.', '_' and '-'.")
    if role not in get_args(Joining):
        what = f"A kit for the role {role!r} cannot be made this way."
        raise InputError(what, f"Use {', '.join(get_args(Joining))}.")
    at = _both(servers)
    if at["s0"] == at["s1"]:
        raise InputError("S0 and S1 have the same address.", "Give each its own.")
    certificate = read_authority(authority)
    access = {server: Access(address.url, new_token()) for server, address in at.items()}
    hashes = {server: token_hash(access[server].token) for server in SERVERS}
    document = Enrolments(name=name, organisation=organisation, role=role, **hashes)
    with new_folder(out) as folder:
        files = _client_files(name, role, access, certificate)
        _fill(folder, files | {"enrolment.json": document.model_dump_json(indent=1)})
    return document


def load_enrolment(path: Path) -> Enrolments:
    """Read a client's `enrolment.json`."""
    try:
        return Enrolments.model_validate_json(read_small(path))
    except ValidationError as error:
        where, how = finding(error)
        what = f"{path} is not an enrolment ({where}: {how.lower()})."
        raise KitError(what, "Ask for the enrolment.json that `sedml enrol` made.") from None


def client_names(role: Role, count: int) -> list[str]:
    """teacher-001 and so on, all of the same length; requester-1 and so on."""
    width = max(3, len(str(count))) if role == "teacher" else 1
    return [f"{role}-{number:0{width}}" for number in range(1, count + 1)]


def _check_promise(epsilon: float, delta: float) -> None:
    """Raise unless a server's ledger can promise this to teachers."""
    if not (0 < epsilon <= MOST_EPSILON and 0 < delta < 1):
        raise InputError(
            f"Epsilon {epsilon:g} and delta {delta:g} are not a valid privacy budget.",
            f"Use an epsilon above 0, up to {MOST_EPSILON:,.0f}, and a delta between 0 and 1, such as 1e-5.",
        )


def _both(servers: tuple[str, str]) -> dict[ServerName, Address]:
    if len(servers) != len(SERVERS):
        raise InputError(f"{len(servers)} servers were given.", "Give two, S0 and S1, each as host:port.")
    return {name: parse_address(text) for name, text in zip(SERVERS, servers, strict=True)}


def _addresses(servers: tuple[str, str], link: str | None) -> tuple[dict[ServerName, Address], Address]:
    at = _both(servers)
    link_at = Address(at["s0"].host, at["s0"].port + _LINK_OFFSET) if link is None else parse_address(link)
    if link_at.port > 65_535:
        raise InputError(f"The link cannot use port {link_at.port}.", "Give the link's own host:port.")
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


def _client_files(
    name: str, role: Role, access: Mapping[ServerName, Access], authority: bytes
) -> dict[str, str | bytes]:
    return {"kit.toml": client_text(name, role, secrets.token_bytes(32), access), "ca.pem": authority}


def _fill(folder: Path, files: Mapping[str, str | bytes]) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, content in files.items():
        write_private(folder / name, content)
