"""Who may call the server: names, roles, and the hashes of their tokens.

A token has 256 random bits, so its plain hash can neither be guessed nor reversed. Every request looks it up anew:
an account that is added, revoked or given a new token is so from the next request on. A token that was revoked or
replaced is never taken again, and a name keeps its role and its organisation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

import sqlalchemy as sa

from sedml.errors import ConflictError, InvalidTokenError, MissingTokenError, NotFoundError, RevokedError, SedmlError
from sedml.service.kits import token_hash
from sedml.service.kits.client_kit import SERVERS
from sedml.service.messages import Role, a_role
from sedml.service.server import public_log
from sedml.service.server.access import Caller, confirm, require
from sedml.service.server.node import Node, at, now
from sedml.service.server.storage.tables import SCHEMA, accounts, spent_tokens
from sedml.service.server_messages import Account, AccountList, Enrolment
from sedml.service.terms import HEX32

_LONGEST = 200
_MOST_TOKENS = 10_000  # of one account, so that nobody fills the disk with them
# Built once: every request asks it.
_HOLDERS = sa.select(accounts).where(accounts.c.token_hash.in_(sa.bindparam("hashes", expanding=True)))


def authenticate_all(node: Node, tokens: Sequence[str | None]) -> list[Caller | SedmlError]:
    """Who holds each of these tokens, or why nobody does, in one look at the store."""
    hashes = [token_hash(token) if token and len(token) <= _LONGEST and token.isascii() else None for token in tokens]
    wanted = {hashed for hashed in hashes if hashed is not None}
    rows: dict[str, sa.RowMapping] = {}
    if wanted:
        with node.store.read() as connection:
            found = connection.execute(_HOLDERS, {"hashes": list(wanted)})
            rows = {row["token_hash"]: row for row in found.mappings()}
    return [_caller(token, rows.get(hashed or "")) for token, hashed in zip(tokens, hashes, strict=True)]


def _caller(token: str | None, row: sa.RowMapping | None) -> Caller | SedmlError:
    if not token:
        return MissingTokenError("The request has no bearer token.", "Send the token of your kit for this server.")
    if row is None:
        return InvalidTokenError("This server does not know the token.", "Use the token of your kit for this server.")
    name = row["name"]
    if row["revoked_at"] is not None:
        return RevokedError(f"The account {name} was revoked.", "Ask the operator of this server to enrol it again.")
    return Caller(name, row["role"], row["token_hash"], row["organisation"])


def enrol(node: Node, caller: Caller, name: str, enrolment: Enrolment) -> tuple[Account, bool]:
    """Add an account, or one that was revoked again; whether it is new."""
    require(caller, "operator")
    if name in SERVERS or re.fullmatch(HEX32, name):
        raise ConflictError(f"{name} is what a server or a job is called.", "Enrol under another name.")
    with node.store.write() as connection:
        confirm(connection, caller)
        # One enrols after the other, so that no two find that there is no such account, or no teacher of their clinic.
        connection.execute(sa.select(SCHEMA.versions).with_for_update())
        row = _find(connection, name)
        organisation = enrolment.organisation or name
        wanted = enrolment.role, enrolment.token_hash, organisation
        same = row is not None and (row.role, row.token_hash, row.organisation) == wanted
        if row is not None and row.revoked_at is None:
            if same:
                return _account(row), False
            raise ConflictError(
                f"There is an account {name} with another role, token or organisation.", "Revoke it first."
            )
        if row is not None and (row.role, row.organisation) != (enrolment.role, organisation):
            raise ConflictError(
                f"{name} was {a_role(str(row.role))} of {row.organisation}, and a name stays what it was.",
                "Enrol it as that, or under another name.",
            )
        _check_unused(connection, name, enrolment.token_hash)
        if enrolment.role == "teacher":
            _check_only(connection, organisation, name)
        values = dict(zip(("role", "token_hash", "organisation"), wanted, strict=True)) | {"created_at": now(node)}
        if row is None:
            connection.execute(sa.insert(accounts).values(name=name, **values))
        else:
            _spend(connection, row)
            connection.execute(sa.update(accounts).where(accounts.c.name == name).values(revoked_at=None, **values))
        _tell(connection, node, caller.name, "enrol", name, enrolment.role)
        return _account(_get(connection, name)), True


def revoke(node: Node, caller: Caller, name: str) -> Account:
    """Refuse this account from now on. Ballots that were acknowledged before stay."""
    require(caller, "operator")
    with node.store.write() as connection:
        confirm(connection, caller)
        row = _get(connection, name)
        if name == caller.name:
            raise ConflictError("An operator cannot revoke itself.", "Enrol another operator and ask them to do it.")
        if row.revoked_at is None:
            connection.execute(sa.update(accounts).where(accounts.c.name == name).values(revoked_at=now(node)))
            _tell(connection, node, caller.name, "revoke", name, str(row.role))
        return _account(_get(connection, name))


def replace_token(node: Node, caller: Caller, token_hash: str) -> Account:
    """From now on the caller has the token of this hash and no other."""
    with node.store.write() as connection:
        row = _get(connection, caller.name)
        confirm(connection, caller)
        if row.token_hash != token_hash:
            _check_unused(connection, caller.name, token_hash)
            _spend(connection, row)
            changed = sa.update(accounts).where(accounts.c.name == caller.name).values(token_hash=token_hash)
            connection.execute(changed)
            _tell(connection, node, caller.name, "rotate", caller.name, caller.role)
        return _account(row)


_CHANGES = {"enrol": "added", "revoke": "revoked", "rotate": "token replaced"}


def _tell(connection: sa.Connection, node: Node, actor: str, action: str, name: str, role: str) -> None:
    """In the log: everybody may know that there is a change, and who it is about, only that account."""
    told = {"kind": "account", "change": _CHANGES[action], "role": role}
    public_log.write(connection, node, actor, action, name, role if action == "enrol" else "done", told)


def listed(node: Node, caller: Caller) -> AccountList:
    """All accounts by name."""
    require(caller, "operator")
    with node.store.read() as connection:
        rows = connection.execute(sa.select(accounts).order_by(accounts.c.name)).all()
    return AccountList(accounts=[_account(row) for row in rows])


def _check_unused(connection: sa.Connection, name: str, token_hash: str) -> None:
    """Raise if the token is or was anybody's: an old enrolment would make a stolen token good again."""
    known = sa.select(accounts.c.name).where(accounts.c.token_hash == token_hash)
    if connection.execute(
        known.union(sa.select(spent_tokens.c.account).where(spent_tokens.c.token_hash == token_hash))
    ).first():
        raise ConflictError("This token is in use, or was revoked or replaced.", "Make a new kit with `sedml enrol`.")
    spent = sa.select(sa.func.count()).where(spent_tokens.c.account == name)
    if connection.execute(spent).scalar_one() >= _MOST_TOKENS:
        raise ConflictError(f"{name} has had {_MOST_TOKENS:,} tokens.", "Enrol under another name.")


