"""Errors on their way over HTTP: a problem document (RFC 9457) and back to the same exception.

The code of an error is the name of its class: `BudgetExceededError` is `urn:sedml:budget-exceeded`. `title` is what
happened and `detail` what to do, as everywhere in SEDML.
"""

from __future__ import annotations

import re

from sedml import errors
from sedml.errors import SedmlError
from sedml.service.messages import Problem

PREFIX = "urn:sedml:"

_STATUS: dict[type[SedmlError], int] = {
    errors.AccessError: 401,
    errors.ForbiddenError: 403,
    errors.NotFoundError: 404,
    errors.JobError: 409,
    errors.NoRoomForVotesError: 503,
    errors.TermsMismatchError: 422,
    errors.InputError: 422,
    errors.MalformedRequestError: 422,
    errors.BodyTruncatedError: 400,
    errors.BodyTooLargeError: 413,
    errors.RequestTimeoutError: 408,
    errors.RateLimitedError: 429,
    errors.PrivacyError: 409,
    errors.StoreError: 503,
    errors.LedgerError: 503,
    errors.ChannelError: 503,
    errors.LogError: 409,
    errors.WorkerGoneError: 503,
}


def code_of(kind: type[SedmlError]) -> str:
    """The code of a class of errors."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__.removesuffix("Error")).lower()


_KINDS: dict[str, type[SedmlError]] = {
    code_of(kind): kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SedmlError)
}


def problem_of(error: SedmlError) -> Problem:
    """The document that tells a client of an error. Where a server keeps its records is its operator's business."""
    if isinstance(error, errors.StoreError | errors.LedgerError):
        error = type(error)(
            "The server cannot read or write its records now.",
            "Try again later. Its operator finds the reason in the server's log.",
        )
    # The nearest ancestor that has a status of its own decides.
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    return Problem(type=PREFIX + code_of(type(error)), title=error.what, status=status, detail=error.do)


def error_of(problem: Problem) -> SedmlError:
    """The error that a server told of; one that this release does not know becomes a `ServerError`."""
    kind = _KINDS.get(problem.type.removeprefix(PREFIX), errors.ServerError)
    return kind(problem.title, problem.detail)
