"""Between the app and the connection: what comes in is counted and limited, what goes out is recorded.

A request may be answered before its body is read. A small rest is then read and dropped, so that the connection can
be used again. Of a large one nothing more is read and the connection is closed, but not at once: a close with bytes
unread makes the operating systems drop what is under way, and the client would never see why it was refused.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

from starlette.types import Message, Receive, Send

from sedml.errors import BodyTooLargeError
from sedml.service.server.http.request_info import DOCUMENT_BYTES, Exchange

__all__ = ["limited", "recorded", "too_large"]

_LINGER = 2.0  # seconds
_OF_ALL_ANSWERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


def limited(receive: Receive, exchange: Exchange) -> Receive:
    """Count what comes in, and read no more than the request is entitled to."""

    async def receive_limited() -> Message:
        message = await receive()
        _count(message, exchange)
        if exchange.received > exchange.limit:
            exchange.complete = False
            raise too_large()
        return message

    return receive_limited


def recorded(receive: Receive, send: Send, exchange: Exchange) -> Send:
    """Note the status, add the headers that all answers have, and end the connection if the body was not read."""

    async def send_recorded(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            await _drop_rest(receive, exchange)
            headers = [*message.get("headers", ()), *_OF_ALL_ANSWERS]
            if not exchange.complete:
                headers.append((b"connection", b"close"))
            await send({**message, "headers": headers})
            return
        if exchange.method == "HEAD":
            message = {**message, "body": b""}
        if not message.get("more_body", False):
            exchange.ended = perf_counter()
            if not exchange.complete:
                await send({**message, "more_body": True})
                await asyncio.sleep(_LINGER)
                message = {"type": "http.response.body"}
        await send(message)

    return send_recorded


def too_large() -> BodyTooLargeError:
    """The error for a body that is, or would get, too long."""
    return BodyTooLargeError("The body is longer than what is expected here.", "Send no more than that.")


async def _drop_rest(receive: Receive, exchange: Exchange) -> None:
    if exchange.asks_first or exchange.announced is None or exchange.announced > DOCUMENT_BYTES:
        return
    try:
        async with asyncio.timeout(_LINGER):
            while not exchange.complete and (message := await receive())["type"] == "http.request":
                _count(message, exchange)
    except TimeoutError:
        return


def _count(message: Message, exchange: Exchange) -> None:
    if message["type"] == "http.request":
        exchange.received += len(message.get("body", b""))
        exchange.complete = not message.get("more_body", False)
