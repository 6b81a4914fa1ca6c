"""The kit of a client: who it is, where the servers are, and the bearer tokens that prove it to each of them.

A token is 256 random bits; a server keeps only its hash.

A token is replaced in three steps, so that a crash at any point loses nothing: `save_token` writes the new one to the
kit next to the old one; the server is given the hash of the new one, with the old one as proof; `confirm_token`
forgets the old one. A kit found in between has a `previous_token`: whichever of the two the server takes is good.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, cast, get_args

from sedml.errors import InputError, KitError, counted
from sedml.service.kits.addresses import parse_address
from sedml.service.kits.folder import Value, allow_only, format_toml, locked, read_toml, replace_private, take
from sedml.service.kits.trusted import read_trusted
from sedml.service.messages import Role, ServerName, a_role

SERVERS: tuple[ServerName, ...] = get_args(ServerName)
NAME = r"[a-z0-9][a-z0-9._-]{0,62}"
"""The same names as `sedml.service.terms.Name`."""

TOKEN = r"sedml_[A-Za-z0-9_-]{43}"  # noqa: S105 - what one looks like
"""A regular expression for all tokens and nothing else."""
_SECRET = r"[0-9a-f]{64}"  # noqa: S105 - what one looks like


def new_token() -> str:
    """A token that nobody else has."""
    return f"sedml_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> str:
    """What a server stores of a token, 64 hexadecimal digits; any text has one."""
    # A token cannot be guessed, so no salt or slow hash is needed to keep it from being guessed.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Access:
    """How a client gets to one server."""

    url: str
    token: str = field(repr=False)
    previous_token: str | None = field(default=None, repr=False)
    """The token before this one, while it is not certain that the server has taken the new one."""


@dataclass(frozen=True)
class ClientKit:
    """What a teacher, a requester or an operator holds."""

    folder: Path
    name: str
    role: Role
    secret: bytes = field(repr=False)
    """Ballots are derived from it, so that a repetition sends the same bytes."""
    authority: bytes = field(repr=False)
    """What it trusts, as `read_trusted` has it."""
    servers: dict[ServerName, Access]

    @classmethod
    def load(cls, folder: str | Path, role: Role | None = None) -> Self:
        """Read a kit, of this role if one is given."""
        folder = Path(folder)
        path = folder / "kit.toml"
        table = read_toml(path)
        if "listen" in table:
            beside = sorted(path.name for path in folder.absolute().parent.glob(f"operator-{folder.name}*"))
            whose = f"its operator's, {folder.parent / beside[0]}" if beside else "that of a client, as requester-1"
            raise KitError(f"{folder} is the kit of a server.", f"Give {whose}.")
        allow_only(table, {"name", "role", "secret", *SERVERS}, path)
        found = take(table, "role", "|".join(get_args(Role)), path, f"one of {', '.join(get_args(Role))}")
        if role is not None and found != role:
            raise KitError(
                f"{folder} is the kit of {a_role(found)}, not of {a_role(role)}.", f"Give the kit of {a_role(role)}."
            )
        return cls(
            folder=folder,
            name=take(table, "name", NAME, path, "lower-case letters, digits, '.', '_' and '-', 63 at most"),
            role=cast(Role, found),
            secret=bytes.fromhex(take(table, "secret", _SECRET, path, "64 lower-case hexadecimal digits")),
            authority=read_trusted(folder),
            servers=_servers(table, found, path),
        )


def client_text(name: str, role: Role, secret: bytes, servers: Mapping[ServerName, Access]) -> str:
    """The kit.toml of a client."""
    tables: dict[str, dict[str, Value]] = {}
    for server, access in servers.items():
        tables[server] = {"url": access.url, "token": access.token}
        if access.previous_token is not None:
            tables[server]["previous_token"] = access.previous_token
    return format_toml({"name": name, "role": role, "secret": secret.hex()}, tables)


def save_token(kit: ClientKit, server: ServerName, token: str) -> ClientKit:
    """Write a new token for a server to the kit and keep the old one next to it; do this before the server is told.

    While a replacement is not confirmed no other one is taken: the server may know either token of it.
    """
    if take({"token": token}, "token", TOKEN, kit.folder, "one of `new_token`") == _access(kit, server).token:
        return kit
    with locked(kit.folder):
        newest = _unchanged(kit, server)
        access = newest.servers[server]
        if access.previous_token is not None:
            raise KitError(
                f"The token for {server} in {kit.folder} is being replaced already.",
                "Finish that first: give the server the hash of the newer token, then confirm it.",
            )
        return _write(newest, server, Access(access.url, token, access.token))


def confirm_token(kit: ClientKit, server: ServerName) -> ClientKit:
    """Forget the old token, once the server has taken the new one."""
    with locked(kit.folder):
        newest = _unchanged(kit, server)
        access = newest.servers[server]
        return kit if access.previous_token is None else _write(newest, server, Access(access.url, access.token))


def _write(kit: ClientKit, server: ServerName, access: Access) -> ClientKit:
    servers = kit.servers | {server: access}
    replace_private(kit.folder / "kit.toml", client_text(kit.name, kit.role, kit.secret, servers))
    return replace(kit, servers=servers)


def _unchanged(kit: ClientKit, server: ServerName) -> ClientKit:
    """The kit on disk, if this access is the same; the token for the other server may have been replaced since."""
    newest = ClientKit.load(kit.folder)
    if (newest.name, newest.role) != (kit.name, kit.role) or _access(newest, server) != _access(kit, server):
        raise KitError(f"{kit.folder} was changed since it was read.", "Load the kit again and try again.")
    return newest


def _access(kit: ClientKit, server: ServerName) -> Access:
    if server not in kit.servers:
        raise KitError(f"{kit.folder} has no access to {server}.", "Use a kit that does.")
    return kit.servers[server]


def _servers(table: Mapping[str, Any], role: str, path: Path) -> dict[ServerName, Access]:
    found = {server: _table(table[server], server, path) for server in SERVERS if server in table}
    needed = 1 if role == "operator" else len(SERVERS)
    if len(found) != needed:
        raise KitError(
            f"{path} has {counted(len(found), 'server')}.",
            "An operator's kit has one table, [s0] or [s1]." if needed == 1 else "It needs the tables [s0] and [s1].",
        )
    return found


def _table(entry: object, server: ServerName, path: Path) -> Access:
    if not isinstance(entry, dict):
        raise KitError(f"{server!r} in {path} is not a table.", "Restore it from your copy of the kit.")
    # Said of the table it stands in, so that the two tokens are told apart.
    place = path.with_name(f"{path.name} [{server}]")
    allow_only(entry, {"url", "token", "previous_token"}, place)
    form = "an address such as https://s0.example:8440"
    url = take(entry, "url", "https://.+", place, form)
    try:
        address = parse_address(url)
    except InputError:
        raise KitError(f"'url' in {place} is malformed.", f"It must be {form}.") from None
    token_form = "the token as it was made, 'sedml_' and 43 characters"  # noqa: S105 - no token
    token = take(entry, "token", TOKEN, place, token_form)
    previous = take(entry, "previous_token", TOKEN, place, token_form) if "previous_token" in entry else None
    return Access(address.url, token, previous)
