"""Joining a deployment: a client makes its own kit, and gives the operators nothing but hashes of its tokens."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from sedml.errors import InputError, KitError
from sedml.service.kits.addresses import parse_address
from sedml.service.kits.client_kit import NAME, SERVERS, Access, client_text
from sedml.service.kits.folder import new_folder, read_bytes, write_private
from sedml.service.kits.tokens import new_token, token_hash
from sedml.service.kits.trusted import read_authority
from sedml.service.messages import Enrolment, ServerName, TokenHash
from sedml.service.terms import Name

__all__ = ["Enrolments", "Joining", "enrol", "load_enrolment"]

Joining: TypeAlias = Literal["teacher", "requester"]
"""Roles that make their own kits."""


class Enrolments(BaseModel):
    """The public document of a client that wants to join: no token can be told from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    role: Joining
    s0: TokenHash
    s1: TokenHash

    def at(self, server: ServerName) -> Enrolment:
        """What the operator of this server gives to it."""
        return Enrolment(role=self.role, token_hash=self.s0 if server == "s0" else self.s1)


def enrol(out: Path, name: str, role: Joining, servers: tuple[str, str], authority: Path) -> Enrolments:
    """Make a client's kit in a new folder, and in it `enrolment.json` for both operators.

    `servers` are the addresses of S0 and S1, `authority` is the operators' ca.pem: compare its fingerprint with them.
    """
    if re.fullmatch(NAME, name) is None:
        raise InputError(f"{name!r} cannot be a name.", "Use lower-case letters, digits, '.', '_' and '-'.")
    if role not in get_args(Joining):
        raise InputError(
            f"A kit for the role {role!r} cannot be made this way.", f"Use {', '.join(get_args(Joining))}."
        )
    if len(servers) != len(SERVERS):
        raise InputError(f"{len(servers)} servers were given.", "Give two, S0 and S1, each as host:port.")
    if len({parse_address(text) for text in servers}) != len(SERVERS):
        raise InputError("S0 and S1 have the same address.", "Give each its own.")
    certificate = read_authority(authority)
    access = {
        server: Access(parse_address(text).url, new_token()) for server, text in zip(SERVERS, servers, strict=True)
    }
    document = Enrolments(name=name, role=role, s0=token_hash(access["s0"].token), s1=token_hash(access["s1"].token))
    with new_folder(out) as folder:
        write_private(folder / "kit.toml", client_text(name, role, secrets.token_bytes(32), access))
        write_private(folder / "ca.pem", certificate)
        write_private(folder / "enrolment.json", document.model_dump_json(indent=1))
    return document


def load_enrolment(path: Path) -> Enrolments:
    """Read a client's `enrolment.json`."""
    try:
        return Enrolments.model_validate_json(read_bytes(path))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise KitError(
            f"{path} is not an enrolment: {place}: {first['msg']}.",
            "Ask for the enrolment.json that `sedml enrol` made.",
        ) from None
