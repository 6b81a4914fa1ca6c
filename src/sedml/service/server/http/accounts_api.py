"""Routes of accounts: who may call the server, and the tokens they do it with."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from sedml.service.messages import Account, AccountList, Enrolment, NewToken
from sedml.service.server.http.bodies import document, read_document
from sedml.service.server.http.identity import Known
from sedml.service.server.http.request_info import in_thread, web_of
from sedml.service.server.http.routes import add_route
from sedml.service.server.ops import accounts
from sedml.service.terms import Name

__all__ = ["add_accounts"]

Holder: TypeAlias = Annotated[Name, Path(description="Name of the account.")]


async def list_accounts(request: Request, caller: Known) -> Response:
    """All accounts of this server."""
    return document(await in_thread(request, accounts.listed, web_of(request).node, caller))


async def enrol_account(request: Request, caller: Known, name: Holder) -> Response:
    """Add an account, or enrol a revoked one anew."""
    enrolment = await read_document(request, Enrolment)
    return document(*await in_thread(request, accounts.enrol, web_of(request).node, caller, name, enrolment))


async def revoke_account(request: Request, caller: Known, name: Holder) -> Response:
    """Refuse an account from now on."""
    return document(await in_thread(request, accounts.revoke, web_of(request).node, caller, name))


async def replace_token(request: Request, caller: Known) -> Response:
    """Replace the caller's own token at once."""
    token = await read_document(request, NewToken)
    return document(await in_thread(request, accounts.replace_token, web_of(request).node, caller, token.token_hash))


def add_accounts(app: FastAPI) -> None:
    """Declare all routes of accounts."""
    one, who, clash = "/v1/accounts/{name}", "operators", (409,)
    add_route(app, "GET", "/v1/accounts", list_accounts, tag="accounts", who=who, gives=AccountList)
    add_route(
        app, "PUT", one, enrol_account, tag="accounts", who=who, gives=Account, takes=Enrolment, new=True, fails=clash
    )
    add_route(app, "DELETE", one, revoke_account, tag="accounts", who=who, gives=Account, fails=clash)
    add_route(
        app,
        "PUT",
        "/v1/token",
        replace_token,
        tag="accounts",
        who="any role",
        gives=Account,
        takes=NewToken,
        fails=clash,
    )
