"""The HTTP interface of a server. Start with `app` (all routes), `guard` (every request) and `serving` (TLS)."""

from __future__ import annotations

from sedml.service.server.http.app import App
from sedml.service.server.http.serving import HttpsServer

__all__ = ["App", "HttpsServer"]
