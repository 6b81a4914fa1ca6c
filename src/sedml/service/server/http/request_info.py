"""What the parts of the interface share: the server behind it, and what is known of the request at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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

__all__ = ["DOCUMENT_BYTES", "RequestInfo", "Web", "in_thread", "info_of", "route_of", "web_of"]

DOCUMENT_BYTES = 64 << 10
"""The most that is read of a body, unless its route says otherwise."""

_THREADS = 32
_CHECKS = 2
_LOOKS_AT_ONCE = 512
_BALLOT_BYTES_AT_ONCE = 4 << 20
_BALLOT_AT_LEAST = 8 << 10  # what a small one counts as: it takes time too
_KEY = "sedml.request"

T = TypeVar("T")


@dataclass(frozen=True)
class Web:
    """A server with all that its HTTP interface keeps in memory."""

    node: Node
    limits: Limits
    connections: Connections
    metrics: Metrics
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_THREADS))
    checks: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_CHECKS))
    """Threads for what takes time to check, so that nobody else waits behind it."""
    tokens: Gathering[str | None, Caller] = field(init=False, repr=False)
    """Whose they are."""
    looks: Gathering[tuple[Caller, str], JobStatus] = field(init=False, repr=False)
    """How a job stands, for a teacher."""
    ballots: Gathering[voting.Arrived, tuple[Receipt, bool]] = field(init=False, repr=False)
    """Put on disk, many by one write."""

    def __post_init__(self) -> None:
        tokens: Gathering[str | None, Caller] = Gathering(
            lambda shown: accounts.authenticate_all(self.node, shown), _LOOKS_AT_ONCE
        )
        looks: Gathering[tuple[Caller, str], JobStatus] = Gathering(
            lambda asked: lifecycle.teachers_statuses(self.node, asked), _LOOKS_AT_ONCE
        )
        ballots: Gathering[voting.Arrived, tuple[Receipt, bool]] = Gathering(
            lambda arrived: voting.accept_ballots(self.node, arrived), _BALLOT_BYTES_AT_ONCE, _weight
        )
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "looks", looks)
        object.__setattr__(self, "ballots", ballots)


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
    """Call a function of the core, which may wait for a disk or a lock."""
    return await to_thread.run_sync(function, *args, limiter=limiter or web_of(request).threads)
