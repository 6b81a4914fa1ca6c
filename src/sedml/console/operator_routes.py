"""What operators can ask for: the jobs and accounts of their server, its log and its figures."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sedml.console.job_documents import job_document
from sedml.console.replies import document
from sedml.console.session import QUICK, session_of
from sedml.console.uploads import read_document
from sedml.errors import LogError
from sedml.service.client.administration import AsyncOperator
from sedml.service.kits import Enrolments

_SHOWN = 500
_MOST_FIGURES = 4 << 20
_FIGURE = re.compile(r"^(sedml_\w+)(?:\{(.*)\})? ([-+.\deE]+|NaN|[-+]Inf)$", re.M)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_HIDDEN = ("_bucket", "_created")  # the inside of histograms, and when a counter was begun


async def list_jobs(request: Request) -> Response:
    """All jobs of this server."""
    views = await _operator(request).jobs()
    return document({"jobs": [job_document(view) for view in views]})


async def list_accounts(request: Request) -> Response:
    """Who may call this server."""
    found = await _operator(request).accounts()
    return document({"accounts": [one.model_dump(mode="json") for one in found]})


async def enrol(request: Request) -> Response:
    """Add the account of an enrolment, which holds hashes only: its token stays with whoever made it."""
    what, do = "This is not an enrolment", "Ask for the enrolment.json that `sedml enrol` made."
    return document(await _operator(request).add_account(await read_document(request, Enrolments, what, do)))


async def revoke(request: Request) -> Response:
    """Take an account its access, at once."""
    return document(await _operator(request).revoke_account(request.path_params["account"]))


async def show_log(request: Request) -> Response:
    """The newest lines of the log; with `whole`, whether all of it is what was written and cosigned."""
    operator, said = _operator(request), "These lines have been read, but not checked."
    complaint = None
    if "whole" in request.query_params:
        try:
            for name, found in (await operator.log()).items():
                at = datetime.fromtimestamp(found.cosigned_at, UTC)
                said = f"All {found.checkpoint.size:,} entries are as {name.upper()} has signed them; the other server "
                said += f"cosigned them at {at:%Y-%m-%d %H:%M} UTC."
        except LogError as error:
            complaint = f"{error.what} {error.do}"
    newest = await operator.newest_lines(_SHOWN)
    entries = [
        {
            "number": one.number,
            **one.opened.model_dump(exclude={"salt"}),
            "at": datetime.fromtimestamp(one.opened.at, UTC).isoformat(),
        }
        for one in reversed(newest.entries)
        if one.opened is not None
    ]
    return document({"entries": entries, "read": newest.size, "complaint": complaint, "said": said})


async def show_figures(request: Request) -> Response:
    """What the server counts, as its monitoring would see it."""
    async with _operator(request).server() as server:
        text = (await server.content("/metrics", _MOST_FIGURES)).decode("utf-8", "replace")
    found = [
        {"name": name.removeprefix("sedml_"), "labels": dict(_LABEL.findall(labels)), "value": value}
        for name, labels, value in _FIGURE.findall(text)
        if not name.endswith(_HIDDEN)
    ]
    return document({"figures": found})


def _operator(request: Request) -> AsyncOperator:
    return AsyncOperator(session_of(request).kit, patience=QUICK)


def operator_routes() -> list[Route]:
    """What operators have."""
    return [
        Route("/api/jobs", list_jobs, methods=["GET"]),
        Route("/api/accounts", list_accounts, methods=["GET"]),
        Route("/api/accounts", enrol, methods=["PUT"]),
        Route("/api/accounts/{account}", revoke, methods=["DELETE"]),
        Route("/api/log", show_log, methods=["GET"]),
        Route("/api/figures", show_figures, methods=["GET"]),
    ]
