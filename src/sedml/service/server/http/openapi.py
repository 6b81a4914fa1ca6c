"""The interface described in OpenAPI, from its routes: who may call each, what it takes, how it can fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic import TypeAdapter

from sedml.service.messages import Problem
from sedml.service.server.http.bodies import BINARY, JSON
from sedml.service.server.http.refusals import MEDIA_TYPE
from sedml.service.server.http.routes import ANYBODY, Document, Parameter, Route

_ABOUT = (
    "One of the two servers of a SEDML deployment. Shares travel as raw bytes, everything else as JSON. "
    "Errors are problem documents (RFC 9457): `title` says what happened, `detail` what to do."
)
_OPEN = (404, 405, 422, 429, 431, 500)
_KNOWN = (*_OPEN, 401, 403, 503)
_BODY = (400, 408, 413, 415)
_RAW = {"type": "string", "format": "binary"}
_TOKEN = {
    "type": "http",
    "scheme": "bearer",
    "description": "The token of the caller's kit for this server, `sedml_...`.",
}


def described(routes: Iterable[Route]) -> dict[str, Any]:
    """All of these routes, and the documents that they take and give."""
    routes = tuple(routes)
    kinds = {kind: TypeAdapter(kind) for route in routes for kind in (*_documents(route), Problem)}
    inputs = [(kind, "validation", adapter) for kind, adapter in kinds.items()]
    found, shared = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas = {kind: found[kind, "validation"] for kind in kinds}
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in routes:
        paths[route.path][route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "SEDML server", "description": _ABOUT, "version": version("sedml-pate")},
        "paths": dict(paths),
        "components": {"schemas": shared["$defs"], "securitySchemes": {"token": _TOKEN}},
    }


def _documents(route: Route) -> list[Document]:
    taken = [] if isinstance(route.takes, str) else [route.takes]
    return [kind for kind in (route.gives, *taken, *route.also.values()) if kind is not None]


def _operation(route: Route, schemas: Mapping[Document, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": [route.tag],
        "summary": (route.handler.__doc__ or "").partition("\n")[0].rstrip("."),
        "description": f"For: {route.who}.",
        "operationId": route.handler.__name__,
        "responses": _responses(route, schemas),
    }
    if route.who != ANYBODY:
        operation["security"] = [{"token": []}]
    if route.parameters:
        operation["parameters"] = [_parameter(one) for one in route.parameters]
    if isinstance(route.takes, str):
        operation["requestBody"] = {"required": True, "description": route.takes, "content": _content(BINARY, _RAW)}
    elif route.takes is not None:
        operation["requestBody"] = {"required": True, "content": _content(JSON, schemas[route.takes])}
    return operation


def _responses(route: Route, schemas: Mapping[Document, Any]) -> dict[str, Any]:
    if route.gives is not None:
        good = _content(JSON, schemas[route.gives])
    else:
        good = _content(route.text, {"type": "string"}) if route.text else _content(BINARY, _RAW)
    bad = (*(_OPEN if route.who == ANYBODY else _KNOWN), *(_BODY if route.takes else ()), *route.fails)
    contents = {200: good, **({201: good} if route.new else {})}
    contents |= {status: _content(MEDIA_TYPE, schemas[Problem]) for status in sorted(bad)}
    contents |= {status: _content(JSON, schemas[kind]) for status, kind in route.also.items()}
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": content}
        for status, content in contents.items()
    }


def _parameter(one: Parameter) -> dict[str, Any]:
    schema = one.adapter.json_schema()
    if one.default is not None:
        schema["default"] = one.adapter.validate_python(one.default)
    return {
        "name": one.name,
        "in": one.place,
        "required": one.default is None,
        "schema": schema,
        "description": one.about,
    }


def _content(media_type: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {media_type: {"schema": schema}}
