"""A job on its way to both servers: its samples as a file, its terms, its data.

What broke off is continued from the draft in the kit, and sends only what a server does not have yet.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import numpy as np

from sedml import Progress
from sedml.errors import BodyTooLargeError, InputError, KitError, NotFoundError, SedmlError
from sedml.files.digest import CHUNK
from sedml.service.client import drafts
from sedml.service.client.arguments import is_path, path_of, rows_of
from sedml.service.client.connection import Connection
from sedml.service.client.drafts import Draft
from sedml.service.client.pair import Pair, asked, from_both
from sedml.service.client.samples import suffix_of
from sedml.service.client.views import JobView
from sedml.service.kits import ClientKit
from sedml.service.messages import JobStatus
from sedml.service.server_messages import About, ServerInfo
from sedml.service.states import JobState
from sedml.service.terms import Terms

if TYPE_CHECKING:
    from sedml.service.client.request import JobRequest


def samples_file(kit: ClientKit, data: object, request: JobRequest) -> tuple[Path, bool]:
    """The file of samples, and whether it was made here."""
    from sedml.service.client.sample_tables import doubt_ids, is_table, table_arrays

    data = path_of("data", data) if is_path(data) else data
    content = io.BytesIO()
    if is_table(data, request.id_column):
        arrays = table_arrays(data, request.id_column, request.class_names)
        doubt_ids(arrays, data if isinstance(data, Path) else "the data")
        np.savez_compressed(content, **arrays)
    elif request.id_column is not None:
        raise InputError("id_column is for tables, and these samples are none.", "Name the array of ids 'ids'.")
    elif isinstance(data, Path):
        return data, False
    else:
        np.save(content, np.ascontiguousarray(rows_of("data", data)), allow_pickle=False)
    # One name for the same samples, so that what broke off leaves one file at most.
    name = hashlib.sha256(content.getbuffer()).hexdigest()[:32]
    path = drafts.record_folder(kit) / f"{name}{suffix_of(content.getvalue()[:8])}"
    try:
        path.write_bytes(content.getbuffer())
    except OSError as error:
        raise KitError(
            f"{path} cannot be written ({error.strerror}).", "Free some disk space, or pass a file."
        ) from None
    return path, True


async def infos_of(pair: Pair, size: int) -> tuple[ServerInfo, ServerInfo]:
    """What both servers say of themselves; raises if one of them does not take so many bytes of data."""
    infos = await from_both(pair, lambda server: server.get("/v1/server", ServerInfo))
    for info in infos:
        if size > info.max_data_bytes:
            raise BodyTooLargeError(
                f"The data has {size:,} bytes, and {info.server.upper()} takes at most {info.max_data_bytes:,}.",
                "Send fewer samples, in a narrower type, or as np.savez_compressed.",
            )
    return infos


async def releases_of(pair: Pair) -> tuple[str, str] | None:
    """What both servers say they run; none where one is too old to say."""
    s0, s1 = await asked(pair, lambda server: server.get("/v1/about", About))
    for answer in (s0, s1):
        if isinstance(answer, SedmlError) and not isinstance(answer, NotFoundError):
            raise answer
    return (s0.release, s1.release) if isinstance(s0, About) and isinstance(s1, About) else None


async def publish(kit: ClientKit, pair: Pair, record: Draft, progress: Progress) -> JobView:
    """Put a job on record at both servers, and its data; what they have of it already is not sent again."""
    terms = record.terms
    statuses = await _announce(kit, pair, terms)
    missing = {status.server for status in statuses if status.state == JobState.CREATED}
    sent = dict.fromkeys(missing, 0)

    async def send(server: Connection) -> JobStatus:
        if server.name not in missing:
            return await server.get(f"/v1/jobs/{terms.id}", JobStatus)

        async def parts() -> AsyncIterator[bytes]:
            sent[server.name] = 0
            async with await anyio.open_file(record.data, "rb") as stream:
                while part := await stream.read(CHUNK):
                    yield part
                    sent[server.name] += len(part)
                    progress("uploading", sum(sent.values()), len(sent) * terms.data_bytes)

        return await server.put(f"/v1/jobs/{terms.id}/data", JobStatus, parts, size=terms.data_bytes)

    s0, s1 = await from_both(pair, send)
    if not record.complete:
        drafts.save(kit, record.model_copy(update={"complete": True}))
        if record.own_data:
            Path(record.data).unlink(missing_ok=True)
    return JobView(terms.id, s0, s1)


async def _announce(kit: ClientKit, pair: Pair, terms: Terms) -> tuple[JobStatus, JobStatus]:
    """Both servers put the terms on record; what one will never take is kept neither at the other nor here."""
    s0, s1 = await asked(pair, lambda server: server.put(f"/v1/jobs/{terms.id}", JobStatus, terms))
    if not isinstance(s0, SedmlError) and not isinstance(s1, SedmlError):
        return s0, s1
    refusals = [answer for answer in (s0, s1) if isinstance(answer, SedmlError)]
    if not any(refusal.passing for refusal in refusals):
        for server, answer in ((pair.s0, s0), (pair.s1, s1)):
            # One that takes votes already may have some: it was on record at both once.
            if not isinstance(answer, SedmlError) and answer.state == JobState.CREATED:
                await server.delete(f"/v1/jobs/{terms.id}", JobStatus)
        drafts.forget(kit, terms.id)
    raise refusals[0]
