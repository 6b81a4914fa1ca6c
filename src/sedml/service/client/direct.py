"""HTTP/1.1 over TLS straight to a server: the least work that a request takes, for clients that are many.

A connection is used again for the next request, unless it was idle for long; requests at the same time have one each.
What goes wrong is raised as httpx has it, so that this and the transports of httpx can stand in for each other.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

import h11
import httpx2

__all__ = ["DirectTransport"]

_IDLE = 5.0  # seconds for which a connection is kept; servers keep theirs for longer
_EYEBALLS = 0.25  # seconds before the next address of a host is tried beside the first
_HELD = 256 << 10  # bytes of an answer that lie here unread before the server has to wait
_SENT_AT_ONCE = 64 << 10

T = TypeVar("T")


class DirectTransport(httpx2.AsyncBaseTransport):
    """Connections of this context to one server, on asyncio."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._idle: list[_Line] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and return once the head of the answer is here."""
        line = self._kept() or await _connect(request, self._context)
        try:
            head = await line.ask(request)
        except BaseException:
            line.cut()
            raise
        return httpx2.Response(head.status_code, headers=list(head.headers), stream=_Answer(line, self._idle))

    async def reach(self, request: httpx2.Request) -> None:
        """Connect already, for a request like this one that will follow."""
        if not self._idle:
            self._idle.append(await _connect(request, self._context))

    async def aclose(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop().cut()
        await asyncio.sleep(0)  # asyncio closes the sockets in the next round

    def _kept(self) -> _Line | None:
        while self._idle:
            line = self._idle.pop()
            if line.usable:
                return line
            line.cut()
        return None


class _Answer(httpx2.AsyncByteStream):
    """The body of an answer; its connection is free for the next request once it is read and closed."""

    def __init__(self, line: _Line, idle: list[_Line]) -> None:
        self._line, self._idle = line, idle

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self._line.event(), h11.Data):
            yield bytes(event.data)

    async def aclose(self) -> None:
        if self._line.begin_again():
            self._idle.append(self._line)
        else:
            self._line.cut()


class _Line(asyncio.Protocol):
    """One connection, with one request on it at a time."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT)
        self._waits: dict[str, float | None] = {}
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._since = time.monotonic()
        self._transport: asyncio.Transport

    # ---- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._held += len(data)
        if self._held > _HELD:
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended, self._error = True, exc
        self._writable.set()
        self._wake()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # ---- what the transport calls

    @property
    def usable(self) -> bool:
        """Whether another request may go over it: nothing has come unasked, and the server may not have left."""
        return not self._ended and not self._pieces and time.monotonic() - self._since < _IDLE

    async def ask(self, request: httpx2.Request) -> h11.Response:
        """Send all of a request, or as much as the server wants to know; the head of the answer."""
        self._waits = request.extensions.get("timeout", {})
        head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
        with _as_httpx(httpx2.LocalProtocolError):
            ready = self._http.send(head) or b""
        async for piece in cast(httpx2.AsyncByteStream, request.stream):
            # A server that answers before it has read all of a body has seen enough of it.
            if self._pieces or self._ended:
                break
            with _as_httpx(httpx2.LocalProtocolError):
                ready += self._http.send(h11.Data(data=piece)) or b""
            if len(ready) >= _SENT_AT_ONCE:
                await self._write(ready)
                ready = b""
        else:
            with _as_httpx(httpx2.LocalProtocolError):
                ready += self._http.send(h11.EndOfMessage()) or b""
        if ready and not self._ended:
            await self._write(ready)
        while not isinstance(event := await self.event(), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise httpx2.RemoteProtocolError("the connection ended before the answer")
        return event

    async def event(self) -> h11.Event:
        """What comes next of the answer."""
        while True:
            with _as_httpx(httpx2.RemoteProtocolError):
                event = self._http.next_event()
            if isinstance(event, h11.Event):
                return event
            if event is h11.PAUSED:
                raise httpx2.RemoteProtocolError("more came than was asked for")
            await self._more()

    def begin_again(self) -> bool:
        """Whether the request is over, and another one can follow."""
        over = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        unasked, _ = self._http.trailing_data
        over = over and not (unasked or self._ended)
        if over:
            self._http.start_next_cycle()
            self._since = time.monotonic()
        return over

    def cut(self) -> None:
        """Close it, without taking leave."""
        self._transport.abort()

    async def _write(self, data: bytes) -> None:
        self._transport.write(data)
        if not self._writable.is_set():
            await _within(self._waits.get("write"), self._writable.wait(), httpx2.WriteTimeout)

    async def _more(self) -> None:
        """Let the parser have what has come, or that no more will."""
        if not self._pieces and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            await _within(self._waits.get("read"), self._waiter, httpx2.ReadTimeout)
        if not self._pieces and self._error is not None:
            raise httpx2.ReadError("the connection broke off") from self._error
        with _as_httpx(httpx2.RemoteProtocolError):
            self._http.receive_data(b"".join(self._pieces))  # which, with none, means that this was all
        self._pieces.clear()
        if self._held > _HELD:
            self._transport.resume_reading()
        self._held = 0

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def _connect(request: httpx2.Request, context: ssl.SSLContext) -> _Line:
    url = request.url
    making = asyncio.get_running_loop().create_connection(
        _Line,
        url.host,
        url.port or 443,
        ssl=context,
        server_hostname=request.extensions.get("sni_hostname", url.host),
        happy_eyeballs_delay=_EYEBALLS if url.host.strip("0123456789.") else None,  # of a number there is but one
    )
    try:
        _, line = await _within(request.extensions.get("timeout", {}).get("connect"), making, httpx2.ConnectTimeout)
    except OSError as error:  # of which those of ssl are a kind
        raise httpx2.ConnectError("there is no connection") from error
    return line


async def _within(seconds: float | None, step: Awaitable[T], kind: type[httpx2.TimeoutException]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await step
    except TimeoutError as error:
        raise kind("this took too long") from error


@contextmanager
def _as_httpx(kind: type[httpx2.ProtocolError]) -> Iterator[None]:
    try:
        yield
    except h11.ProtocolError as error:
        raise kind("this is not HTTP/1.1") from error
