"""What requesters can do: plan and create jobs, watch them, run them, take the labels home, delete them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import anyio.to_thread
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sedml import Progress
from sedml.console.job_documents import job_document
from sedml.console.live_plan import Question
from sedml.console.replies import Document, document, streamed
from sedml.console.session import QUICK, Session, session_of
from sedml.console.uploads import named_file, read_document, save_body
from sedml.errors import FileFormatError, MalformedRequestError, SedmlError
from sedml.files import save_labels
from sedml.protocol.votes import NO_CONSENSUS
from sedml.service.client import AsyncRequester
from sedml.service.client.request import JobRequest
from sedml.service.client.samples import count_samples, load_samples
from sedml.service.client.views import check_id

__all__ = ["requester_routes"]

_SUFFIXES = (".npy", ".csv")


class _Job(BaseModel):
    """What the page asks for when it creates a job."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    asked: Annotated[int, Field(ge=1)]
    """How many of the samples in the file, from the first on."""
    follows_plan: bool = False
    """It must be what the newest plan says, and the plan that of the same question."""
    job: JobRequest


async def list_jobs(request: Request) -> Response:
    """The requester's jobs."""
    views = await _quick(session_of(request)).jobs()
    return document({"jobs": [job_document(view) for view in views]})


async def show_job(request: Request) -> Response:
    """One job, at both servers."""
    return document(job_document(await _quick(session_of(request)).status(request.path_params["job"])))


async def plan(request: Request) -> Response:
    """What a budget buys."""
    try:
        question = Question.model_validate(dict(request.query_params))
    except ValidationError as error:
        field = error.errors(include_url=False)[0]["loc"][0]
        raise MalformedRequestError(f"The plan needs a number for {field}.", f"Change {field}.") from None
    return document(await session_of(request).planner.plan(question))


async def take_samples(request: Request) -> Response:
    """Take a file of samples, in place of the one before."""
    session = session_of(request)
    with TemporaryDirectory(dir=session.scratch) as folder:
        arriving = Path(folder) / named_file(request)
        await save_body(request, arriving)
        try:
            samples = await anyio.to_thread.run_sync(count_samples, arriving)
        except SedmlError as error:
            raise type(error)(error.what.replace(str(arriving), arriving.name), error.do) from None
        size = arriving.stat().st_size
        arriving.replace(_samples(session))
    return document({"name": arriving.name, "samples": samples, "bytes": size})


async def create_job(request: Request) -> Response:
    """Create a job on the file of samples that was sent."""
    wanted, session = await read_document(request, _Job), session_of(request)
    if wanted.follows_plan:
        session.planner.check(wanted.asked, wanted.job)
    return streamed(partial(_create, session, wanted))


async def _create(session: Session, wanted: _Job, progress: Progress) -> Document:
    path = _samples(session)
    if not path.exists():
        raise FileFormatError("No file of samples was chosen yet.", "Choose one first: .npz or .npy.")
    held = await anyio.to_thread.run_sync(count_samples, path)
    if wanted.asked > held:
        raise FileFormatError(f"The file holds {held:,} samples.", f"Ask about {held:,} at most.")
    data = path if wanted.asked == held else (await anyio.to_thread.run_sync(load_samples, path))[: wanted.asked]
    return job_document(await AsyncRequester(session.kit).ask(data, wanted.job, progress))


async def run_job(request: Request) -> Response:
    """End the vote, wait for the servers, fetch the labels."""
    requester, job = AsyncRequester(session_of(request).kit), check_id(request.path_params["job"])

    async def run(progress: Progress) -> Document:
        result = await requester.run(job, progress)
        seconds = {"closing": result.seconds.closing, "aggregating": result.seconds.aggregating}
        figures = {"teachers": result.task.teachers, "seconds": seconds | {"fetching": result.seconds.fetching}}
        return _balance(result.labels, result.task.classes) | figures

    return streamed(run)


async def show_balance(request: Request) -> Response:
    """How many samples of a finished job got each label."""
    requester, job = _quick(session_of(request)), request.path_params["job"]
    terms = (await requester.status(job)).terms
    return document(_balance(await requester.labels(job), terms.classes))


async def send_labels(request: Request) -> Response:
    """The labels, as a file."""
    job, suffix = check_id(request.path_params["job"]), f".{request.path_params['kind']}"
    if suffix not in _SUFFIXES:
        raise FileFormatError("Labels can be had in two formats here.", f"Use one of {', '.join(_SUFFIXES)}.")
    labels = await _quick(session_of(request)).labels(job)
    content = await anyio.to_thread.run_sync(_as_file, labels, suffix)
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
        Route(f"{one}/balance", show_balance, methods=["GET"]),
        Route(one + "/labels/{kind}", send_labels, methods=["GET"]),
        Route("/api/plan", plan, methods=["GET"]),
        Route("/api/samples", take_samples, methods=["PUT"]),
    ]


def _quick(session: Session) -> AsyncRequester:
    return AsyncRequester(session.kit, patience=QUICK)


def _samples(session: Session) -> Path:
    return session.scratch / "samples"


def _balance(labels: npt.NDArray[np.int64], classes: int) -> Document:
    answered = labels[labels != NO_CONSENSUS]
    counts = np.bincount(answered, minlength=classes).tolist()
    return {"samples": labels.size, "answered": answered.size, "counts": counts}


def _as_file(labels: npt.NDArray[np.int64], suffix: str) -> bytes:
    with TemporaryDirectory(prefix="sedml-") as folder:
        path = Path(folder) / f"labels{suffix}"
        save_labels(path, labels)
        return path.read_bytes()
