"""Who sends a request: the bearer of a token, or somebody who may only look at what is open to all."""

from __future__ import annotations

from starlette.requests import Request

from sedml.service.server.access import Caller
from sedml.service.server.http.refusals import rate_limited
from sedml.service.server.http.request_info import info_of, web_of

__all__ = ["anybody", "identify"]


async def identify(request: Request) -> Caller:
    """Whoever holds the token of a request, with a place among those whose requests are under way.

    What its role may do is for the core to say.
    """
    web, info = web_of(request), info_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    info.caller = caller = await web.tokens(token if scheme.lower() == "bearer" else None)
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
