"""The way from clients to one application: each request is written down, and faults come on order.

What can go wrong on a network goes wrong here without one: an answer is lost, a connection refused, a body cut in the
middle, a request arrives twice, or long after its sender has given up. What a lying server or a proxy would say is put
in the place of an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import httpx2
from pydantic import BaseModel
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sedml.errors import SedmlError
from sedml.service.problems import problem_of


class Fail(StrEnum):
    """What happens to a request."""

    REFUSE = "refuse"
    """Nobody listens; the server hears nothing."""
    LOSE = "lose"
    """The server has done it, and its answer gets lost."""
    REPEAT = "repeat"
    """The server gets it twice; the second answer is the one that counts."""
    LATE = "late"
    """The client gives up waiting; the server gets it after the next request of another kind."""
    CUT_BODY = "cut body"
    """The connection ends in the middle of the request."""
    CUT_ANSWER = "cut answer"
    """The server has done it, and the connection ends in the middle of the answer."""


@dataclass(frozen=True)
class Meanwhile:
    """The request is slow: something else happens before it arrives."""

    happens: Callable[[], object]


Act: TypeAlias = Fail | Meanwhile | httpx2.Response | Callable[[httpx2.Response], httpx2.Response]
"""A response is the answer in the server's place; a function makes another answer of the server's."""


@dataclass
class Fault:
    """What happens to the next requests that match."""

    pattern: str
    act: Act
    times: int


@dataclass(frozen=True)
class Seen:
    """A request as its client sent it, whether it arrived or not."""

    method: str
    path: str
    body: bytes
    headers: httpx2.Headers

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Wire(httpx2.AsyncBaseTransport):
    """Carries requests to an application."""

    def __init__(self, name: str, app: ASGIApp) -> None:
        self.name, self._app = name, app
        self.seen: list[Seen] = []
        self._faults: list[Fault] = []
        self._late: list[tuple[str, httpx2.Request]] = []

    def fault(self, pattern: str, act: Act, times: int = 1) -> None:
        """From now on, so many requests whose "METHOD /path" has this pattern in it fare like this."""
        self._faults.append(Fault(pattern, act, times))

    def calm(self) -> None:
        """No more faults, and nothing under way."""
        self._faults.clear()
        self._late.clear()
        self.seen.clear()

    def bodies(self, pattern: str) -> list[bytes]:
        """Of the requests that match, in the order in which they were sent."""
        return [seen.body for seen in self.seen if re.search(pattern, str(seen))]

    def before(self, request: Seen) -> None:
        """What the servers do before this request arrives; nothing unless a subclass knows better."""

    def after(self) -> None:
        """What the servers do once a request is done."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert request.extensions["sni_hostname"] == self.name
        seen = Seen(request.method, request.url.path, await request.aread(), request.headers)
        self.seen.append(seen)
        self.before(seen)
        act = self._next_act(str(seen))
        if isinstance(act, Meanwhile):
            act.happens()
        match act:
            case Fail.REFUSE:
                raise httpx2.ConnectError("nobody listens")
            case Fail.LATE:
                self._late.append((str(seen), request))
                raise httpx2.ReadTimeout("no answer in time")
            case Fail.CUT_BODY:
                await self._deliver(request, _cut(self._app))
            case Fail.REPEAT:
                await self._deliver(request, self._app)
            case httpx2.Response():
                return act
        response = await self._deliver(request, self._app)
        await self._deliver_late(str(seen))
        match act:
            case Fail.LOSE:
                raise httpx2.ReadError("the answer was lost")
            case Fail.CUT_ANSWER:
                return httpx2.Response(response.status_code, headers=response.headers, stream=_Cut(response.content))
            case None | Fail() | Meanwhile():
                return response
        return act(response)

    def _next_act(self, text: str) -> Act | None:
        for fault in self._faults:
            if fault.times and re.search(fault.pattern, text):
                fault.times -= 1
                return fault.act
        return None

    async def _deliver_late(self, text: str) -> None:
        """Those of another kind than this one, which has just overtaken them."""
        due = [request for sent, request in self._late if sent != text]
        self._late = [(sent, request) for sent, request in self._late if sent == text]
        for request in due:
            await self._deliver(request, self._app)

    async def _deliver(self, request: httpx2.Request, app: ASGIApp) -> httpx2.Response:
        whole = httpx2.Request(request.method, request.url, headers=request.headers, stream=_Halves(request.content))
        try:
            response = await httpx2.ASGITransport(app).handle_async_request(whole)
            content = await response.aread()
        finally:
            self.after()
        return httpx2.Response(response.status_code, headers=response.headers, content=content)


class _Halves(httpx2.AsyncByteStream):
    """A body in two pieces, as long ones arrive."""

    def __init__(self, body: bytes) -> None:
        middle = len(body) // 2
        self.pieces = body[:middle], body[middle:]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if piece:
                yield piece


class _Cut(_Halves):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.pieces[0]
        raise httpx2.RemoteProtocolError("the connection ended in the middle of the answer")


def _cut(app: ASGIApp) -> ASGIApp:
    """The application, whose client is gone after the first piece of the body."""

    async def cut(scope: Scope, receive: Receive, send: Send) -> None:
        pieces = 0

        async def receive_one() -> Message:
            nonlocal pieces
            pieces += 1
            return await receive() if pieces == 1 else {"type": "http.disconnect"}

        async def send_nowhere(message: Message) -> None:
            pass

        await app(scope, receive_one, send_nowhere)
        raise httpx2.WriteError("the connection ended in the middle of the body")

    return cut


def busy(status: int, after: str | None = None) -> httpx2.Response:
    """A server that has no time now."""
    return httpx2.Response(status, headers={} if after is None else {"Retry-After": after})


def says(document: BaseModel, status: int = 200) -> httpx2.Response:
    """A document as an answer."""
    return httpx2.Response(status, content=document.model_dump_json())


def refuses(error: SedmlError) -> httpx2.Response:
    """A server that has this against a request."""
    problem = problem_of(error)
    return says(problem, problem.status)


def changed(change: Callable[[bytes], bytes]) -> Callable[[httpx2.Response], httpx2.Response]:
    """What the server answers with, but with other bytes in its body."""
    return lambda response: httpx2.Response(response.status_code, content=change(response.content))


def altered(**fields: object) -> Callable[[httpx2.Response], httpx2.Response]:
    """The document that the server answers with, but for these fields; those of a table are altered one by one.

    What is not there to be altered is left out, as in the status of a job before its vote is over.
    """

    def alter(body: bytes) -> bytes:
        document = json.loads(body)
        for name, value in fields.items():
            if document[name] is not None:
                document[name] = {**document[name], **value} if isinstance(value, dict) else value
        return json.dumps(document, default=str).encode()

    return changed(alter)
