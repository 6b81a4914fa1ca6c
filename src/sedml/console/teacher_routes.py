"""What teachers can do: see which jobs are open and what a vote costs, vote with a file, look at receipts."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.from_thread
import anyio.to_thread
import numpy as np
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from sedml.console.job_documents import cost_document, job_document, receipt_document
from sedml.console.replies import Document, document
from sedml.console.session import QUICK, Session, budgets, session_of
from sedml.console.uploads import read_privately
from sedml.protocol.votes import ABSTAIN, Votes
from sedml.service.client import AsyncTeacher
from sedml.service.client.predicting import read_predictions, vote_rows
from sedml.service.client.receipts import kept
from sedml.service.client.views import check_id
from sedml.service.terms import Terms

_FIRST = 10  # samples of which a preview shows the votes


async def list_jobs(request: Request) -> Response:
    """The jobs that are open for votes, with what each costs."""
    session = session_of(request)
    views, known = await _quick(session).jobs(), (await budgets(session)).lines

    def priced() -> list[Document]:
        return [job_document(view) | {"cost": cost_document(view.terms, known)} for view in views]

    # The first time that somebody asks what a noise costs, it takes a moment.
    return document({"jobs": await anyio.to_thread.run_sync(priced)})


async def send_samples(request: Request) -> Response:
    """The samples of a job, as a file that was checked against its terms."""
    session, job = session_of(request), check_id(request.path_params["job"])
    folder = TemporaryDirectory(prefix="samples-", dir=session.scratch)
    try:
        path = await AsyncTeacher(session.kit).fetch(job, folder.name)
    except BaseException:
        folder.cleanup()
        raise
    assert isinstance(path, Path)  # noqa: S101 - of a folder
    name = f"samples-{job[:8]}{path.suffix}"
    return FileResponse(
        path, media_type="application/octet-stream", filename=name, background=BackgroundTask(folder.cleanup)
    )


async def preview(request: Request) -> Response:
    """What a vote with a file of predictions would say: nothing of it leaves this machine."""
    session, job = session_of(request), check_id(request.path_params["job"])
    terms = (await _quick(session).status(job)).terms
    votes, ids = vote_rows(await _predictions(request, terms), terms), await _sample_ids(session, job)
    first = None if ids is None else ids[:_FIRST]
    return document({"votes": votes[:, :_FIRST].tolist(), "ids": first, **_tally(votes, terms.classes)})


async def vote(request: Request) -> Response:
    """Vote with a file of predictions: it is read here, and kept nowhere."""
    teacher, job = AsyncTeacher(session_of(request).kit), check_id(request.path_params["job"])
    predictions = await _predictions(request, (await teacher.status(job)).terms)
    return document(receipt_document(await teacher.vote(job, predictions)))


async def list_receipts(request: Request) -> Response:
    """The jobs of which the kit has receipts, the newest first."""
    receipts, _ = kept(session_of(request).kit)
    found = [
        {"id": one.id, "title": one.title, "deadline": datetime.fromtimestamp(one.deadline, UTC).isoformat()}
        for one in (receipt.terms for receipt in reversed(receipts))
    ]
    return document({"receipts": found})


async def show_receipt(request: Request) -> Response:
    """What both servers have on record of this teacher's vote."""
    return document(receipt_document(await _quick(session_of(request)).receipt(request.path_params["job"])))


def teacher_routes() -> list[Route]:
    """What teachers have."""
    one = "/api/jobs/{job}"
    return [
        Route("/api/jobs", list_jobs, methods=["GET"]),
        Route(f"{one}/samples", send_samples, methods=["GET"]),
        Route(f"{one}/preview", preview, methods=["POST"]),
        Route(f"{one}/vote", vote, methods=["POST"]),
        Route(f"{one}/receipt", show_receipt, methods=["GET"]),
        Route("/api/receipts", list_receipts, methods=["GET"]),
    ]


def _quick(session: Session) -> AsyncTeacher:
    return AsyncTeacher(session.kit, patience=QUICK)


async def _predictions(request: Request, terms: Terms) -> object:
    """What is in the file; what its rows are depends on how many votes the terms give a teacher."""
    ids = partial(anyio.from_thread.run, _sample_ids, session_of(request), terms.id)
    return await read_privately(request, partial(read_predictions, key=None, terms=terms, ids=ids))


async def _sample_ids(session: Session, job: str) -> list[str] | None:
    if job not in session.ids:
        session.ids[job] = await AsyncTeacher(session.kit).sample_ids(job)
    return session.ids[job]


def _tally(votes: Votes, classes: int) -> Document:
    cast = votes[votes != ABSTAIN]
    return {"counts": np.bincount(cast, minlength=classes).tolist(), "abstained": votes.size - cast.size}
