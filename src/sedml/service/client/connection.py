"""HTTPS to one server: its identity checked, lost answers asked for again, its errors raised as our own.

Every call of the interface may be repeated, so every call *is* repeated while the server cannot be reached, is busy
(429, with its Retry-After), has a moment's trouble (502, 503, 504) or waits for the other one to cosign its log, for as
long as `patience` says. What a server
refuses comes back as the exception that the server raised (`sedml.service.problems`).

A server is known by the name in its certificate, "s0" or "s1", whatever its address; only the authority of the kit is
trusted to certify it. Tokens go into the one header and nowhere else.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, TypeAlias, TypeVar

import anyio
import httpx2
import stamina
from pydantic import BaseModel, ValidationError

from sedml.errors import (
    InvalidTokenError,
    KitError,
    NotCosignedError,
    SedmlError,
    ServerError,
    ServerIdentityError,
    UnreachableError,
    printable,
)
from sedml.service.client.secure import https
from sedml.service.kits import Access, ClientKit
from sedml.service.messages import AccountList, Problem, ServerName
from sedml.service.problems import error_of

__all__ = ["PATIENCE", "Body", "Connection", "connected", "error_from", "opened"]

PATIENCE: Final = 60.0
"""Seconds for which a call is tried again."""

Body: TypeAlias = bytes | Callable[[], AsyncIterator[bytes]]
"""What is sent; a function starts from the beginning, as often as it takes."""

_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
_BUSY = frozenset({429, 502, 503, 504})
_MAX_DOCUMENT = 1 << 20  # one that makes no sense can take some hundred times of that in the parser
_MAX_ACCOUNTS = 1 << 25  # which an operator's own server sends
_LEAST_RATE = 16 << 10  # bytes a second of an answer, after the first of these seconds
_SLOWNESS = 60.0
_PATIENT = 120.0  # seconds until an answer begins, besides those for a body to be sent
_PIECE = 1 << 20
_MAX_TEXT = 2000
_MAX_PAUSE = 60.0

T = TypeVar("T")
Document = TypeVar("Document", bound=BaseModel)


class _Again(Exception):  # noqa: N818 - a message to the loop that tries again, which raises `error` in the end
    """This failure may pass."""

    def __init__(self, error: SedmlError, after: float | None = None) -> None:
        super().__init__(error.what)
        self.error = error
        self.after = after


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: Body | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    accept: int | None = None


class Connection:
    """A connection to one server, with the tokens of one party; made by `opened`."""

    def __init__(self, name: ServerName, access: Access, transport: httpx2.AsyncBaseTransport, patience: float) -> None:
        from sedml import __version__

        self.name = name
        self.url = access.url
        self.received = 0
        """Bytes of all documents that came over it."""
        self._transport = transport
        # Shares and ciphertexts do not compress, and what is not unpacked cannot blow up.
        self._headers = {"User-Agent": f"sedml/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
        self._patience = patience
        # A token that is being replaced: until the server knows of the new one, it takes the old.
        self._tokens = [token for token in (access.token, access.previous_token) if token]

    async def get(self, path: str, kind: type[Document], accept: int | None = None) -> Document:
        """Ask for a document; one that comes with the status `accept` is no error."""
        return await self._document(_Request("GET", path, accept=accept), kind)

    async def put(
        self,
        path: str,
        kind: type[Document],
        body: Body | BaseModel,
        *,
        size: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Document:
        """Send a document, or raw bytes; those of a function have `size` in all."""
        sent: Body = body.model_dump_json().encode() if isinstance(body, BaseModel) else body
        media = "application/json" if isinstance(body, BaseModel) else "application/octet-stream"
        if isinstance(sent, bytes) and len(sent) > _PIECE:
            # TLS takes large bodies several times faster in pieces.
            size, sent = len(sent), partial(_pieces, sent)
        length = {} if size is None else {"Content-Length": str(size)}
        return await self._document(
            _Request("PUT", path, sent, {"Content-Type": media, **length, **(headers or {})}), kind
        )

    async def post(self, path: str, kind: type[Document]) -> Document:
        """Ask for something to be done."""
        return await self._document(_Request("POST", path), kind)

    async def delete(self, path: str, kind: type[Document]) -> Document:
        """Ask for something to be deleted."""
        return await self._document(_Request("DELETE", path), kind)

    async def content(self, path: str, limit: int) -> bytes:
        """Ask for raw bytes, at most so many."""
        return await self._call(_Request("GET", path), lambda response: self._read(response, limit))

    async def download(self, path: str, take: Callable[[AsyncIterator[bytes]], Awaitable[T]]) -> T:
        """Ask for a long body; `take` is called again from its beginning if the connection breaks off."""
        return await self._call(_Request("GET", path), lambda response: take(self._parts(response)))

    async def _document(self, request: _Request, kind: type[Document]) -> Document:
        most = _MAX_ACCOUNTS if kind is AccountList else _MAX_DOCUMENT
        content = await self._call(request, lambda response: self._read(response, most))
        try:
            document = kind.model_validate_json(content)
        except ValidationError:
            raise self._strange() from None
        if getattr(document, "server", self.name) != self.name:
            raise self._strange()
        return document

    async def _call(self, request: _Request, take: Callable[[httpx2.Response], Awaitable[T]]) -> T:
        try:
            async for attempt in stamina.retry_context(
                on=_pause,
                attempts=None if self._patience else 1,
                timeout=self._patience or None,
                wait_initial=0.05,
                wait_max=5.0,
                wait_jitter=0.2,
            ):
                with attempt:
                    return await self._with_a_token(request, take)
            raise AssertionError("the last attempt raises what it failed of")
        except _Again as again:
            error = again.error
        # Raised out here so that nothing of the transport is chained to it.
        raise error

    async def _with_a_token(self, request: _Request, take: Callable[[httpx2.Response], Awaitable[T]]) -> T:
        # The server may take up the newer one between two attempts, so that one gets a second.
        attempts = len(self._tokens) + 1
        while True:
            try:
                return await self._once(request, take)
            except InvalidTokenError:
                attempts -= 1
                if len(self._tokens) < 2 or not attempts:
                    raise
                self._tokens.append(self._tokens.pop(0))

    async def _once(self, request: _Request, take: Callable[[httpx2.Response], Awaitable[T]]) -> T:
        # No client of httpx around the transport: there are no cookies, no redirects and no proxy but the transport's.
        sent = self._request(request)
        try:
            # Each byte of a head comes before a time-out would, and so does one "not yet" after the other.
            with anyio.move_on_after(_PATIENT + int(sent.headers.get("Content-Length", 0)) / _LEAST_RATE) as waiting:
                response = await self._transport.handle_async_request(sent)
            if waiting.cancelled_caught:
                raise httpx2.ReadTimeout("too slow")
            response.request = sent
            try:
                if not response.is_success and response.status_code != request.accept:
                    raise await self._refusal(response)
                return await take(response)
            finally:
                await response.aclose()
        except httpx2.DecodingError:
            raise self._strange() from None
        except httpx2.HTTPError as error:
            raise self._broken(error) from None

    def _request(self, request: _Request) -> httpx2.Request:
        token = {"Authorization": f"Bearer {self._tokens[0]}"} if self._tokens else {}
        return httpx2.Request(
            request.method,
            _url(self.url, request.path),
            content=request.body() if callable(request.body) else request.body,
            headers={**self._headers, **token, **request.headers},
            extensions={"sni_hostname": self.name, "timeout": _TIMEOUT.as_dict()},
        )

    async def _read(self, response: httpx2.Response, limit: int) -> bytes:
        parts, size = [], 0
        async for part in self._parts(response):
            size += len(part)
            if size > limit:
                raise self._strange()
            parts.append(part)
        self.received += size
        return b"".join(parts)

    async def _parts(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """A body as it comes, which it must do at a least rate, and not packed: we have asked for neither."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise self._strange()
        start, done, parts = anyio.current_time(), 0, aiter(response.aiter_bytes())
        while True:
            left = start + _SLOWNESS + done / _LEAST_RATE - anyio.current_time()
            # What comes between two parts, such as how long the next one is, can be dealt out byte by byte as well.
            with anyio.move_on_after(left) as waiting:
                part = await anext(parts, None)
            if left < 0 or waiting.cancelled_caught:
                raise httpx2.ReadTimeout("too slow")
            if part is None:
                return
            done += len(part)
            yield part

    async def _refusal(self, response: httpx2.Response) -> Exception:
        """What a server that does not say yes means."""
        content = await self._read(response, _MAX_DOCUMENT)
        try:
            error = error_from(Problem.model_validate_json(content))
        except ValidationError:
            error = ServerError(
                f"{self._who} answered with status {response.status_code} and no explanation.",
                "Ask its operator to look at the server's log; a proxy on the way may answer in its place.",
            )
        if response.status_code in _BUSY or isinstance(error, NotCosignedError):
            return _Again(error, _seconds(response.headers.get("Retry-After")))
        return error

    def _broken(self, error: httpx2.HTTPError) -> Exception:
        """What a call that failed on the way means."""
        cause = _ssl_error(error)
        if cause is not None:
            reason = str(getattr(cause, "verify_message", None) or cause.reason or type(cause).__name__)
            return ServerIdentityError(
                f"What answers at {self.url} cannot prove that it is {self.name} ({printable(reason)}).",
                "Nothing was sent to it. Check the address in kit.toml, the server's certificate, this machine's "
                "clock, and with the operator that ca.pem is theirs.",
            )
        return _Again(
            UnreachableError(
                f"{self._who} cannot be reached ({_reason(error)}).",
                "Check the address in kit.toml, the network and its firewalls, and that the server is running; then "
                "try again, which is always safe. `sedml doctor` checks all of it.",
            )
        )

    def _strange(self) -> ServerError:
        return ServerError(
            f"{self._who} gave an answer that makes no sense.",
            "Check with `sedml doctor` that the servers run the same release as you.",
        )

    @property
    def _who(self) -> str:
        return f"{self.name.upper()} at {self.url}"


