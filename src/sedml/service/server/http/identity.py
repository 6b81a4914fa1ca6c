"""Who sends a request: the bearer of a token, or somebody who may only look at what is open to all."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from sedml.service.server.access import Caller
from sedml.service.server.http.refusals import rate_limited
from sedml.service.server.http.request_info import info_of, web_of

__all__ = ["Known", "anybody", "identify"]

_bearer = HTTPBearer(
    auto_error=False, scheme_name="token", description="The token of the caller's kit for this server, `sedml_...`."
)


async def _known(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> Caller:
    return await identify(request, credentials.credentials if credentials else None)


async def identify(request: Request, token: str | None) -> Caller:
    """Whoever holds this token, with a place among those whose requests are under way."""
    web, info = web_of(request), info_of(request)
    info.caller = caller = await web.tokens(token)
    if request.client is not None:
        web.connections.recognise((request.client.host, request.client.port), caller.name)
    wait = web.limits.accounts.take(caller.name)
    if wait:
        raise rate_limited(request, wait)
    if not web.limits.requests.enter(caller.name):
        raise rate_limited(request, 1)
    info.has_place = True
    return caller


async def anybody(request: Request) -> None:
    """Let in whoever asks, at the rate of its address."""
    info = info_of(request)
    info.charged = True
    wait = web_of(request).limits.addresses.take(info.source)
    if wait:
        raise rate_limited(request, wait)


Known = Annotated[Caller, Depends(_known)]
"""A caller with a good token. What its role may do is for the core to say."""
