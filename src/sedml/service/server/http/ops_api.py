"""Routes about the server itself: its health, its figures, its budgets, its log, its interface."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from pydantic import Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sedml.service.messages import CohortStatus, LogHead, LogPage, OwnBudget, OwnLimit, RestoredLog
from sedml.service.server import peer_log, public_log
from sedml.service.server.access import Caller, require
from sedml.service.server.http.bodies import document, read_document
from sedml.service.server.http.metrics import CONTENT_TYPE
from sedml.service.server.http.refusals import charge_change
from sedml.service.server.http.request_info import in_thread, web_of
from sedml.service.server.http.routes import ANYBODY, Parameter, Route
from sedml.service.server.jobs import charges
from sedml.service.server.ops import health
from sedml.service.server_messages import About, Health, Readiness, ServerInfo

_Size = Annotated[int, Field(ge=0, le=2**62)]
_START = Parameter("query", "start", _Size, "The number of the first entry.", default="0")
_SEEN = Parameter("query", "seen", _Size, "How many entries the checkpoint had that was seen last.", default="0")
_cohorts = TypeAdapter(list[CohortStatus])


async def get_health(request: Request) -> Response:
    """Whether the process answers at all."""
    return document(health.life(web_of(request).node))


async def get_about(request: Request) -> Response:
    """Which code the server says it runs."""
    return document(health.about(web_of(request).node))


async def get_readiness(request: Request) -> Response:
    """Whether the server can do its work."""
    readiness = await in_thread(request, health.readiness, web_of(request).node)
    answer = document(readiness)
    if not readiness.ready:
        answer.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return answer


async def get_metrics(request: Request, caller: Caller) -> Response:
    """Figures for monitoring, in the text format of Prometheus."""
    require(caller, "operator")
    return Response(await in_thread(request, web_of(request).metrics.text), media_type=CONTENT_TYPE)


async def get_interface(request: Request) -> Response:
    """This interface in OpenAPI."""
    return JSONResponse(await in_thread(request, lambda: request.app.openapi))


async def get_server(request: Request, caller: Caller) -> Response:
    """Who the server is, whom it takes the caller for, and its limits."""
    return document(await in_thread(request, health.info, web_of(request).node, caller))


async def get_budget(request: Request, caller: Caller) -> Response:
    """What is left of each cohort's privacy budget, as this server has it."""
    cohorts = await in_thread(request, charges.listed, web_of(request).node)
    return Response(_cohorts.dump_json(cohorts), media_type="application/json")


async def get_own_budget(request: Request, caller: Caller) -> Response:
    """A teacher's own account: its cohort, what was spent on its votes, and its own limit."""
    return document(await in_thread(request, charges.own_budget, web_of(request).node, caller))


async def put_own_limit(request: Request, caller: Caller) -> Response:
    """Set the limit of a teacher's own: no job from now on counts it that could pass this."""
    require(caller, "teacher")
    wanted = await read_document(request, OwnLimit)
    charge_change(request, caller, web_of(request).limits.changes)
    return document(await in_thread(request, charges.set_limit, web_of(request).node, caller, wanted))


async def get_log(request: Request, caller: Caller, start: int) -> Response:
    """Entries of the log, as far as the caller may know them."""
    return document(await in_thread(request, public_log.page, web_of(request).node, caller, start))


async def get_checkpoint(request: Request, seen: int) -> Response:
    """How far the log goes that the other server has cosigned."""
    return document(await in_thread(request, public_log.head, web_of(request).node, seen))


async def accept_restored(request: Request, caller: Caller) -> Response:
    """Go on cosigning the other server's log, which was put back to this state."""
    require(caller, "operator")
    wanted = await read_document(request, RestoredLog)
    return document(await in_thread(request, peer_log.accept_restored, web_of(request).node, caller, wanted))


_OWN, _RESTORED = "/v1/budget/own", "/v1/log/restored"

OPS = (
    Route("GET", "/healthz", get_health, "server", ANYBODY, gives=Health),
    Route("GET", "/readyz", get_readiness, "server", ANYBODY, gives=Readiness, also={503: Readiness}),
    Route("GET", "/v1/about", get_about, "server", ANYBODY, gives=About),
    Route("GET", "/openapi.json", get_interface, "server", ANYBODY, text="application/json"),
    Route("GET", "/metrics", get_metrics, "server", "operators", text="text/plain"),
    Route("GET", "/v1/server", get_server, "server", "any role", gives=ServerInfo),
    Route("GET", "/v1/budget", get_budget, "server", "any role", gives=list[CohortStatus]),
    Route("GET", _OWN, get_own_budget, "server", "teachers", gives=OwnBudget),
    Route("PUT", _OWN, put_own_limit, "server", "teachers", gives=OwnBudget, takes=OwnLimit, fails=(409,)),
    Route("GET", "/v1/log", get_log, "log", "any role", (_START,), LogPage),
    Route("GET", "/v1/log/checkpoint", get_checkpoint, "log", ANYBODY, (_SEEN,), LogHead, fails=(409,)),
    Route("PUT", _RESTORED, accept_restored, "log", "operators", gives=RestoredLog, takes=RestoredLog, fails=(409,)),
)
"""All routes about the server."""