def _spend(connection: sa.Connection, row: sa.Row[tuple[object, ...]]) -> None:
    connection.execute(sa.insert(spent_tokens).values(token_hash=row.token_hash, account=row.name))


def _check_only(connection: sa.Connection, organisation: str, name: str) -> None:
    """Raise if the organisation has another account of a teacher: it would have two ballots on every job."""
    here = accounts.c.organisation == organisation, accounts.c.role == "teacher", accounts.c.revoked_at.is_(None)
    other = connection.execute(sa.select(accounts.c.name).where(*here, accounts.c.name != name)).scalar()
    if other is not None:
        raise ConflictError(
            f"The organisation {organisation} has the account {other}, and an organisation votes once.",
            f"Use that account, with a vote for each part of its data; or revoke {other} first.",
        )


def _find(connection: sa.Connection, name: str) -> sa.Row[tuple[object, ...]] | None:
    return connection.execute(sa.select(accounts).where(accounts.c.name == name).with_for_update()).one_or_none()


def _get(connection: sa.Connection, name: str) -> sa.Row[tuple[object, ...]]:
    row = _find(connection, name)
    if row is None:
        raise NotFoundError(f"There is no account {name}.", "List them with `sedml account list`.")
    return row


def _account(row: sa.Row[tuple[object, ...]]) -> Account:
    if row.role not in get_args(Role):
        raise NotFoundError("An account has a role that does not exist.", "Restore the newest backup.")
    return Account.model_validate(
        {
            "name": row.name,
            "organisation": row.organisation,
            "role": row.role,
            "created_at": at(row.created_at),
            "revoked_at": at(row.revoked_at),
        }
    )
