"""Bodies of requests and answers: read in full or not at all, of the size that was announced, and in time.

A route asks the core how many bytes it expects before a byte is read. A client may be slow, in sending as in reading,
but not for ever: in each `body_timeout` that is spent waiting for it, bytes must move at a least rate.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sedml.errors import BodyTruncatedError, NotFoundError, RequestTimeoutError, StoreError
from sedml.service.server import data_room
from sedml.service.server.http.refusals import malformed, too_large
from sedml.service.server.http.request_info import DOCUMENT_BYTES, in_thread, info_of, web_of

BINARY = "application/octet-stream"
JSON = "application/json"

_LEAST_RATE = 16 << 10  # bytes a second
_CHUNK = 1 << 20
_ANSWER_CHUNK = 64 << 10
_BREATH = 1.0  # seconds between two pieces of an answer, at most, for an account that has used up its share
_ANSWER_MEMORY = 4 * _ANSWER_CHUNK  # the piece at hand and the one before it, plain and encrypted

D = TypeVar("D", bound=BaseModel)
T = TypeVar("T")


class _Pace:
    """How long one client may keep the server waiting."""

    def __init__(self, request: Request) -> None:
        self._patience = web_of(request).node.settings.body_timeout
        self._begin()

    def _begin(self) -> None:
        self._left = self._patience
        self._due = self._patience * _LEAST_RATE

    async def wait(self, step: Awaitable[T]) -> T:
        """Wait for the client to take a step."""
        start = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                done = await step
        except TimeoutError:
            raise _too_slow() from None
        self._left -= time.monotonic() - start
        # A step that takes no waiting lets no time-out fire, so the clock is looked at too.
        if self._left < 0:
            raise _too_slow()
        return done

    def moved(self, size: int) -> None:
        """Note that so many bytes have come or gone."""
        self._due -= size
        if self._due <= 0:
            self._begin()


class _Intake:
    """One body on its way in, piece by piece."""

    def __init__(self, request: Request, size: int, media_type: str) -> None:
        _check_type(request, media_type)
        self._request = request
        info = info_of(request)
        info.limit = size
        self._pace = _Pace(request)
        self._ended = False
        self.announced = info.announced
        if self.announced is not None and self.announced > size:
            raise too_large()

    async def piece(self) -> bytes:
        """The next bytes; none at the end."""
        while not self._ended:
            message = await self._pace.wait(self._request.receive())
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._ended = not message.get("more_body", False)
            body: bytes = message.get("body", b"")
            self._pace.moved(len(body))
            if body:
                return body
        return b""


@asynccontextmanager
async def read_body(request: Request, size: int) -> AsyncIterator[bytes]:
    """The body, which must have exactly so many bytes; it takes up room until the block ends."""
    intake = _Intake(request, size, BINARY)
    _check_announced(intake.announced, size)
    with web_of(request).limits.memory.reserve(_account(request), size):
        body = await _collect(intake)
        if len(body) < size:
            raise _truncated()
        yield body


async def read_document(request: Request, kind: type[D]) -> D:
    """The body as a document of this kind."""
    body = await _collect(_Intake(request, DOCUMENT_BYTES, JSON))
    return await in_thread(request, _parsed, kind, body)


def _parsed(kind: type[D], body: bytes) -> D:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        findings = error.errors(include_url=False, include_context=False, include_input=False)
        raise malformed(findings, kind.model_fields) from None


async def stream_to_file(request: Request, folder: Path, size: int) -> Path:
    """The body in a new file of this folder, with exactly so many bytes. Whoever calls removes it."""
    intake = _Intake(request, size, BINARY)
    _check_announced(intake.announced, size)
    path = folder / f"{secrets.token_hex(16)}.part"
    with web_of(request).limits.disk.reserve(_account(request), size):
        try:
            await _store(request, intake, path, size)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise StoreError(
                    f"The upload cannot be stored ({error.strerror}).", "Tell the server's operator; send it again."
                ) from None
            raise
    return path


def document(content: BaseModel, new: bool = False) -> Response:
    """A document as an answer: 201 for what is new, else 200."""
    return Response(content.model_dump_json(), HTTPStatus.CREATED if new else HTTPStatus.OK, media_type=JSON)


async def file_answer(request: Request, path: Path) -> Response:
    """The bytes of a file as an answer."""
    try:
        file = await in_thread(request, _open, path)
    except FileNotFoundError:
        raise NotFoundError("The file is not here any more.", "It has been deleted.") from None
    return _FileAnswer(request, file)


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


async def _collect(intake: _Intake) -> bytes:
    body = bytearray()
    while piece := await intake.piece():
        body += piece
    return bytes(body)


async def _store(request: Request, intake: _Intake, path: Path, size: int) -> None:
    def create() -> BinaryIO:
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        try:
            data_room.allocate(web_of(request).node, file.fileno(), size)
        except BaseException:
            file.close()
            raise
        return file

    with await in_thread(request, create) as file:
        buffer = bytearray()
        stored = 0
        while True:
            piece = await intake.piece()
            buffer += piece
            if buffer and (len(buffer) >= _CHUNK or not piece):
                stored += await in_thread(request, _write_all, file, bytes(buffer))
                buffer.clear()
            if not piece:
                break
    if stored < size:
        raise _truncated()


def _write_all(file: BinaryIO, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
    return len(data)


class _FileAnswer(Response):
    """Reads as fast as the client does, and no further once the client has gone, or the file was deleted."""

    media_type = BINARY

    def __init__(self, request: Request, file: BinaryIO) -> None:
        self._request, self._file = request, file
        size = os.fstat(file.fileno()).st_size
        super().__init__(headers={"Content-Length": str(size)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, pace = self._request, _Pace(self._request)
        with self._file as file, web_of(request).limits.answers.reserve(_account(request), _ANSWER_MEMORY):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if info_of(request).method != "HEAD":
                while chunk := await in_thread(request, file.read, _ANSWER_CHUNK):
                    await pace.wait(send({"type": "http.response.body", "body": chunk, "more_body": True}))
                    pace.moved(len(chunk))
                    await asyncio.sleep(min(_BREATH, web_of(request).limits.processor.wait(_account(request))))
                    # What was deleted is not read on: its room is free only once the slowest reader is done.
                    if await request.is_disconnected() or not os.fstat(file.fileno()).st_nlink:
                        return
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _account(request: Request) -> str:
    caller = info_of(request).caller
    return caller.name if caller else ""


def _check_type(request: Request, media_type: str) -> None:
    """Raise if the body says that it is something else; it need not say anything."""
    stated = request.headers.get("content-type", media_type).partition(";")[0].strip().lower()
    if stated != media_type or request.headers.get("content-encoding", "identity") != "identity":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)


def _check_announced(announced: int | None, size: int) -> None:
    if announced is not None and announced < size:
        raise _truncated()


def _too_slow() -> RequestTimeoutError:
    return RequestTimeoutError("The body moved too slowly.", "Try again over a better connection.")


def _truncated() -> BodyTruncatedError:
    return BodyTruncatedError("The body is too short.", "Send all of it.")
