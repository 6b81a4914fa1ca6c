"""What the parts of the interface share: the server behind it, and what is known of the request at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import thread_time
from typing import Any, TypeVar, cast

from anyio import CapacityLimiter, to_thread
from starlette.requests import HTTPConnection
from starlette.types import Scope

from sedml.service.messages import JobStatus, Receipt
from sedml.service.server.access import Caller
from sedml.service.server.http.connections import Connections
from sedml.service.server.http.gathering import Gathering
from sedml.service.server.http.limits import Limits
from sedml.service.server.http.metrics import Metrics
from sedml.service.server.jobs import lifecycle, voting
from sedml.service.server.node import Node
from sedml.service.server.ops import accounts

DOCUMENT_BYTES = 64 << 10
"""The most that is read of a body, unless its route says otherwise."""

_THREADS = 32
_CHECKS = 2
_LOOKS_AT_ONCE = 512
_BALLOT_BYTES_AT_ONCE = 4 << 20
_BALLOT_AT_LEAST = 8 << 10  # what a small one counts as: it takes time too
_KEY = "sedml.request"

T = TypeVar("T")


class Web:
    """A server with all that its HTTP interface keeps in memory."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.limits = Limits.of(node.settings)
        self.connections = Connections.of(node.settings)
        self.metrics = Metrics(node, self.connections)
        self.threads = CapacityLimiter(_THREADS)
        # For what takes time to check, so that nobody else waits behind it.
        self.checks = CapacityLimiter(_CHECKS)
        # Whose tokens are, how a job stands for a teacher, and ballots, of which one write puts many on disk.
        self.tokens: Gathering[str | None, Caller] = Gathering(
            lambda shown: accounts.authenticate_all(node, shown), _LOOKS_AT_ONCE
        )
        self.looks: Gathering[tuple[Caller, str, int], JobStatus] = Gathering(
            lambda asked: lifecycle.teachers_statuses(node, asked),
            _LOOKS_AT_ONCE,
            charge=lambda look, seconds: self.limits.processor.charge(look[0].name, seconds),
        )
        self.ballots: Gathering[voting.Arrived, tuple[Receipt, bool]] = Gathering(
            lambda arrived: voting.accept_ballots(node, arrived),
            _BALLOT_BYTES_AT_ONCE,
            _weight,
            lambda ballot, seconds: self.limits.processor.charge(ballot.caller.name, seconds),
        )


def _weight(ballot: voting.Arrived) -> int:
    return max(_BALLOT_AT_LEAST, len(ballot.body))


@dataclass(slots=True)
class RequestInfo:
    """One request and its answer, for the server's own books. Holds nothing of the contents of either."""

    method: str
    source: str
    announced: int | None = None
    """Bytes of the body, if they were announced."""
    complete: bool = False
    """The body was read to its end, or there is none."""
    asks_first: bool = False
    """The client sends the body only once it is told to."""
    limit: int = DOCUMENT_BYTES
    received: int = 0
    caller: Caller | None = None
    has_place: bool = False
    """It counts among the requests that its caller has under way."""
    charged: bool = False
    """The address of an unknown caller has paid for this request."""
    code: str | None = None
    """The code of the problem that was the answer."""
    retry_after: int | None = None
    status: int = 0
    ended: float | None = None
    """When all of the answer was sent, by the clock of `time.perf_counter`."""

    def attach(self, scope: Scope) -> None:
        """Make it known to whoever handles the request."""
        scope[_KEY] = self


def info_of(request: HTTPConnection[Any]) -> RequestInfo:
    """What is known of this request."""
    return cast(RequestInfo, request.scope[_KEY])


def web_of(request: HTTPConnection[Any]) -> Web:
    """The server that this request came to."""
    return cast(Web, request.app.web)


def route_of(scope: Scope) -> str:
    """The template of the path that was asked for, never the path itself; "unknown" if there is none."""
    return getattr(scope.get("route"), "path", "unknown")


async def in_thread(
    request: HTTPConnection[Any],
    function: Callable[..., T],
    *args: Any,  # noqa: ANN401
    limiter: CapacityLimiter | None = None,
) -> T:
    """Call a function of the core, which may wait for a disk or a lock, at the expense of the caller."""
    web, caller = web_of(request), info_of(request).caller
    charge = partial(web.limits.processor.charge, caller.name) if caller else None
    return await to_thread.run_sync(_charged, charge, function, args, limiter=limiter or web.threads)


def _charged(charge: Callable[[float], None] | None, function: Callable[..., T], args: tuple[Any, ...]) -> T:
    start = thread_time()
    try:
        return function(*args)
    finally:
        if charge is not None:
            charge(thread_time() - start)
