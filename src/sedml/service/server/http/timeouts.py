"""HTTP/1.1 on one connection, for clients that are slow on purpose.

uvicorn waits as long as it takes for the head of a request, and for a client to read its answer. Here both have a
time limit: a head must be complete `head_timeout` after its connection was made or its first byte came, however
steadily it trickles, and an answer must make progress within `write_timeout`. A connection that is closed is gone
`head_timeout` later.

A body that comes in chunks must come in few: each takes up everybody's thread for as long as some kilobytes do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sedml.errors import MalformedRequestError, RequestTimeoutError, SedmlError
from sedml.service import problems
from sedml.service.server.http.guard import HEAD_BYTES
from sedml.service.server.http.refusals import MEDIA_TYPE

_FAREWELL = 1.0  # seconds in which a client can take leave, as TLS wants it
_CHUNKS = 64  # of a body, and one more for each of so many bytes
_CHUNK = 1024

_Late: TypeAlias = Literal["head", "reading", "leave"]
"""What a client can be late with."""


class _Connection(h11.Connection):
    """What a client sends, unless that is a body in crumbs."""

    chunks = received = 0

    @property
    def crumbles(self) -> bool:
        """Whether the chunks of a body are too small."""
        return self.chunks > _CHUNKS + self.received // _CHUNK

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """What came next; nothing more once it crumbles."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.received = 0
        elif isinstance(event, h11.Data):
            self.chunks += event.chunk_start
            self.received += len(event.data)
            if self.crumbles:
                raise h11.RemoteProtocolError("small chunks")
        return event


class PatientProtocol(H11Protocol):
    """A connection with time limits."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        app_state: dict[str, Any],
        *,
        head_timeout: float,
        write_timeout: float,
    ) -> None:
        super().__init__(config, state, app_state)
        self.conn: _Connection = _Connection(h11.SERVER, HEAD_BYTES)
        self._head_timeout = head_timeout
        self._write_timeout = write_timeout
        self._timers: dict[_Late, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected, and its TLS handshake is done."""
        super().connection_made(transport)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, by either side."""
        for late in tuple(self._timers):
            self._stop(late)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Bytes came, or an answer is finished: see what there is to do."""
        super().handle_events()
        self._watch_head()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is sent to."""
        super().pause_writing()
        self._start("reading", self._write_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read on."""
        self._stop("reading")
        super().resume_writing()

    def on_response_complete(self) -> None:
        """An answer is on its way in full."""
        super().on_response_complete()
        ending = self.cycle is not None and not self.cycle.keep_alive
        self._see_off(_FAREWELL if ending else self._head_timeout)

    def timeout_keep_alive_handler(self) -> None:
        """No further request came in time."""
        super().timeout_keep_alive_handler()
        self._see_off(self._head_timeout)

    def shutdown(self) -> None:
        """The server ends: finish what is under way, and do not wait for a client that does nothing."""
        super().shutdown()
        self._see_off(_FAREWELL)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or not to be waited for."""
        problem = "The body comes in chunks that are too small.", "Say how long it is, or send a kilobyte at a time."
        if not self.conn.crumbles:
            problem = "This is not an HTTP/1.1 request.", "See /openapi.json for what is accepted."
        self._refuse(MalformedRequestError(*problem))

    def _watch_head(self) -> None:
        """Run the timer exactly while a head is on its way."""
        if self.conn.their_state is not h11.IDLE:
            self._stop("head")
        elif "head" not in self._timers and self.timeout_keep_alive_task is None and not self.transport.is_closing():
            # An idle connection between two requests has a timer of its own, which the next byte stops.
            self._start("head", self._head_timeout, self._head_is_late)

    def _head_is_late(self) -> None:
        self._stop("head")
        if not self.transport.is_closing():
            self._refuse(RequestTimeoutError("The headers of the request did not arrive in time.", "Send it at once."))

    def _refuse(self, error: SedmlError) -> None:
        problem = problems.problem_of(error)
        status = 400 if isinstance(error, MalformedRequestError) else problem.status
        body = problem.model_copy(update={"status": status}).model_dump_json().encode()
        headers = [
            ("content-type", MEDIA_TYPE),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            events = h11.Response(status_code=status, headers=headers), h11.Data(body), h11.EndOfMessage()
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        if self.cycle is not None and not self.cycle.response_complete:
            # Whoever waits for the rest of the body is not left waiting, and what it would answer is not sent.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
        self._see_off(self._head_timeout)

    def _see_off(self, patience: float) -> None:
        """Cut a connection that was closed and has not come to its end by then.

        TLS waits for the client's farewell, and asyncio for ever if that came while nothing was read.
        """
        if self.transport.is_closing() and self in self.connections:
            self._start("leave", patience, self.transport.abort)

    def _start(self, late: _Late, seconds: float, call: Callable[[], object]) -> None:
        self._stop(late)
        self._timers[late] = self.loop.call_later(seconds, call)

    def _stop(self, late: _Late) -> None:
        if (timer := self._timers.pop(late, None)) is not None:
            timer.cancel()
