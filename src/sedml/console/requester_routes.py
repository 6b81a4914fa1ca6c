"""What requesters can do: plan and create jobs, watch them, run them, take the labels home, delete them."""

from __future__ import annotations

import re
import secrets
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import anyio.to_thread
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sedml import Progress
from sedml.console.job_documents import job_document
from sedml.console.live_plan import Question, count_classes
from sedml.console.replies import Document, about, document, streamed
from sedml.console.session import QUICK, Session, session_of
from sedml.console.uploads import by_name, named_file, read_document, save_body
from sedml.errors import FileFormatError, SedmlError, counted
from sedml.files import save_labels
from sedml.parts.part_files import open_records
from sedml.protocol.thresholds import threshold_count
from sedml.service.client import AsyncRequester
from sedml.service.client.connection import connected
from sedml.service.client.request import JobRequest, moment_of
from sedml.service.client.sample_tables import is_table, table_arrays
from sedml.service.client.samples import count_samples, load_samples, sample_ids
from sedml.service.client.views import check_id
from sedml.service.server_messages import ServerInfo

_SUFFIXES = (".npy", ".csv")
_FIELDS = re.compile(r"\b(deadline|threshold|sigma|classes|title|cohort|delta|epsilon)\b", re.I)


class _Job(BaseModel):
    """What the page asks for when it creates a job."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    file: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    """The file of samples, by the name that it was given when it was sent."""
    asked: Annotated[int, Field(ge=1)]
    """How many of the samples in the file, from the first on."""
    plan: Question | None = None
    """The question of which the job must follow the plan, if it has to follow one."""
    job: JobRequest

    @field_validator("job", mode="before")
    @classmethod
    def _classes(cls, job: object) -> object:
        if isinstance(job, dict):
            count_classes(job.get("classes"))
        return job


async def list_jobs(request: Request) -> Response:
    """The requester's jobs."""
    views = await _quick(session_of(request)).jobs()
    return document({"jobs": [job_document(view) for view in views]})


async def show_job(request: Request) -> Response:
    """One job, at both servers."""
    return document(job_document(await _quick(session_of(request)).status(request.path_params["job"])))


async def plan(request: Request) -> Response:
    """What a budget buys."""
    question = await read_document(request, Question)
    return streamed(partial(session_of(request).planner.plan, question))


async def enrolled(request: Request) -> Response:
    """How many teachers there are, where a server says so."""
    kit = session_of(request).kit
    async with connected(kit, next(iter(kit.servers)), QUICK) as server:
        return document({"teachers": (await server.get("/v1/server", ServerInfo)).teachers})


async def take_samples(request: Request) -> Response:
    """Take a file of samples, in place of the one before."""
    session, file = session_of(request), secrets.token_hex(16)
    with TemporaryDirectory(dir=session.scratch) as folder, by_name(folder):
        arriving = Path(folder) / named_file(request)
        await save_body(request, arriving)
        found = await anyio.to_thread.run_sync(_looked_at, arriving)
        while session.samples:
            shutil.rmtree(session.samples.popitem()[1].parent)
        kept = session.scratch / file / arriving.name
        kept.parent.mkdir()
        session.samples[file] = arriving.replace(kept)
    return document({"name": arriving.name, "file": file, **found})


def _looked_at(path: Path) -> Document:
    """How many samples a file has; of a table also its columns, and which of them has the ids if that is clear."""
    if not is_table(path, None):
        return {"samples": count_samples(path), "columns": None}
    arrays = table_arrays(path, None, ())
    _, names = open_records(path, None).features(set())
    # Unless it is told, it takes the first column for the ids, or none.
    return {"samples": len(arrays["x"]), "columns": names, "id_column": names[0] if "ids" in arrays else None}


async def create_job(request: Request) -> Response:
    """Create a job on the file of samples that was sent."""
    wanted, session = await read_document(request, _Job), session_of(request)
    if wanted.plan is not None:
        session.planner.check(wanted.plan, wanted.asked, wanted.job)
    return streamed(partial(_create, session, wanted))