def connected(kit: ClientKit, name: ServerName, patience: float = PATIENCE) -> AbstractAsyncContextManager[Connection]:
    """A connection to one of the servers of a kit."""
    if name not in kit.servers:
        raise KitError(f"The kit {kit.folder} has no access to {name}.", "Use a kit that does.")
    return opened(name, kit.servers[name], kit.authority, patience)


@asynccontextmanager
async def opened(
    name: ServerName, access: Access, authority: bytes, patience: float = PATIENCE
) -> AsyncIterator[Connection]:
    """A connection to a server; with an empty token, as nobody in particular."""
    async with https(access.url, authority) as transport:
        yield Connection(name, access, transport, patience)


def error_from(problem: Problem) -> SedmlError:
    """The error that a server told of, fit to be shown: a server's text must not steer a terminal."""
    title, detail = (printable(text[:_MAX_TEXT]) for text in (problem.title, problem.detail))
    return error_of(problem.model_copy(update={"title": title, "detail": detail}))


@lru_cache(maxsize=64)
def _url(base: str, path: str) -> httpx2.URL:
    """Kept, since to take one apart takes longer than all else about a request, and most are asked for again."""
    return httpx2.URL(base.rstrip("/")).copy_with(raw_path=path.encode("ascii"))


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _PIECE):
        yield body[start : start + _PIECE]


def _pause(error: Exception) -> bool | float:
    """Whether to try again, and after how long if the server said so."""
    if not isinstance(error, _Again):
        return False
    return True if error.after is None else error.after


def _seconds(text: str | None) -> float | None:
    try:
        return min(_MAX_PAUSE, max(0.0, float(text))) if text is not None else None
    except ValueError:
        return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _ssl_error(error: BaseException) -> ssl.SSLError | None:
    """What TLS has against the other side; that it hung up, or had not said all yet, is nothing of the kind."""
    gone = ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    waits = ssl.SSLWantReadError | ssl.SSLWantWriteError
    return next((e for e in _causes(error) if isinstance(e, ssl.SSLError) and not isinstance(e, gone | waits)), None)


def _reason(error: BaseException) -> str:
    """The reason in words; the text of foreign errors is left out."""
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return "no such host"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
    return "no connection" if isinstance(error, httpx2.ConnectError) else "the connection broke off"
