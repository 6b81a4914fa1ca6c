"""Documents about a server itself: how it is and what it runs, and who may call it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import FailFast

from sedml.service.messages import Document, Line, Moment, Role, ServerName
from sedml.service.terms import Digest, Name

API_VERSION = 5
"""Of the interface: `sedml doctor` says if a server has another one."""

TokenHash: TypeAlias = Digest


class ServerInfo(Document):
    """Who the server is, who it takes the caller for, and its limits."""

    server: ServerName
    version: Line
    api: int
    time: Moment
    account: Name
    role: Role
    certificate_expires: Moment
    max_data_bytes: int
    disk_free_bytes: int
    """At least; to operators, exactly."""
    peer_seen: Moment | None
    """When the other server was last heard of."""
    link_delay_ms: float | None = None
    """The delay between the two servers, one way, as they measured it; null before they have."""
    teachers: int | None = None
    """How many are enrolled here; not for teachers."""
    revoked: str | None = None
    """The authority's list of certificates that are good no more, as PEM, if this server has one."""


class Health(Document):
    """The process answers; who it is, and what its clock says."""

    status: Literal["ok"] = "ok"
    server: ServerName
    version: Line
    time: Moment


class About(Document):
    """What code the server says it runs (`sedml.release`); it can say what it likes."""

    server: ServerName
    version: Line
    release: Digest
    """Of every file of the package but the compiled kernel."""
    kernel: Digest | None
    """Of the compiled kernel; null without one."""


class Readiness(Document):
    """Whether the server takes votes, and what is wrong; `uploads`, of public data, and `peer`, the other server, do
    not count towards it."""

    ready: bool
    checks: dict[Line, Line]


class Account(Document):
    """Somebody who may call the server."""

    name: Name
    organisation: Name
    """Whose it is."""
    role: Role
    created_at: Moment
    revoked_at: Moment | None = None


class AccountList(Document):
    """All accounts of this server."""

    accounts: Annotated[list[Account], FailFast()]


class Enrolment(Document):
    """A new account: the server gets the hash of its token, never the token."""

    role: Role
    token_hash: TokenHash
    organisation: Name | None = None
    """Whose account it is; its own name if none is given."""


class NewToken(Document):
    """The hash of the token that replaces the caller's."""

    token_hash: TokenHash
