"""Who calls, and what a role may do."""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlalchemy as sa

from sedml.errors import ForbiddenError, RevokedError
from sedml.service.messages import Role, a_role
from sedml.service.server.tables import accounts

__all__ = ["Caller", "confirm", "require"]


@dataclass(frozen=True)
class Caller:
    """Whoever sent a request, by its token."""

    name: str
    role: Role
    token_hash: str | None = field(default=None, repr=False)
    """Of the token it came with; None for the server itself."""


def require(caller: Caller, *roles: Role) -> None:
    """Raise unless the caller has one of these roles."""
    if caller.role not in roles:
        raise ForbiddenError(
            f"{a_role(caller.role).capitalize()} may not do this.",
            f"It takes the token of {' or '.join(map(a_role, roles))}.",
        )


def confirm(connection: sa.Connection, caller: Caller) -> None:
    """Raise unless the caller's token is good *still*, in the transaction that acts on it: a body may take minutes."""
    if caller.token_hash is None:
        return
    row = accounts.c.name == caller.name, accounts.c.token_hash == caller.token_hash, accounts.c.revoked_at.is_(None)
    if connection.execute(sa.select(accounts.c.name).where(*row)).first() is None:
        raise RevokedError(
            f"The token of {caller.name} was revoked or replaced while the request was under way.",
            "Nothing was changed. Use the current token.",
        )
