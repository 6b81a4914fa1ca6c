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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sedml.errors import BodyTooLargeError, NotFoundError
from sedml.server.http.exchange import Exchange, Web, exchange_of, route_of
from sedml.server.http.limits import source_of
from sedml.server.http.problems import refuse

__all__ = ["HEAD_BYTES", "Guard"]

HEAD_BYTES = 16 << 10

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE"})
_HEADERS = 64
_PATH_BYTES = 512
# No path of ours has any of these, encoded or not; what has them is trying something.
_NO_PATH = (b"%", b"\\", b"//", b"/.")
_GONE = 499  # as nginx calls it: the client left before it was answered
_OF_ALL_ANSWERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))

_log = structlog.get_logger("sedml.http")


class Guard:
    """The middleware."""

    def __init__(self, app: ASGIApp, web: Web) -> None:
        self.app = app
        self.web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = perf_counter()
        exchange = _exchange(scope)
        # HEAD is GET without the body of the answer. The server below us keeps its own scope.
        scope = {**scope, "method": "GET" if exchange.method == "HEAD" else scope["method"]}
        exchange.attach(scope)
        self.web.metrics.in_flight.inc()
        try:
            await _answer(self.app, scope, _limited(receive, exchange), _recorded(send, exchange))
        finally:
            self.web.metrics.in_flight.dec()
            self._record(exchange, route_of(scope), perf_counter() - start)

    def _record(self, exchange: Exchange, route: str, seconds: float) -> None:
        status = exchange.status or _GONE
        self.web.metrics.count(route, exchange.method, status, seconds, exchange.received, exchange.code)
        _log.info(
            "request",
            method=exchange.method,
            route=route,
            status=status,
            code=exchange.code,
            ms=round(seconds * 1000, 2),
            caller=exchange.caller.name if exchange.caller else None,
            role=exchange.caller.role if exchange.caller else None,
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
        if not exchange_of(request).status:
            await answer(scope, receive, send)


def _exchange(scope: Scope) -> Exchange:
    client = scope.get("client")
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    chunked = any(name == b"transfer-encoding" for name, _ in scope["headers"])
    return Exchange(
        method=scope["method"] if scope["method"] in _METHODS else "other",
        source=source_of(client[0]) if client else "local",
        complete=not chunked and all(value == b"0" for value in lengths),
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


def _limited(receive: Receive, exchange: Exchange) -> Receive:
    """Count what comes in, and read no more than the request is entitled to."""

    async def limited() -> Message:
        message = await receive()
        if message["type"] == "http.request":
            exchange.received += len(message.get("body", b""))
            exchange.complete = not message.get("more_body", False)
            if exchange.received > exchange.limit:
                exchange.complete = False
                raise BodyTooLargeError("The body is longer than what is expected here.", "Send no more than that.")
        return message

    return limited


def _recorded(send: Send, exchange: Exchange) -> Send:
    """Note the status, add the headers that all answers have, and close a connection whose body was not read."""

    async def recorded(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            headers = [*message.get("headers", ()), *_OF_ALL_ANSWERS]
            if not exchange.complete:
                # What is still coming must be neither read to its end nor taken for the next request.
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        elif exchange.method == "HEAD":
            message = {**message, "body": b""}
        await send(message)

    return recorded
