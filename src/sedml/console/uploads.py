"""What comes in: documents and files, each no longer than it may be."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from sedml.console.replies import about
from sedml.errors import BodyTooLargeError, MalformedRequestError, SedmlError, TaskError
from sedml.service.kits.folder import finding

_MOST_DOCUMENT = 64 << 10
MOST_PREDICTIONS = 256 << 20
MOST_SAMPLES = 4 << 30
"""Bytes; what a server takes may be less."""

T = TypeVar("T")
Kind = TypeVar("Kind", bound=BaseModel)


async def read_document(
    request: Request, kind: type[Kind], what: str = "This cannot be used", do: str = "Change it."
) -> Kind:
    """The document that was sent; of a wrong one `what` and `do` are said, and its field, never what is in that."""
    content = b"".join([part async for part in _parts(request, _MOST_DOCUMENT)])
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        known = error.errors(include_url=False, include_input=False)[0].get("ctx", {}).get("error")
        if isinstance(known, TaskError):  # of class names; it quotes none
            raise known from None
        where, how = finding(error)
        with about(where.rpartition(".")[2]):
            raise MalformedRequestError(f"{what} ({where}: {how.lower()}).", do) from None


async def save_body(request: Request, path: Path) -> None:
    """Write a file of public samples to the disk, as it comes."""
    async with await anyio.open_file(path, "wb") as file:
        async for part in _parts(request, MOST_SAMPLES):
            await file.write(part)


async def read_privately(request: Request, read: Callable[[Path], T]) -> T:
    """What `read` makes of a file that nobody else may see, and that is nowhere once it was read.

    On Linux it is in memory only. Elsewhere a file of ours holds it, which nobody else may open, while it is read.
    """
    content = b"".join([part async for part in _parts(request, MOST_PREDICTIONS)])
    return await anyio.to_thread.run_sync(_read_privately, content, named_file(request), read)


def named_file(request: Request) -> str:
    """The name of the file that was chosen, as far as it is fit to be a name here."""
    name = re.sub(r"[^\w.-]", "_", request.query_params.get("name", "")).lstrip(".")
    return name[-80:] or "file"


@contextmanager
def by_name(folder: Path | str) -> Iterator[None]:
    """What fails in here calls the files of this folder as whoever chose them does: by their names."""
    try:
        yield
    except SedmlError as error:
        error.what = error.what.replace(f"{folder}{os.sep}", "")
        raise


def _read_privately(content: bytes, name: str, read: Callable[[Path], T]) -> T:
    with tempfile.TemporaryDirectory(prefix="sedml-") as folder, by_name(folder):
        path = Path(folder) / name
        if not hasattr(os, "memfd_create"):
            path.write_bytes(content)
            return read(path)
        with os.fdopen(os.memfd_create("sedml"), "wb") as memory:
            memory.write(content)
            memory.flush()
            path.symlink_to(f"/proc/self/fd/{memory.fileno()}")
            return read(path)


async def _parts(request: Request, most: int) -> AsyncIterator[bytes]:
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise BodyTooLargeError(f"This is longer than {most:,} bytes.", "Use the command line for larger files.")
        yield part
