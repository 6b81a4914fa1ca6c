"""What a call that failed means: the error to raise, and whether it may pass, so that the call is worth another try."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx2
from pydantic import ValidationError

from sedml.errors import (
    NotCosignedError,
    SedmlError,
    ServerError,
    ServerIdentityError,
    UnreachableError,
    printable,
)
from sedml.service.messages import Problem, ServerName
from sedml.service.problems import error_of

_BUSY = frozenset({429, 502, 503, 504})
_MAX_TEXT = 2000
_MAX_PAUSE = 60.0


class Again(Exception):  # noqa: N818 - a message to the loop that tries again, which raises `error` in the end
    """This failure may pass."""

    def __init__(self, error: SedmlError, after: float | None = None) -> None:
        super().__init__(error.what)
        self.error = error
        self.after = after


def pause(error: Exception) -> bool | float:
    """Whether to try again, and after how long if the server said so."""
    if not isinstance(error, Again):
        return False
    return True if error.after is None else error.after


def called(name: ServerName, url: str) -> str:
    """A server, for people."""
    return f"{name.upper()} at {url}"


def refused(who: str, status: int, content: bytes, retry_after: str | None) -> Exception:
    """What a server that does not say yes means."""
    try:
        error = error_from(Problem.model_validate_json(content))
    except ValidationError:
        error = ServerError(
            f"{who} answered with status {status} and no explanation.",
            "Ask its operator to look at the server's log; a proxy on the way may answer in its place.",
        )
    if status in _BUSY or isinstance(error, NotCosignedError):
        return Again(error, _seconds(retry_after))
    return error


def broken(name: ServerName, url: str, error: httpx2.HTTPError) -> Exception:
    """What a call that failed on the way means."""
    cause = _ssl_error(error)
    if cause is not None:
        reason = getattr(cause, "verify_message", None) or cause.reason or type(cause).__name__
        return ServerIdentityError(
            f"What answers at {url} cannot prove that it is {name} ({_clean(str(reason))}).",
            "Nothing was sent to it. Check the address in kit.toml, the server's certificate, this machine's "
            "clock, and with the operator that ca.pem is theirs.",
        )
    return Again(
        UnreachableError(
            f"{called(name, url)} cannot be reached ({_reason(error)}).",
            "Check the address in kit.toml, the network and its firewalls, and that the server is running; then "
            "try again, which is always safe. `sedml doctor` checks all of it.",
        )
    )


def strange(who: str) -> ServerError:
    """The error for an answer that is none."""
    return ServerError(
        f"{who} gave an answer that makes no sense.",
        "Check with `sedml doctor` that the servers run the same release as you.",
    )


def error_from(problem: Problem) -> SedmlError:
    """The error that a server told of, fit to be shown: a server's text must not steer a terminal."""
    title, detail = _clean(problem.title), _clean(problem.detail)
    return error_of(problem.model_copy(update={"title": title, "detail": detail}))


def _clean(text: str) -> str:
    return printable(text[:_MAX_TEXT])


def _seconds(text: str | None) -> float | None:
    try:
        return min(_MAX_PAUSE, max(0.0, float(text))) if text is not None else None
    except ValueError:
        return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _ssl_error(error: BaseException) -> ssl.SSLError | None:
    """What TLS has against the other side; that it hung up, or had not said all yet, is nothing of the kind."""
    gone = ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    waits = ssl.SSLWantReadError | ssl.SSLWantWriteError
    return next((e for e in _causes(error) if isinstance(e, ssl.SSLError) and not isinstance(e, gone | waits)), None)


def _reason(error: BaseException) -> str:
    """The reason in words; the text of foreign errors is left out."""
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return "no such host"
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
    return "no connection" if isinstance(error, httpx2.ConnectError) else "the connection broke off"
