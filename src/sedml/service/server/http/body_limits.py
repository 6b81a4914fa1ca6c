"""Between the app and the connection: what comes in is counted and limited, what goes out is recorded.

A request may be answered before its body is read. A small rest is then read and dropped, so that the connection can
be used again. After a large one the connection is closed, but not at once: a close with bytes unread makes the
operating systems drop what is under way, and the client would never see why it was refused. Nor would one that sends
all of a body before it listens, so whoever has shown a good token may send some more, which is dropped; of anybody else
nothing more is read.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import perf_counter

from starlette.types import Message, Receive, Send

from sedml.errors import BodyTooLargeError
from sedml.service.server.http.request_info import DOCUMENT_BYTES, RequestInfo

__all__ = ["limited", "recorded", "too_large"]

_LINGER = 2.0  # seconds
_DROPPED = 16 << 20
_BUFFERED = 64 << 10  # bytes that a connection may hold of an answer that nobody reads
_OF_ALL_ANSWERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


def limited(receive: Receive, info: RequestInfo) -> Receive:
    """Count what comes in, and read no more than the request is entitled to."""

    async def receive_limited() -> Message:
        message = await receive()
        _count(message, info)
        if info.received > info.limit:
            info.complete = False
            raise too_large()
        return message

    return receive_limited


def recorded(receive: Receive, send: Send, info: RequestInfo) -> Send:
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


def too_large() -> BodyTooLargeError:
    """The error for a body that is, or would get, too long."""
    return BodyTooLargeError("The body is longer than expected.", "Send no more than that.")


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
