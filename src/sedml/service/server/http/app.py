"""The HTTP interface as one app: every route, every error, and the guard around them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from sedml.errors import SedmlError
from sedml.service.messages import Enrolment, NewToken, OwnLimit, Problem
from sedml.service.server.http.accounts_api import add_accounts
from sedml.service.server.http.connections import Connections
from sedml.service.server.http.guard import Guard
from sedml.service.server.http.jobs_api import add_jobs
from sedml.service.server.http.limits import Limits
from sedml.service.server.http.metrics import Metrics
from sedml.service.server.http.ops_api import add_ops
from sedml.service.server.http.refusals import refuse
from sedml.service.server.http.request_info import Web
from sedml.service.server.http.short_way import ShortWay
from sedml.service.server.node import Node

__all__ = ["make_app"]

_ABOUT = (
    "One of the two servers of a SEDML deployment. Shares travel as raw bytes, everything else as JSON. "
    "Errors are problem documents (RFC 9457): `title` says what happened, `detail` what to do."
)


class _App(FastAPI):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, by the short way if it can take that."""
        if not await self.state.short_way.takes(scope, receive, send):
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The description, with the documents that routes read by themselves."""
        if self.openapi_schema is None:
            kinds = [(kind, "validation") for kind in (Enrolment, NewToken, OwnLimit, Problem)]
            _, read = models_json_schema(kinds, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
            super().openapi()["components"]["schemas"] |= read["$defs"]
        return super().openapi()


def make_app(node: Node) -> FastAPI:
    """The interface of a server."""
    app = _App(
        title="SEDML server",
        description=_ABOUT,
        version=version("sedml-pate"),
        # The pages that come with FastAPI load scripts from elsewhere; the interface itself is at /openapi.json.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    connections = Connections.of(node.settings)
    web = Web(node, Limits.of(node.settings), connections, Metrics(node, connections))
    app.state.web = web
    app.add_middleware(Guard, web=web)
    for kind in (SedmlError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, refuse)
    add_ops(app)
    add_jobs(app)
    add_accounts(app)
    app.state.short_way = ShortWay(app, web)
    return app
