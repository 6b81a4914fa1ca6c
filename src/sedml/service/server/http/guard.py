"""Around every request: what its head may be, how much of its body is read, what is logged and counted.

Pure ASGI, and the outermost layer of the app. The log line of a request has the template of its route, never its
path, query, headers or body.
"""

from __future__ import annotations

from http import HTTPStatus
from time import perf_counter

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sedml.errors import NotFoundError
from sedml.service.server.http.body_limits import limited, recorded
from sedml.service.server.http.limits import source_of
from sedml.service.server.http.refusals import refuse
from sedml.service.server.http.request_info import RequestInfo, Web, info_of, route_of

__all__ = ["HEAD_BYTES", "Guard"]

HEAD_BYTES = 16 << 10

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE"})
_HEADERS = 64
_DIGITS = 19
_PATH_BYTES = 512
# No path of ours has any of these, encoded or not; what has them is trying something.
_NO_PATH = (b"%", b"\\", b"//", b"/.")
_GONE = 499  # as nginx calls it: the client left before it was answered

_log = structlog.get_logger("sedml.http")


class Guard:
    """The middleware."""

    def __init__(self, app: ASGIApp, web: Web) -> None:
        self.app = app
        self.web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        start = perf_counter()
        info = _info(scope)
        # HEAD is GET without the body of the answer. The server below us keeps its own scope.
        scope = {**scope, "method": "GET" if info.method == "HEAD" else scope["method"]}
        info.attach(scope)
        self.web.metrics.in_flight.inc()
        try:
            await _answer(self.app, scope, limited(receive, info), recorded(receive, send, info))
        finally:
            self.web.metrics.in_flight.dec()
            if info.caller is not None and info.has_place:
                self.web.limits.requests.leave(info.caller.name)
            self._record(info, route_of(scope), (info.ended or perf_counter()) - start)

    def _record(self, info: RequestInfo, route: str, seconds: float) -> None:
        status = info.status or _GONE
        self.web.metrics.count(route, info.method, status, seconds, info.received, info.code)
        _log.info(
            "request",
            method=info.method,
            route=route,
            status=status,
            code=info.code,
            ms=round(seconds * 1000, 2),
            caller=info.caller.name if info.caller else None,
            role=info.caller.role if info.caller else None,
        )


async def _answer(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive, send)
    try:
        _check_head(scope)
        await app(scope, receive, send)
    except ClientDisconnect:
        return
    except Exception as error:
        answer = await refuse(request, error)
        # One that has begun is cut short instead: the server below us sees it incomplete and closes the connection.
        if not info_of(request).status:
            await answer(scope, receive, send)


def _info(scope: Scope) -> RequestInfo:
    client = scope.get("client")
    headers = dict(scope["headers"])
    length = headers.get(b"content-length", b"0")
    plain = length.isdigit() and len(length) < _DIGITS and b"transfer-encoding" not in headers
    announced = int(length) if plain else None
    return RequestInfo(
        method=scope["method"] if scope["method"] in _METHODS else "other",
        source=source_of(client[0]) if client else "local",
        announced=announced,
        complete=announced == 0,
        asks_first=b"expect" in headers,
    )


def _check_head(scope: Scope) -> None:
    """Raise unless the head of a request is one that could be of the interface."""
    headers = scope["headers"]
    if len(headers) > _HEADERS or sum(len(name) + len(value) for name, value in headers) > HEAD_BYTES:
        raise HTTPException(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    path: bytes = scope["raw_path"]
    odd = len(path) + len(scope["query_string"]) > _PATH_BYTES or any(part in path for part in _NO_PATH)
    if odd or not path.isascii():
        raise NotFoundError("There is nothing at this path.", "See /openapi.json for what is.")
