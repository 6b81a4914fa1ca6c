"""One request as a server hands it to the app, piece by piece and without cleaning anything up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

GONE = {"type": "http.disconnect"}
SILENCE = {"type": "silence"}
"""The client stays, and sends nothing."""


@dataclass
class Answer:
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body_parts: list[bytes] = field(default_factory=list)
    complete: bool = False
    pieces_read: int = 0
    """Before the answer began; what is dropped afterwards does not count."""

    @property
    def body(self) -> bytes:
        return b"".join(self.body_parts)


def pieces(*parts: bytes) -> list[dict[str, Any]]:
    """A body that comes in these parts, and then ends."""
    return [
        {"type": "http.request", "body": part, "more_body": number < len(parts)} for number, part in enumerate(parts, 1)
    ]


def ask_raw(
    app: Any,
    method: str,
    path: bytes | str,
    headers: dict[str, str],
    messages: Iterable[dict[str, Any]] | None = None,
    *,
    query: bytes = b"",
    host: str = "192.0.2.1",
) -> Answer:
    """Send a request and see what comes back, if anything does."""
    raw_path = path.encode() if isinstance(path, str) else path
    answer = Answer()
    coming = iter(pieces(b"") if messages is None else messages)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "path": unquote(raw_path.decode("latin-1")),
        "raw_path": raw_path,
        "root_path": "",
        "query_string": query,
        "scheme": "https",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": (host, 1),
        "server": ("127.0.0.1", 1),
    }

    async def receive() -> dict[str, Any]:
        message = next(coming, SILENCE)
        if message is SILENCE:
            await asyncio.Event().wait()
        answer.pieces_read += answer.status is None
        return message

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            answer.body_parts.append(message.get("body", b""))
            answer.complete = not message.get("more_body", False)

    async def run() -> None:
        await app(scope, receive, send)

    asyncio.run(run())
    return answer
