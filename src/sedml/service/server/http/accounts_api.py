"""Routes of accounts: who may call the server, and the tokens they do it with."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from sedml.service.server.access import Caller, require
from sedml.service.server.http.bodies import document, read_document
from sedml.service.server.http.refusals import charge_change
from sedml.service.server.http.request_info import in_thread, web_of
from sedml.service.server.http.routes import Parameter, Route
from sedml.service.server.ops import accounts
from sedml.service.server_messages import Account, AccountList, Enrolment, NewToken
from sedml.service.terms import Name

_NAME = Parameter("path", "name", Name, "Name of the account.")


async def list_accounts(request: Request, caller: Caller) -> Response:
    """All accounts of this server."""
    return document(await in_thread(request, accounts.listed, web_of(request).node, caller))


async def enrol_account(request: Request, caller: Caller, name: str) -> Response:
    """Add an account, or enrol a revoked one anew."""
    require(caller, "operator")
    enrolment = await read_document(request, Enrolment)
    return document(*await in_thread(request, accounts.enrol, web_of(request).node, caller, name, enrolment))


async def revoke_account(request: Request, caller: Caller, name: str) -> Response:
    """Refuse an account from now on."""
    return document(await in_thread(request, accounts.revoke, web_of(request).node, caller, name))


async def replace_token(request: Request, caller: Caller) -> Response:
    """Replace the caller's own token at once."""
    token = await read_document(request, NewToken)
    charge_change(request, caller, web_of(request).limits.changes)
    return document(await in_thread(request, accounts.replace_token, web_of(request).node, caller, token.token_hash))


_ONE = "/v1/accounts/{name}"

ACCOUNTS = (
    Route("GET", "/v1/accounts", list_accounts, "accounts", "operators", gives=AccountList),
    Route(
        "PUT", _ONE, enrol_account, "accounts", "operators", (_NAME,), Account, takes=Enrolment, new=True, fails=(409,)
    ),
    Route("DELETE", _ONE, revoke_account, "accounts", "operators", (_NAME,), Account, fails=(409,)),
    Route("PUT", "/v1/token", replace_token, "accounts", "any role", gives=Account, takes=NewToken, fails=(409,)),
)
"""All routes of accounts."""
