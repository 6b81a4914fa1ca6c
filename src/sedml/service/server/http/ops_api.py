"""Routes about the server itself: its health, its figures, its budgets, its audit log, its interface."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated

from fastapi import FastAPI, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from sedml.service.messages import AuditList, CohortStatus, Health, OwnBudget, OwnLimit, Readiness, ServerInfo
from sedml.service.server import audit_log
from sedml.service.server.access import require
from sedml.service.server.http.bodies import document, read_document
from sedml.service.server.http.identity import Known
from sedml.service.server.http.metrics import CONTENT_TYPE
from sedml.service.server.http.request_info import in_thread, web_of
from sedml.service.server.http.routes import add_route
from sedml.service.server.jobs import charges
from sedml.service.server.ops import health

__all__ = ["add_ops"]

_cohorts = TypeAdapter(list[CohortStatus])


async def get_health(request: Request) -> Response:
    """Whether the process answers at all."""
    return document(health.life(web_of(request).node))


async def get_readiness(request: Request) -> Response:
    """Whether the server can do its work."""
    readiness = await in_thread(request, health.readiness, web_of(request).node)
    answer = document(readiness)
    if not readiness.ready:
        answer.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return answer


async def get_metrics(request: Request, caller: Known) -> Response:
    """Figures for monitoring, in the text format of Prometheus."""
    require(caller, "operator")
    return Response(await in_thread(request, web_of(request).metrics.text), media_type=CONTENT_TYPE)


async def get_interface(request: Request) -> Response:
    """This interface in OpenAPI."""
    return Response(await in_thread(request, _interface, request.app), media_type="application/json")


async def get_server(request: Request, caller: Known) -> Response:
    """Who the server is, whom it takes the caller for, and its limits."""
    return document(await in_thread(request, health.info, web_of(request).node, caller))


async def get_budget(request: Request, caller: Known) -> Response:
    """What is left of each cohort's privacy budget, as this server has it; to teachers, jobs at their worst case."""
    cohorts = await in_thread(request, charges.listed, web_of(request).node, caller)
    return Response(_cohorts.dump_json(cohorts), media_type="application/json")


async def get_own_budget(request: Request, caller: Known) -> Response:
    """A teacher's own account: its cohort, what was spent on its votes at the worst, and its own limit."""
    return document(await in_thread(request, charges.own_budget, web_of(request).node, caller))


async def put_own_limit(request: Request, caller: Known) -> Response:
    """Set the limit of a teacher's own: no job from now on counts it that could pass this."""
    wanted = await read_document(request, OwnLimit)
    return document(await in_thread(request, charges.set_limit, web_of(request).node, caller, wanted))


async def get_audit(
    request: Request,
    caller: Known,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="The last number seen.")] = 0,
) -> Response:
    """A page of the audit log."""
    return document(await in_thread(request, audit_log.page, web_of(request).node, caller, after))


def _interface(app: FastAPI) -> str:
    return json.dumps(app.openapi(), separators=(",", ":"))


def add_ops(app: FastAPI) -> None:
    """Declare all routes about the server."""
    tag, known = "server", "any role"
    add_route(app, "GET", "/healthz", get_health, tag=tag, who="anybody", gives=Health)
    add_route(app, "GET", "/readyz", get_readiness, tag=tag, who="anybody", gives=Readiness, also={503: Readiness})
    add_route(app, "GET", "/openapi.json", get_interface, tag=tag, who="anybody", text="application/json")
    add_route(app, "GET", "/metrics", get_metrics, tag=tag, who="operators", text="text/plain")
    add_route(app, "GET", "/v1/server", get_server, tag=tag, who=known, gives=ServerInfo)
    add_route(app, "GET", "/v1/budget", get_budget, tag=tag, who=known, gives=list[CohortStatus])
    own, who = "/v1/budget/own", "teachers"
    add_route(app, "GET", own, get_own_budget, tag=tag, who=who, gives=OwnBudget)
    add_route(app, "PUT", own, put_own_limit, tag=tag, who=who, gives=OwnBudget, takes=OwnLimit, fails=(409,))
    add_route(app, "GET", "/v1/audit", get_audit, tag=tag, who="operators", gives=AuditList)
