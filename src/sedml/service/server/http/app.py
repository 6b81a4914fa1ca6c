"""The HTTP interface as one app: every route, and the guard around them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from sedml.service.server.http import routes
from sedml.service.server.http.accounts_api import ACCOUNTS
from sedml.service.server.http.guard import Guard
from sedml.service.server.http.jobs_api import JOBS
from sedml.service.server.http.openapi import described
from sedml.service.server.http.ops_api import OPS
from sedml.service.server.http.request_info import Web
from sedml.service.server.node import Node


class App:
    """The interface of a server, as ASGI has it."""

    routes = (*JOBS, *OPS, *ACCOUNTS)  # most requests are about jobs, so that these are looked at first

    def __init__(self, node: Node) -> None:
        self.web = Web(node)
        self._guarded = Guard(self._answer, self.web)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._guarded({**scope, "app": self}, receive, send)

    @cached_property
    def openapi(self) -> dict[str, Any]:
        """The interface in OpenAPI."""
        return described(self.routes)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await routes.answer(self.routes, Request(scope, receive, send))
        await response(scope, receive, send)
