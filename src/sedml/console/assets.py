"""The files of the page, read once: nothing that a request says is ever a path."""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HOME = "index.html"


def asset_routes() -> list[Route]:
    """A route for each file, and the page itself at the root."""
    found = {file.name: file.read_bytes() for file in files("sedml.console").joinpath("static").iterdir()}
    names = sorted(name for name in found if _suffix(name) in _TYPES)
    return [_route("/" if name == _HOME else f"/static/{name}", found[name], _TYPES[_suffix(name)]) for name in names]


def _route(path: str, content: bytes, media_type: str) -> Route:
    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return Route(path, answer, methods=["GET"], name=path)


def _suffix(name: str) -> str:
    return f".{name.rpartition('.')[2]}"
