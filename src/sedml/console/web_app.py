"""The console of one kit as a web application: the routes of its role, and the gate in front of them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from sedml.console.assets import asset_routes
from sedml.console.gate import Admission, guarded
from sedml.console.operator_routes import operator_routes
from sedml.console.replies import problem, refused
from sedml.console.requester_routes import requester_routes
from sedml.console.session import Session, common_routes
from sedml.console.teacher_routes import teacher_routes
from sedml.errors import SedmlError

_ROLES = {"requester": requester_routes, "teacher": teacher_routes, "operator": operator_routes}


def make_app(session: Session, admission: Admission) -> ASGIApp:
    """What is served: everything behind the gate."""
    return guarded(make_routes(session), admission)


def make_routes(session: Session) -> Starlette:
    """What is behind the gate."""
    app = Starlette(
        routes=[*asset_routes(), *common_routes(), *_ROLES[session.role]()],
        exception_handlers={SedmlError: problem, HTTPException: _no_such_thing},
    )
    app.state.session = session
    return app


async def _no_such_thing(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refused(status, "The console has no such page.", "Go back to the first one.")
