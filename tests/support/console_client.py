"""A browser without a screen: the console's application asked in this process, with the headers that browsers send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2

from sedml.console.gate import READS, Admission
from sedml.console.session import Session, opened_session
from sedml.console.web_app import make_app, make_routes

__all__ = ["ROUTES", "Visitor", "visiting"]

PORT = 40_000


@dataclass
class Visitor:
    """A browser at the console of one kit; it has a session once it has `opened` it."""

    session: Session
    admission: Admission = field(default_factory=lambda: Admission(PORT))
    cookie: str | None = None
    answers: list[httpx2.Response] = field(default_factory=list, repr=False)
    app: Any = None

    def __post_init__(self) -> None:
        self.app = make_app(self.session, self.admission)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{PORT}"

    def open(self) -> Visitor:
        found = urlsplit(self.admission.address)
        answer = self.ask("GET", f"{found.path}?{found.query}", {"Sec-Fetch-Site": "none"})
        assert answer.status_code == 200, answer.text
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def ask(
        self, method: str, path: str, headers: dict[str, str | None] | None = None, content: bytes | str | None = None
    ) -> httpx2.Response:
        """As our own page would; `headers` go before those, None leaves one out."""
        given: dict[str, str | None] = {"Sec-Fetch-Site": "same-origin", "Cookie": self.cookie}
        if method not in READS:
            given["Origin"] = self.origin
        sent = {name: value for name, value in (given | (headers or {})).items() if value is not None}

        async def call() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.app)
            async with httpx2.AsyncClient(transport=transport, base_url=self.origin) as client:
                return await client.request(method, path, headers=sent, content=content)

        answer = anyio.run(call)
        self.answers.append(answer)
        return answer

    def document(self, method: str, path: str, content: bytes | str | dict | None = None) -> Any:
        """What a call that must go well answers; of work that takes a while, its result."""
        body = json.dumps(content) if isinstance(content, dict) else content
        answer = self.ask(method, path, content=body)
        assert answer.status_code == 200, answer.text
        if answer.headers["content-type"] != "application/x-ndjson":
            return answer.json()
        *progress, last = map(json.loads, answer.text.splitlines())
        assert all({"doing", "done", "total"} == set(line) for line in progress)
        return last["result"] if "result" in last else last["problem"]


@contextmanager
def visiting(kit: Path) -> Iterator[Visitor]:
    """A visitor that has a session."""
    with opened_session(kit) as session:
        yield Visitor(session).open()


ROUTES = [
    (role, method, route.path.replace("{job}", "0" * 32).replace("{kind}", "npy").replace("{account}", "teacher-001"))
    for role in ("requester", "teacher", "operator")
    for route in make_routes(Session(Path(), role, Path())).routes
    for method in sorted(route.methods)
]
"""Every route of every role."""
