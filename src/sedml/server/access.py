"""Who calls, and what a role may do."""

from __future__ import annotations

from dataclasses import dataclass

from sedml.errors import ForbiddenError
from sedml.messages import Role

__all__ = ["Caller", "require"]


@dataclass(frozen=True)
class Caller:
    """Whoever sent a request, by its token."""

    name: str
    role: Role


def require(caller: Caller, *roles: Role) -> None:
    """Raise unless the caller has one of these roles."""
    if caller.role not in roles:
        raise ForbiddenError(f"A {caller.role} may not do this.", f"It takes the token of a {' or '.join(roles)}.")
