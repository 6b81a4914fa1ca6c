"""The short way through the interface, for what every teacher asks: how a job stands, and to take its ballot.

It is that of every request, inside the same guard, without what these two do not need of the framework. A request for
any other route takes the long way through the app, and so does one that is not written as clients write it, which is
then told what is wrong.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sedml.service.messages import SUBMISSION_HEADER
from sedml.service.server.http.guard import Guard
from sedml.service.server.http.identity import identify
from sedml.service.server.http.jobs_api import get_job, put_ballot
from sedml.service.server.http.request_info import Web
from sedml.service.server.http.routes import Handler

__all__ = ["ShortWay"]

_PATH = re.compile(rb"/v1/jobs/([0-9a-f]{32})(/ballot)?")
_TOKEN = re.compile(rb"Bearer (\S{1,200})")
_SUBMISSION = re.compile(rb"[0-9a-f]{32}")
_NAME = SUBMISSION_HEADER.lower().encode()
_KEY = "sedml.short_way"

_Asked: TypeAlias = tuple[Handler, str, dict[str, str]]
"""What handles it, the token, and what else the handler takes."""


class ShortWay:
    """Answers what can take it."""

    def __init__(self, app: FastAPI, web: Web) -> None:
        self._app = app
        by_handler = {getattr(route, "endpoint", None): route for route in app.routes}
        self._routes = {handler: by_handler[handler] for handler in (get_job, put_ballot)}
        self._guarded = Guard(_answer, web)

    async def takes(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request, if it can take this way; whether it can."""
        asked = _asked(scope) if scope["type"] == "http" else None
        if asked is None:
            return False
        scope["app"], scope["route"], scope[_KEY] = self._app, self._routes[asked[0]], asked
        await self._guarded(scope, receive, send)
        return True


def _asked(scope: Scope) -> _Asked | None:
    path = None if scope["query_string"] else _PATH.fullmatch(scope["raw_path"])
    if path is None or (scope["method"], path[2]) not in (("GET", None), ("PUT", b"/ballot")):
        return None
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in (b"authorization", _NAME):
            if name in found:
                return None
            found[name] = value
    token = _TOKEN.fullmatch(found.get(b"authorization", b""))
    if token is None:
        return None
    job = {"job": path[1].decode()}
    if path[2] is None:
        return get_job, token[1].decode("latin-1"), job
    submission = _SUBMISSION.fullmatch(found.get(_NAME, b""))
    return submission and (put_ballot, token[1].decode("latin-1"), job | {"submission": submission[0].decode()})


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    handler, token, asked = scope[_KEY]
    request: Request[Any] = Request(scope, receive, send)
    answer: Response = await handler(request, await identify(request, token), **asked)
    await answer(scope, receive, send)
