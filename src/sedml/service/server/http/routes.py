"""One way to declare a route, so that each is documented in full: who may call it, what it takes, how it can fail."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from http import HTTPStatus
from typing import Any, TypeAlias

from fastapi import Depends, FastAPI
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from sedml.service.server.http.bodies import BINARY
from sedml.service.server.http.identity import anybody
from sedml.service.server.http.refusals import MEDIA_TYPE

__all__ = ["Handler", "add_route"]

Handler: TypeAlias = Callable[..., Coroutine[Any, Any, Response]]
Document: TypeAlias = Any
"""A model, or a generic type of models, which is how pydantic sees types."""

_OPEN = (404, 405, 422, 429, 431, 500)
_KNOWN = (*_OPEN, 401, 403, 503)
_BODY = (400, 408, 413, 415)
_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RAW = {"schema": {"type": "string", "format": "binary"}}


def add_route(
    app: FastAPI,
    method: str,
    path: str,
    handler: Handler,
    *,
    tag: str,
    who: str,
    gives: Document = None,
    text: str | None = None,
    takes: type[BaseModel] | str | None = None,
    new: bool = False,
    fails: Iterable[int] = (),
    also: dict[int, Document] | None = None,
) -> None:
    """Declare a route.

    `gives` is the document that it answers with, also with status 201 if the route makes something `new`; without one
    the answer is text of the type `text`, or raw bytes. `takes` is the document that it is sent, or says what the raw
    bytes are. `fails` are further statuses of errors, `also` further ones with a document of their own.
    """
    statuses = [*(_OPEN if who == "anybody" else _KNOWN), *(_BODY if takes else ()), *fails]
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": HTTPStatus(status).phrase, "content": _PROBLEM} for status in sorted(set(statuses))
    }
    for status, kind in ({201: gives} if new else {}).items() | (also or {}).items():
        responses[status] = {"model": kind, "description": HTTPStatus(status).phrase}
    if gives is None:
        content = {text: {"schema": {"type": "string"}}} if text else {BINARY: _RAW}
        responses[200] = {"description": "OK", "content": content}
    app.add_api_route(
        path,
        handler,
        methods=[method],
        response_model=gives,
        response_class=Response if gives is None else JSONResponse,
        response_description="OK",
        responses=responses,
        operation_id=handler.__name__,
        tags=[tag],
        summary=(handler.__doc__ or "").partition("\n")[0].rstrip("."),
        description=f"For: {who}.",
        dependencies=[Depends(anybody)] if who == "anybody" else None,
        openapi_extra=_request_body(takes),
    )


def _request_body(takes: type[BaseModel] | str | None) -> dict[str, Any] | None:
    if takes is None:
        return None
    if isinstance(takes, str):
        return {"requestBody": {"required": True, "description": takes, "content": {BINARY: _RAW}}}
    schema = {"$ref": f"#/components/schemas/{takes.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
