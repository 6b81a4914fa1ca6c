"""The way of a ballot through the interface: that of every request, without what a ballot does not need of the framework.

Every teacher sends one, and many do at once. A request for any other route takes the long way through the app, and so
does one for a ballot that is not written as clients write it, which is then told what is wrong.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from sedml.service.messages import SUBMISSION_HEADER
from sedml.service.server.http.guard import Guard
from sedml.service.server.http.identity import identify
from sedml.service.server.http.jobs_api import put_ballot
from sedml.service.server.http.request_info import Web

__all__ = ["ShortWay"]

_PATH = re.compile(rb"/v1/jobs/([0-9a-f]{32})/ballot")
_TOKEN = re.compile(rb"Bearer (\S{1,200})")
_SUBMISSION = re.compile(rb"[0-9a-f]{32}")
_NAME = SUBMISSION_HEADER.lower().encode()


class ShortWay:
    """Ballots, inside the same guard as all else."""

    def __init__(self, app: FastAPI, web: Web) -> None:
        self._app = app
        self._route = next(route for route in app.routes if getattr(route, "endpoint", None) is put_ballot)
        self._guarded = Guard(_ballot, web)

    async def takes(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer a request, if it is one for a ballot as clients write it; whether it is."""
        if scope["type"] != "http" or scope["method"] != "PUT" or scope["query_string"]:
            return False
        path = _PATH.fullmatch(scope["raw_path"])
        if path is None:
            return False
        found: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in (b"authorization", _NAME):
                if name in found:
                    return False
                found[name] = value
        token = _TOKEN.fullmatch(found.get(b"authorization", b""))
        submission = _SUBMISSION.fullmatch(found.get(_NAME, b""))
        if token is None or submission is None:
            return False
        scope["app"], scope["route"] = self._app, self._route
        scope["sedml.ballot"] = token[1].decode("latin-1"), path[1].decode(), submission[0].decode()
        await self._guarded(scope, receive, send)
        return True


async def _ballot(scope: Scope, receive: Receive, send: Send) -> None:
    token, job, submission = scope["sedml.ballot"]
    request: Request[Any] = Request(scope, receive, send)
    caller = await identify(request, token)
    answer = await put_ballot(request, caller, job, submission)
    await answer(scope, receive, send)
