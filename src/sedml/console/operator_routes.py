"""What operators can ask for: the jobs and accounts of their server, its audit log and its figures."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sedml.console.job_documents import job_document
from sedml.console.replies import document
from sedml.console.session import QUICK, session_of
from sedml.console.uploads import read_document
from sedml.service.client.administration import AsyncOperator
from sedml.service.kits import Enrolments

__all__ = ["operator_routes"]

_SHOWN = 500
_MOST_FIGURES = 4 << 20
_FIGURE = re.compile(r"^(sedml_\w+)(?:\{(.*)\})? ([-+.\deE]+|NaN|[-+]Inf)$", re.M)
_HIDDEN = ("_bucket", "_created", "_sum", "_count")  # the inside of histograms


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
    return document(await _operator(request).add_account(await read_document(request, Enrolments)))


async def revoke(request: Request) -> Response:
    """Take an account its access, at once."""
    return document(await _operator(request).revoke_account(request.path_params["account"]))


async def show_audit(request: Request) -> Response:
    """The newest lines of the audit log, and whether what was read fits together; `whole` reads all of it."""
    found = await _operator(request).audit(whole="whole" in request.query_params, last=_SHOWN)
    entries = [one.model_dump(mode="json", exclude={"digest"}) for one in reversed(found.entries)]
    head = None if found.head is None else f"{found.head.number}:{found.head.digest}"
    return document({"entries": entries, "read": found.read, "complaint": found.complaint, "head": head})


async def show_figures(request: Request) -> Response:
    """What the server counts, as its monitoring would see it."""
    async with _operator(request).server() as server:
        text = (await server.content("/metrics", _MOST_FIGURES)).decode("utf-8", "replace")
    found = [
        {"name": name.removeprefix("sedml_"), "labels": labels, "value": value}
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
        Route("/api/audit", show_audit, methods=["GET"]),
        Route("/api/figures", show_figures, methods=["GET"]),
    ]
