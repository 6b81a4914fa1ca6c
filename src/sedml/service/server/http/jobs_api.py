"""Routes of jobs: creating and closing them, ballots, label shares."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import FastAPI, Header, Path, Request
from starlette.responses import Response

from sedml.service.messages import SUBMISSION_HEADER, JobList, JobStatus, Receipt
from sedml.service.server.http.bodies import BINARY, document, file_answer, read_body, read_document, stream_to_file
from sedml.service.server.http.identity import Known
from sedml.service.server.http.request_info import DOCUMENT_BYTES, in_thread, info_of, web_of
from sedml.service.server.http.routes import Handler, add_route
from sedml.service.server.jobs import lifecycle, voting
from sedml.service.terms import HEX32, JobId, Terms

__all__ = ["add_jobs", "get_job", "put_ballot"]

JobInPath: TypeAlias = Annotated[JobId, Path(description="The hash of the job's terms.")]
BlockNumber: TypeAlias = Annotated[int, Path(ge=0, le=2**31 - 1, description="Number of the block, from 0.")]
Submission: TypeAlias = Annotated[
    str, Header(alias=SUBMISSION_HEADER, pattern=HEX32, description="Names the ballot, the same at both servers.")
]


async def list_jobs(request: Request, caller: Known) -> Response:
    """Jobs that the caller may see: a teacher the open ones, a requester its own."""
    return document(await in_thread(request, lifecycle.listed, web_of(request).node, caller))


async def create_job(request: Request, caller: Known, job: JobInPath) -> Response:
    """Put a job on record, under the hash of its terms."""
    terms, web = await read_document(request, Terms), web_of(request)
    return document(*await in_thread(request, lifecycle.create, web.node, caller, job, terms, limiter=web.checks))


async def get_job(request: Request, caller: Known, job: JobInPath) -> Response:
    """A job as this server sees it."""
    web = web_of(request)
    if caller.role == "teacher":  # of whom there are many, and what they see is soon looked up
        return document(await web.looks((caller, job)))
    return document(await in_thread(request, lifecycle.status, web.node, caller, job))


async def close_job(request: Request, caller: Known, job: JobInPath) -> Response:
    """End the vote."""
    return document(await in_thread(request, lifecycle.close, web_of(request).node, caller, job))


async def delete_job(request: Request, caller: Known, job: JobInPath) -> Response:
    """Delete ballots, label shares and data of a job."""
    return document(await in_thread(request, lifecycle.delete, web_of(request).node, caller, job))


async def put_data(request: Request, caller: Known, job: JobInPath) -> Response:
    """Upload the public data of a job, which opens its vote."""
    node = web_of(request).node
    size = await in_thread(request, voting.expect_data, node, caller, job)
    file = await stream_to_file(request, node.incoming, size)
    try:
        return document(*await in_thread(request, voting.accept_data, node, caller, job, file))
    finally:
        file.unlink(missing_ok=True)


async def get_data(request: Request, caller: Known, job: JobInPath) -> Response:
    """The public data of a job."""
    return await file_answer(request, await in_thread(request, voting.data_file, web_of(request).node, caller, job))


async def put_ballot(request: Request, caller: Known, job: JobInPath, submission: Submission) -> Response:
    """Cast a ballot: this server's half of it."""
    web, size = web_of(request), info_of(request).announced
    # One that is no longer than any document is read at once: the core finds out whether it fits.
    if size is None or size > DOCUMENT_BYTES:
        size = await in_thread(request, voting.expect_ballot, web.node, caller, job, submission)
    async with read_body(request, size) as body:
        return document(*await web.ballots(voting.Arrived(caller, job, submission, body)))


async def get_ballot(request: Request, caller: Known, job: JobInPath) -> Response:
    """The receipt of the caller's own ballot."""
    return document(await in_thread(request, voting.receipt, web_of(request).node, caller, job))


async def get_labels(request: Request, caller: Known, job: JobInPath, block: BlockNumber) -> Response:
    """This server's share of the labels of a block: the consensus bits, then the label shares, packed."""
    share = await in_thread(request, lifecycle.label_share, web_of(request).node, caller, job, block)
    return Response(share, media_type=BINARY)


def add_jobs(app: FastAPI) -> None:
    """Declare all routes of jobs."""
    one, clash = "/v1/jobs/{job}", (409,)
    owner = "the job's requester"
    add_route(app, "GET", "/v1/jobs", list_jobs, tag="jobs", who="any role", gives=JobList)
    add_route(
        app, "PUT", one, create_job, tag="jobs", who="a requester", gives=JobStatus, takes=Terms, new=True, fails=clash
    )
    add_route(app, "GET", one, get_job, tag="jobs", who="any role", gives=JobStatus)
    add_route(app, "POST", f"{one}/close", close_job, tag="jobs", who=owner, gives=JobStatus, fails=clash)
    add_route(app, "DELETE", one, delete_job, tag="jobs", who=f"{owner}, operators", gives=JobStatus, fails=clash)
    raw: list[tuple[str, Handler, str, type[JobStatus | Receipt], str]] = [
        ("data", put_data, owner, JobStatus, "The file of the job's terms: its size, its fingerprint."),
        ("ballot", put_ballot, "teachers", Receipt, "One half of a ballot, of the size that the terms give it."),
    ]
    for path, handler, who, gives, takes in raw:
        add_route(
            app, "PUT", f"{one}/{path}", handler, tag="shares", who=who, gives=gives, takes=takes, new=True, fails=clash
        )
    add_route(app, "GET", f"{one}/data", get_data, tag="shares", who=f"teachers, {owner}, operators")
    add_route(app, "GET", f"{one}/ballot", get_ballot, tag="shares", who="teachers", gives=Receipt)
    add_route(app, "GET", f"{one}/labels/{{block}}", get_labels, tag="shares", who=owner, fails=clash)
