"""A job's samples on their way to a teacher, checked against its terms."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import anyio.to_thread

from sedml import Progress
from sedml.errors import FileFormatError, PredictionsError, SedmlError, ServerError, counted
from sedml.files import replacing
from sedml.service.client.arguments import is_path, path_of
from sedml.service.client.connection import Connection
from sedml.service.client.pair import Pair
from sedml.service.client.samples import Samples, count_samples, fingerprint, load_samples, sample_ids, suffix_of
from sedml.service.kits import ClientKit
from sedml.service.terms import Terms

_KINDS = {".npy", ".npz", ".csv", ".tsv", ".parquet"}

T = TypeVar("T")


async def samples_of(kit: ClientKit, pair: Pair, terms: Terms, data: object, progress: Progress) -> Samples:
    """The samples of a job: those at hand, if they are its own, or downloaded."""
    if data is None or is_path(data):
        return await _opened(kit, pair, terms, data, progress, load_samples)
    samples = cast(Samples, data)
    _check_count(len(samples), terms)
    return samples


def _check_count(count: int, terms: Terms) -> None:
    if count != terms.samples:
        raise PredictionsError(
            f"The data has {counted(count, 'sample')}, and the job {terms.samples:,}.",
            "Give the job's samples, in the order of its data.",
        )


async def ids_of_samples(
    kit: ClientKit, pair: Pair, terms: Terms, data: object, progress: Progress
) -> list[str] | None:
    """What the samples of a job are called; None if they are only numbered."""
    return await _opened(kit, pair, terms, data if is_path(data) else None, progress, sample_ids)


async def _opened(
    kit: ClientKit, pair: Pair, terms: Terms, data: object, progress: Progress, read: Callable[[Path], T]
) -> T:
    """What `read` makes of the job's file: the one at hand, if it is that, or else downloaded."""

    def checked(path: Path) -> T:
        # Somebody else has written it: what it says of itself is looked at before it is unpacked.
        _check_count(count_samples(path), terms)
        return read(path)

    if data is None:
        with tempfile.TemporaryDirectory(prefix="sedml-") as folder:
            path = await download_to(kit, pair, terms, Path(folder), progress)
            return await anyio.to_thread.run_sync(checked, path)
    path = path_of("data", data)
    if await anyio.to_thread.run_sync(fingerprint, path, progress) != (terms.data_bytes, terms.data_sha256):
        raise FileFormatError(f"{path} is not the data of this job.", "Leave it out to download it from the servers.")
    return await anyio.to_thread.run_sync(checked, path)


async def download_to(kit: ClientKit, pair: Pair, terms: Terms, to: Path, progress: Progress) -> Path:
    """Download the samples to a file, or into a folder."""
    target = to / terms.id if to.is_dir() else to
    try:
        with replacing(target) as stream:
            await download(kit, pair, terms, stream, progress)
            stream.seek(0)
            suffix = suffix_of(stream.read(8))
            if suffix and target.suffix.lower() in _KINDS - {suffix}:
                raise FileFormatError(
                    f"The samples of this job come as {suffix}, and {target} would be another kind of file.",
                    f"Choose a name that ends in {suffix}.",
                )
        # Which kind of file it is shows only once it is here.
        return target.rename(target.with_suffix(suffix)) if to.is_dir() else target
    except OSError as error:
        raise FileFormatError(
            f"{to} cannot be written ({error.strerror}).", "Choose a place where you may write, with enough space."
        ) from None


async def download(kit: ClientKit, pair: Pair, terms: Terms, sink: BinaryIO, progress: Progress) -> None:
    """Download them from one of the servers, and from the other if that one fails."""
    # Half of the teachers begin at either server.
    order = (pair.s0, pair.s1) if kit.secret[0] % 2 == 0 else (pair.s1, pair.s0)
    try:
        await _fetch(order[0], terms, sink, progress)
    except SedmlError:
        await _fetch(order[1], terms, sink, progress)


async def _fetch(server: Connection, terms: Terms, sink: BinaryIO, progress: Progress) -> None:
    async def take(parts: AsyncIterator[bytes]) -> tuple[int, str]:
        sink.seek(0)
        sink.truncate()
        digest, done = hashlib.sha256(), 0
        async for part in parts:
            done += len(part)
            if done > terms.data_bytes:
                break
            digest.update(part)
            sink.write(part)
            progress("downloading", done, terms.data_bytes)
        return done, digest.hexdigest()

    if await server.download(f"/v1/jobs/{terms.id}/data", take) != (terms.data_bytes, terms.data_sha256):
        raise ServerError(
            f"The data from {server.name.upper()} does not match the job's terms.",
            "Do not vote on them; tell the operator.",
        )
