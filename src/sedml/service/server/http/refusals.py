"""Every error becomes a problem document (RFC 9457) that says what happened and what to do, and nothing more.

What a client sent is never sent back: it might be a secret in the wrong place. Errors that nobody foresaw get a
number that the operator finds in the log, where the exception is named by its class and place, not by its message.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sedml.errors import (
    BodyTooLargeError,
    FileFormatError,
    KitError,
    LedgerError,
    MalformedRequestError,
    NotFoundError,
    RateLimitedError,
    SedmlError,
    StoreError,
)
from sedml.service import problems
from sedml.service.messages import Problem
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.http.limits import Buckets
from sedml.service.server.http.request_info import in_thread, info_of, route_of, web_of
from sedml.service.server.ops.logs import describe_exception

MEDIA_TYPE = "application/problem+json"

_AUDITED = frozenset({"invalid-token", "revoked", "forbidden"})
_UNASKED_RETRY = 10
# Whatever these say is about files of this server, and its operator's business.
_OURS = (KitError, FileFormatError)

_log = structlog.get_logger("sedml.http")


def problem_for(error: Exception) -> Problem:
    """The document for an error of any kind."""
    if isinstance(error, StoreError | LedgerError):
        _log.error("records", what=error.what, do=error.do)
    if isinstance(error, SedmlError) and not isinstance(error, _OURS):
        problem = problems.problem_of(error)
        return problem if problem.status != HTTPStatus.INTERNAL_SERVER_ERROR else _internal(error)
    if isinstance(error, HTTPException):
        return _of_status(error.status_code)
    return _internal(error)


def malformed(findings: Iterable[Mapping[str, Any]], known: Iterable[str] = ()) -> MalformedRequestError:
    """The error for parts of a request that do not fit; names those parts that are ours, never what is in them.

    `known` are the fields of a document. In a path, a query or headers, only names of ours are looked at anyway.
    """
    fields = set(known)
    hints = []
    for finding in findings:
        place = [str(part) for part in finding["loc"]]
        ours = not fields or (place and place[0] in fields)
        name = " ".join(place if not fields else place[:1]) if ours else None
        kind = finding["type"]
        if kind == "json_invalid":
            hints.append("it is not JSON in UTF-8")
        elif name is None:
            hints.append("it has fields that do not belong there" if place else "it is not an object with these fields")
        else:
            hints.append(f"{name} is missing" if kind == "missing" else f"{name}: {finding['msg']}")
    listed = "; ".join(dict.fromkeys(hints[:5])) or "it does not fit"
    return MalformedRequestError("The request cannot be understood.", f"Correct this: {listed}.")


def rate_limited(request: Request, seconds: float) -> RateLimitedError:
    """The error for a caller that has to wait."""
    wait = max(1, math.ceil(seconds))
    info_of(request).retry_after = wait
    return RateLimitedError("Too many requests in a short time, or at once.", f"Wait {wait} s, then try again.")


def charge_change(request: Request, caller: Caller, buckets: Buckets) -> None:
    """Raise if somebody does too often what stays in the log for good."""
    wait = buckets.take(caller.name)
    if wait:
        raise rate_limited(request, wait)


def too_large() -> BodyTooLargeError:
    """The error for a body that is, or would get, too long."""
    return BodyTooLargeError("The body is longer than expected.", "Send no more than that.")


async def refuse(request: Request, error: Exception) -> Response:
    """Answer with a problem, and put that on the books."""
    info = info_of(request)
    web = web_of(request)
    if info.caller is None and not info.charged:
        info.charged = True
        wait = web.limits.addresses.take(info.source)
        if wait:
            error = rate_limited(request, wait)
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = _allowed(request)
        if info.method == "OPTIONS":
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={"Allow": allowed})
        return answer_error(request, problem_for(error), {"Allow": allowed})
    problem = problem_for(error)
    code = problem.type.removeprefix(problems.PREFIX)
    if code in _AUDITED:
        await _audit(request, code)
    return answer_error(request, problem)


def answer_error(request: Request, problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """A problem as the answer to a request."""
    info = info_of(request)
    info.code = problem.type.removeprefix(problems.PREFIX)
    headers = headers or {}
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status == HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = str(info.retry_after or _UNASKED_RETRY)
    return Response(problem.model_dump_json(), problem.status, headers, MEDIA_TYPE)


def _internal(error: Exception) -> Problem:
    incident = secrets.token_hex(4)
    _log.error("internal", incident=incident, exception=describe_exception(error))
    return Problem(
        type=f"{problems.PREFIX}internal",
        title="The server failed to handle this request.",
        status=500,
        detail=f"Try again; if it fails again, give the server's operator this incident number: {incident}.",
    )


def _of_status(status: int) -> Problem:
    if status == HTTPStatus.NOT_FOUND:
        return problems.problem_of(NotFoundError("There is nothing at this path.", "See /openapi.json for what is."))
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        what, do = "This path does not take this method.", "Use one of those in the Allow header."
    elif status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        what, do = "The headers of the request are too large.", "Send those of the interface only."
    elif status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
        what, do = "The body is not of the type that is taken here.", "See /openapi.json; send it without an encoding."
    else:
        what, do = "The request cannot be understood.", "See /openapi.json for what can."
    known = problems.problem_of(MalformedRequestError(what, do))
    return known.model_copy(update={"status": status})


def _allowed(request: Request) -> str:
    methods: set[str] = {"OPTIONS"}
    for route in request.app.routes:
        if route.pattern.fullmatch(request.scope["path"]):
            methods.add(route.method)
    if "GET" in methods:
        methods.add("HEAD")
    return ", ".join(sorted(methods))


async def _audit(request: Request, code: str) -> None:
    info, web = info_of(request), web_of(request)
    actor = info.caller.name if info.caller else f"address {info.source}"
    if web.limits.audited.take(actor) or (info.caller is None and web.limits.strangers.take("")):
        return
    subject = f"{info.method} {route_of(request.scope)}"
    try:
        await in_thread(request, public_log.record, web.node, actor, "access", subject, code)
    except SedmlError as error:
        _log.error("audit failed", error=type(error).__name__)
