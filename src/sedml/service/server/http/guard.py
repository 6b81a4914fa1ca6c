"""Around every request: what its head may be, how much of its body is read, what is logged and counted.

Pure ASGI, and the outermost layer of the app. The log line of a request has the template of its route, never its
path, query, headers or body.

A request may be answered before its body is read. A small rest is then read and dropped, so that the connection can
be used again. After a large one the connection is closed, but not at once: a close with bytes unread makes the
operating systems drop what is under way, and the client would never see why it was refused. Nor would one that sends
all of a body before it listens, so whoever has shown a good token may send some more, which is dropped; of anybody else
nothing more is read.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from time import perf_counter

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sedml.errors import NotFoundError
from sedml.service.server.http.limits import BYTE_SECONDS, REQUEST_SECONDS
from sedml.service.server.http.refusals import refuse, too_large
from sedml.service.server.http.request_info import DOCUMENT_BYTES, RequestInfo, Web, info_of, route_of
from sedml.service.server.link.unidentified import source_of

HEAD_BYTES = 16 << 10

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE"})
_HEADERS = 64
_DIGITS = 19
_PATH_BYTES = 512
# No path of ours has any of these, encoded or not; what has them is trying something.
_NO_PATH = (b"%", b"\\", b"//", b"/.")
_LINGER = 2.0  # seconds
_DROPPED = 16 << 20
_BUFFERED = 64 << 10  # bytes that a connection may hold of an answer that nobody reads
_OF_ALL_ANSWERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
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
            await _answer(self.app, scope, _limited(receive, info), _recorded(self.web, receive, send, info))
        finally:
            self.web.metrics.in_flight.dec()
            if info.caller is not None:
                if info.has_place:
                    self.web.limits.requests.leave(info.caller.name)
                self.web.limits.processor.charge(info.caller.name, REQUEST_SECONDS + BYTE_SECONDS * info.received)
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


def _limited(receive: Receive, info: RequestInfo) -> Receive:
    """Count what comes in, and read no more than the request is entitled to."""

    async def receive_limited() -> Message:
        message = await receive()
        _count(message, info)
        if info.received > info.limit:
            info.complete = False
            raise too_large()
        return message

    return receive_limited


def _recorded(web: Web, receive: Receive, send: Send, info: RequestInfo) -> Send:
    """Note the status, add the headers that all answers have, and end the connection if the body was not read."""

    async def send_recorded(message: Message) -> None:
        if message["type"] == "http.response.start":
            info.status = message["status"]
            if not info.asks_first and info.announced is not None and info.announced <= DOCUMENT_BYTES:
                await _drop(receive, info, DOCUMENT_BYTES)
            headers = [*message.get("headers", ()), *_OF_ALL_ANSWERS]
            if not info.complete:
                headers.append((b"connection", b"close"))
            await send({**message, "headers": headers})
            return
        if info.method == "HEAD":
            message = {**message, "body": b""}
        if info.caller is not None:
            web.limits.processor.charge(info.caller.name, BYTE_SECONDS * len(message.get("body", b"")))
        if not message.get("more_body", False):
            info.ended = perf_counter()
            if not info.complete:
                await send({**message, "more_body": True})
                await _linger(receive, info)
                message = {"type": "http.response.body"}
            elif len(message.get("body", b"")) > _BUFFERED:
                # The last piece is sent once most of this one is gone: until then the request is under way.
                await send({**message, "more_body": True})
                message = {"type": "http.response.body"}
        await send(message)

    return send_recorded


async def _linger(receive: Receive, info: RequestInfo) -> None:
    """Give a client time to hear why its body was refused."""
    if info.caller is not None:
        await _drop(receive, info, _DROPPED)
    if not info.complete:
        await asyncio.sleep(_LINGER)


async def _drop(receive: Receive, info: RequestInfo, most: int) -> None:
    end, until = info.received + most, perf_counter() + _LINGER
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            # What takes no waiting lets no time-out fire, so the clock is looked at too.
            while not info.complete and info.received < end and perf_counter() < until:
                if (message := await receive())["type"] != "http.request":
                    break
                _count(message, info)


def _count(message: Message, info: RequestInfo) -> None:
    if message["type"] == "http.request":
        info.received += len(message.get("body", b""))
        info.complete = not message.get("more_body", False)
