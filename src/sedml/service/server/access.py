"""Who calls, and what a role may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import sqlalchemy as sa

from sedml.errors import ForbiddenError, RevokedError
from sedml.service.messages import Role, a_role
from sedml.service.server.storage.tables import accounts

# Built once, as all that is asked for every ballot: to build a query takes longer than to answer it.
_GOOD = sa.select(accounts.c.name, accounts.c.token_hash).where(
    accounts.c.name.in_(sa.bindparam("names", expanding=True)), accounts.c.revoked_at.is_(None)
)


@dataclass(frozen=True)
class Caller:
    """Whoever sent a request, by its token."""

    name: str
    role: Role
    token_hash: str | None = field(default=None, repr=False)
    """The hash of the token it came with; None for the server itself."""
    organisation: str = ""
    """Whose account it is, and what a ledger knows a teacher by: its name, unless another is given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "organisation", self.organisation or self.name)


def require(caller: Caller, *roles: Role) -> None:
    """Raise unless the caller has one of these roles."""
    if caller.role not in roles:
        raise ForbiddenError(
            f"{a_role(caller.role).capitalize()} may not do this.",
            f"It takes the token of {' or '.join(map(a_role, roles))}.",
        )


def confirm(connection: sa.Connection, caller: Caller) -> None:
    """Raise unless the caller's token is good *still*, in the transaction that acts on it: a body may take minutes."""
    for refusal in unconfirmed(connection, [caller]).values():
        raise refusal


def unconfirmed(connection: sa.Connection, callers: Iterable[Caller]) -> dict[Caller, RevokedError]:
    """Which of these callers have a token that is good no more, and what to tell them."""
    shown = {caller for caller in callers if caller.token_hash is not None}
    if not shown:
        return {}
    names = {caller.name for caller in shown}
    good = {(row.name, row.token_hash) for row in connection.execute(_GOOD, {"names": list(names)})}
    return {
        caller: RevokedError(
            f"The token of {caller.name} was revoked or replaced while the request was under way.",
            "Nothing was changed. Use the current token.",
        )
        for caller in shown
        if (caller.name, caller.token_hash) not in good
    }
