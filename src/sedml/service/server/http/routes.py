"""What a route of the interface is: declared once, which is what requests are answered by and what is described.

A handler is called with the request, with the caller unless the route is open to anybody, and with the route's
parameters in their order.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from sedml.service.server.access import Caller
from sedml.service.server.http.refusals import malformed, rate_limited
from sedml.service.server.http.request_info import info_of, web_of

_HELD_BACK = 1.0  # seconds

ANYBODY = "anybody"
"""For whom a route is that asks for no token."""

Handler: TypeAlias = Callable[..., Coroutine[Any, Any, Response]]
Document: TypeAlias = Any
"""A model, or a generic type of models, which is how pydantic sees types."""


@dataclass(frozen=True)
class Parameter:
    """What a route takes from elsewhere than the body; one that has no `default` must be there."""

    place: Literal["path", "query", "header"]
    name: str
    kind: Document
    about: str
    default: str | None = None

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """What checks a value, and describes those that pass."""
        return TypeAdapter(self.kind)

    def text(self, request: Request, path: Mapping[str, str]) -> str | None:
        """What a request says here; for a parameter of the path, by the parts of that."""
        if self.place == "path":
            return path[self.name]
        return (request.headers if self.place == "header" else request.query_params).get(self.name, self.default)


@dataclass(frozen=True)
class Route:
    """One method of one path.

    `gives` is the document that it answers with, also with status 201 if the route makes something `new`; without one
    the answer is text of the type `text`, or raw bytes. `takes` is the document that it is sent, or says what the raw
    bytes are. `fails` are further statuses of errors, `also` further ones with a document of their own.
    """

    method: str
    path: str
    handler: Handler
    tag: str
    who: str
    parameters: tuple[Parameter, ...] = ()
    gives: Document = None
    text: str | None = None
    takes: type[BaseModel] | str | None = None
    new: bool = False
    fails: tuple[int, ...] = ()
    also: Mapping[int, Document] = field(default_factory=dict)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What a path of it looks like."""
        return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", self.path))


async def answer(routes: tuple[Route, ...], request: Request) -> Response:
    """The answer of the route that a request is for, which its scope has as "route" from then on."""
    for route in routes:
        if found := route.pattern.fullmatch(request.scope["path"]):
            request.scope["route"] = route
            if route.method == request.method:
                return await _handle(route, request, found.groupdict())
    raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED if "route" in request.scope else HTTPStatus.NOT_FOUND)


async def _handle(route: Route, request: Request, path: Mapping[str, str]) -> Response:
    if route.who == ANYBODY:
        await _admit(request)
        return await route.handler(request, *_values(route, request, path))
    caller = await _identify(request)
    return await route.handler(request, caller, *_values(route, request, path))


async def _identify(request: Request) -> Caller:
    """Whoever holds the token of a request, with a place among those whose requests are under way.

    What its role may do is for the core to say.
    """
    web, info = web_of(request), info_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    info.caller = caller = await web.tokens(token if scheme.lower() == "bearer" else None)
    if request.client is not None:
        web.connections.recognise((request.client.host, request.client.port), caller.name)
    wait = web.limits.processor.wait(caller.name)
    if wait:
        # Whoever does not wait by itself is made to: answers that say so take time as well.
        await asyncio.sleep(min(wait, _HELD_BACK))
        if wait > _HELD_BACK:
            raise rate_limited(request, wait)
    if not web.limits.requests.enter(caller.name):
        raise rate_limited(request, 1)
    info.has_place = True
    return caller


async def _admit(request: Request) -> None:
    """Let in whoever asks, at the rate of its address."""
    info = info_of(request)
    info.charged = True
    wait = web_of(request).limits.addresses.take(info.source)
    if wait:
        raise rate_limited(request, wait)


def _values(route: Route, request: Request, path: Mapping[str, str]) -> list[object]:
    """The parameters that a request has; raises if some are missing, or are not what they should be."""
    values: list[object] = []
    findings: list[Mapping[str, Any]] = []
    for one in route.parameters:
        place = (one.place, one.name)
        if (text := one.text(request, path)) is None:
            findings.append({"type": "missing", "loc": place})
            continue
        try:
            values.append(one.adapter.validate_python(text))
        except ValidationError as error:
            findings += [{**finding, "loc": place} for finding in error.errors(include_url=False)]
    if findings:
        raise malformed(findings)
    return values
