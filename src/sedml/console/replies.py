"""What goes out: documents, problems that say what happened and what to do, and progress line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from sedml import Progress
from sedml.errors import SedmlError
from sedml.files.documents import finite
from sedml.service.messages import Problem
from sedml.service.problems import PREFIX, problem_of

Document: TypeAlias = dict[str, Any]
Work: TypeAlias = Callable[[Progress], Awaitable[Document]]
"""Something that takes a while, and what comes of it."""


def document(content: BaseModel | Document) -> Response:
    """A document of JSON."""
    return JSONResponse(finite(content.model_dump(mode="json") if isinstance(content, BaseModel) else content))


async def problem(request: Request, error: Exception) -> Response:
    """The answer to an error of ours."""
    assert isinstance(error, SedmlError)  # noqa: S101 - it is registered for these
    return JSONResponse(_told(error), problem_of(error).status)


@contextmanager
def about(field: str) -> Iterator[None]:
    """What fails in here is said at this field of the form."""
    try:
        yield
    except SedmlError as error:
        error.field = field
        raise


def refused(status: int, what: str, do: str) -> Response:
    """The answer of the gate, as a document."""
    return JSONResponse(Problem(type=f"{PREFIX}console", title=what, status=status, detail=do).model_dump(), status)


def failed() -> Response:
    """The answer where nobody knows one."""
    return JSONResponse(_unforeseen().model_dump(), 500)


def streamed(work: Work) -> Response:
    """Work under way, a document a line: {"doing", "done", "total"} until it ends in {"result"} or {"problem"}.

    It ends with the connection: every call of ours can be repeated, and goes on from where it was.
    """
    return StreamingResponse(_lines(work), media_type="application/x-ndjson")


async def _lines(work: Work) -> AsyncIterator[str]:
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Document] = asyncio.Queue()

    def progress(what: str, done: int, total: int) -> None:
        # Also called from threads.
        loop.call_soon_threadsafe(queue.put_nowait, {"doing": what, "done": done, "total": total})

    async def run() -> None:
        try:
            last = {"result": await work(progress)}
        except SedmlError as error:
            last = {"problem": _told(error)}
        except Exception:  # its text may hold anything
            last = {"problem": _unforeseen().model_dump()}
        # In turn with what threads have told before.
        loop.call_soon(queue.put_nowait, last)

    task = asyncio.create_task(run())
    try:
        while True:
            line = await queue.get()
            yield json.dumps(finite(line)) + "\n"
            if "doing" not in line:
                return
    finally:
        task.cancel()


def _told(error: SedmlError) -> Document:
    return problem_of(error).model_dump() | {"field": error.field}


def _unforeseen() -> Problem:
    return Problem(
        type=f"{PREFIX}internal",
        title="The console failed to do this.",
        status=500,
        detail="Try again. The command line can do the same, and may say more.",
    )
