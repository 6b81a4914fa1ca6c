"""Routes of jobs: creating and closing them, ballots, label shares."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from sedml.service.messages import BALLOT_HEADER, PARTS_HEADER, JobList, JobStatus, Receipt
from sedml.service.server.access import Caller, require
from sedml.service.server.http.bodies import (
    BINARY,
    JSON,
    document,
    file_answer,
    read_body,
    read_document,
    stream_to_file,
)
from sedml.service.server.http.refusals import charge_change
from sedml.service.server.http.request_info import DOCUMENT_BYTES, in_thread, info_of, web_of
from sedml.service.server.http.routes import Parameter, Route
from sedml.service.server.jobs import lifecycle, listing, public_data, voting
from sedml.service.terms import HEX32, HEX64, JobId, Terms

_JOB = Parameter("path", "job", JobId, "The hash of the job's terms.")
_AFTER = Parameter(
    "query", "after", Annotated[str, Field(pattern=rf"{HEX32}|^$")], "The last job of the page before.", default=""
)
_BLOCK = Parameter("path", "block", Annotated[int, Field(ge=0, le=2**31 - 1)], "Number of the block, from 0.")
_SEEN = Parameter(
    "query",
    "seen",
    Annotated[int, Field(ge=lifecycle.NOT_ASKED, le=2**62)],
    "How many entries of the log the caller has seen, if it wants to see that the job is in it.",
    default=str(lifecycle.NOT_ASKED),
)
_BALLOT = Parameter(
    "header", BALLOT_HEADER, Annotated[str, Field(pattern=HEX64)], "Names the ballot, the same at both servers."
)
_PARTS = Parameter(
    "header",
    PARTS_HEADER,
    Annotated[str, Field(pattern=rf"{HEX64}|^$")],
    "What the teacher calls the parts that its votes are of, if it does.",
    default="",
)


async def list_jobs(request: Request, caller: Caller, after: str) -> Response:
    """A page of the jobs that the caller may see: a teacher the open ones, a requester its own."""
    return Response(await in_thread(request, listing.page, web_of(request).node, caller, after), media_type=JSON)


async def create_job(request: Request, caller: Caller, job: str) -> Response:
    """Put a job on record, under the hash of its terms."""
    require(caller, "requester")  # before its terms are read, which takes a moment
    terms, web = await read_document(request, Terms), web_of(request)
    charge_change(request, caller, web.limits.jobs)
    return document(*await in_thread(request, lifecycle.create, web.node, caller, job, terms, limiter=web.checks))


async def get_job(request: Request, caller: Caller, job: str, seen: int) -> Response:
    """A job as this server sees it."""
    web = web_of(request)
    if caller.role == "teacher":  # of whom there are many, and what they see is soon looked up
        return document(await web.looks((caller, job, seen)))
    return document(await in_thread(request, lifecycle.status, web.node, caller, job, seen))


async def close_job(request: Request, caller: Caller, job: str) -> Response:
    """End the vote."""
    return document(await in_thread(request, lifecycle.close, web_of(request).node, caller, job))


async def delete_job(request: Request, caller: Caller, job: str) -> Response:
    """Delete ballots, label shares and data of a job."""
    return document(await in_thread(request, lifecycle.delete, web_of(request).node, caller, job))


async def put_data(request: Request, caller: Caller, job: str) -> Response:
    """Upload the public data of a job, which opens its vote."""
    node = web_of(request).node
    size = await in_thread(request, public_data.expect, node, caller, job)
    file = await stream_to_file(request, node.incoming, size)
    try:
        return document(*await in_thread(request, public_data.accept, node, caller, job, file))
    finally:
        file.unlink(missing_ok=True)


async def get_data(request: Request, caller: Caller, job: str) -> Response:
    """The public data of a job."""
    return await file_answer(request, await in_thread(request, public_data.file_of, web_of(request).node, caller, job))


async def put_ballot(request: Request, caller: Caller, job: str, name: str, parts: str) -> Response:
    """Cast a ballot: this server's half of it."""
    web, size = web_of(request), info_of(request).announced
    # One that is no longer than any document is read at once: the core finds out whether it fits.
    if size is None or size > DOCUMENT_BYTES:
        size = await in_thread(request, voting.expect_ballot, web.node, caller, job, name)
    # In memory, within the room that there is for bodies: shares never lie on a disk but sealed.
    async with read_body(request, size) as body:
        return document(*await web.ballots(voting.Arrived(caller, job, name, body, parts or None)))


async def get_ballot(request: Request, caller: Caller, job: str) -> Response:
    """The receipt of the caller's own ballot."""
    return document(await in_thread(request, voting.receipt, web_of(request).node, caller, job))


async def get_labels(request: Request, caller: Caller, job: str, block: int) -> Response:
    """This server's share of the labels of a block; its size says nothing about them."""
    share = await in_thread(request, lifecycle.label_share, web_of(request).node, caller, job, block)
    return Response(share, media_type=BINARY)


_ONE = "/v1/jobs/{job}"
_OWNER = "the job's requester"
_BALLOT_BODY = "One half of a ballot, of the size that the terms give it."
_DATA_BODY = "The file of the job's terms: its size, its fingerprint."

JOBS = (
    Route("GET", _ONE, get_job, "jobs", "any role", (_JOB, _SEEN), JobStatus),
    Route(
        "PUT",
        f"{_ONE}/ballot",
        put_ballot,
        "shares",
        "teachers",
        (_JOB, _BALLOT, _PARTS),
        Receipt,
        takes=_BALLOT_BODY,
        new=True,
        fails=(409,),
    ),
    Route("GET", f"{_ONE}/ballot", get_ballot, "shares", "teachers", (_JOB,), Receipt),
    Route("GET", "/v1/jobs", list_jobs, "jobs", "any role", (_AFTER,), JobList),
    Route("PUT", _ONE, create_job, "jobs", "a requester", (_JOB,), JobStatus, takes=Terms, new=True, fails=(409,)),
    Route("DELETE", _ONE, delete_job, "jobs", f"{_OWNER}, operators", (_JOB,), JobStatus, fails=(409,)),
    Route("POST", f"{_ONE}/close", close_job, "jobs", _OWNER, (_JOB,), JobStatus, fails=(409,)),
    Route("GET", f"{_ONE}/data", get_data, "shares", f"teachers, {_OWNER}, operators", (_JOB,)),
    Route(
        "PUT", f"{_ONE}/data", put_data, "shares", _OWNER, (_JOB,), JobStatus, takes=_DATA_BODY, new=True, fails=(409,)
    ),
    Route("GET", f"{_ONE}/labels/{{block}}", get_labels, "shares", _OWNER, (_JOB, _BLOCK), fails=(409,)),
)
"""All routes of jobs."""