async def _create(session: Session, wanted: _Job, progress: Progress) -> Document:
    path = session.samples.get(wanted.file)
    if path is None:  # another page of this console has sent one since
        raise FileFormatError("This file of samples is no longer here.", "Choose it again.")
    with about("deadline"):
        moment_of(wanted.job.deadline, datetime.now(UTC))
    with about("threshold"):
        threshold_count(wanted.job.threshold, wanted.job.min_teachers * wanted.job.votes)
    try:
        with TemporaryDirectory(dir=session.scratch) as folder, by_name(path.parent):
            data, job = await anyio.to_thread.run_sync(_first, path, wanted, Path(folder))
            return job_document(await AsyncRequester(session.kit).ask(data, job, progress))
    except SedmlError as error:
        # A server knows of no form: it is about the field that it speaks of.
        spoken = _FIELDS.search(error.what)
        error.field = error.field or (spoken and spoken[0].lower())
        raise


def _first(path: Path, wanted: _Job, folder: Path) -> tuple[object, JobRequest]:
    """The samples that are asked about, with their ids, and the job to go with them; `folder` is for a shorter file."""
    if is_table(path, None):
        with about("id_column"):
            arrays = table_arrays(path, wanted.job.id_column, wanted.job.class_names)
        held = len(arrays["x"])
    else:
        held, arrays = count_samples(path), {}
    with about("asked"):
        if wanted.asked > held:
            raise FileFormatError(f"The file holds {counted(held, 'sample')}.", f"Ask about {held:,} at most.")
    if not arrays:
        if wanted.asked == held:
            return path, wanted.job
        ids = sample_ids(path)
        arrays = {"x": load_samples(path)} | ({} if ids is None else {"ids": np.array(ids, np.str_)})
        if ids is None:
            return arrays["x"][: wanted.asked], wanted.job
    kept: dict[str, Any] = {
        name: array if name == "columns" else array[: wanted.asked] for name, array in arrays.items()
    }
    shorter = folder / "first.npz"
    np.savez_compressed(shorter, **kept)
    return shorter, replace(wanted.job, id_column=None)


async def run_job(request: Request) -> Response:
    """End the vote, wait for the servers, fetch the labels."""
    requester, job = AsyncRequester(session_of(request).kit), check_id(request.path_params["job"])

    async def run(progress: Progress) -> Document:
        found = await requester.run(job, progress)
        return {"labels": found.labels.tolist(), "ids": found.ids}

    return streamed(run)


async def show_labels(request: Request) -> Response:
    """The labels of a finished job, -1 where a sample has none, and what the samples are called."""
    requester, job = _quick(session_of(request)), request.path_params["job"]
    labels = await requester.labels(job)
    return document({"labels": labels.tolist(), "ids": await requester.sample_ids(job)})


async def send_labels(request: Request) -> Response:
    """The labels, as a file."""
    job, suffix = check_id(request.path_params["job"]), f".{request.path_params['kind']}"
    if suffix not in _SUFFIXES:
        raise FileFormatError("Labels can be had in two formats here.", f"Use one of {', '.join(_SUFFIXES)}.")
    requester = _quick(session_of(request))
    labels, names = await requester.labels(job), (await requester.status(job)).terms.class_names
    content = await anyio.to_thread.run_sync(_as_file, labels, suffix, names, await requester.sample_ids(job))
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="labels-{job[:8]}{suffix}"'},
    )


async def delete_job(request: Request) -> Response:
    """Delete what both servers hold of a job."""
    return document(job_document(await AsyncRequester(session_of(request).kit).delete(request.path_params["job"])))


def requester_routes() -> list[Route]:
    """What requesters have."""
    one = "/api/jobs/{job}"
    return [
        Route("/api/jobs", list_jobs, methods=["GET"]),
        Route("/api/jobs", create_job, methods=["POST"]),
        Route(one, show_job, methods=["GET"]),
        Route(one, delete_job, methods=["DELETE"]),
        Route(f"{one}/run", run_job, methods=["POST"]),
        Route(f"{one}/labels", show_labels, methods=["GET"]),
        Route(one + "/labels/{kind}", send_labels, methods=["GET"]),
        Route("/api/plan", plan, methods=["POST"]),
        Route("/api/enrolled", enrolled, methods=["GET"]),
        Route("/api/samples", take_samples, methods=["PUT"]),
    ]


def _quick(session: Session) -> AsyncRequester:
    return AsyncRequester(session.kit, patience=QUICK)


def _as_file(labels: npt.NDArray[np.int64], suffix: str, names: tuple[str, ...], ids: list[str] | None) -> bytes:
    with TemporaryDirectory(prefix="sedml-") as folder:
        path = Path(folder) / f"labels{suffix}"
        save_labels(path, labels, names, ids)
        return path.read_bytes()
