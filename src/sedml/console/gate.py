"""Who comes in: the browser that showed the one-time token first, asking from our own page, and nobody else.

Everything passes here, files and errors too. A request must name us as its host (or a stranger's name that leads to
this machine would do) and must not come from another origin; to change something, it has to say that it comes from
ours. Then it has to have the session, which is given for the token, once.
"""

from __future__ import annotations

import logging
import re
import secrets
import traceback
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sedml.console.replies import failed, refused

OPEN = "/open"
"""Where a token is shown."""
READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing."""
LOOKS = frozenset({"/static/style.css", "/static/icon.svg"})
"""What the page has that says so to whoever is not let in: the same for everybody, and nobody's secret."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What every answer has."""

_AGAIN = "stop the console with Ctrl-C and start it again."
_log = logging.getLogger("sedml.console")


@dataclass(eq=False)
class Admission:
    """A token that is good once, and the session that it is traded for."""

    port: int
    _token: str | None = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        """What to open in a browser: whoever does so first is let in."""
        return f"http://127.0.0.1:{self.port}{OPEN}?token={self._token or ''}"

    @property
    def hosts(self) -> tuple[str, str]:
        """Our names."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    @property
    def cookie(self) -> str:
        """The name of the cookie: browsers keep cookies by host, not by port, and there may be several consoles."""
        return f"sedml-console-{self.port}"

    def trade(self, token: str) -> str | None:
        """The session for the token; nothing for another one, nor for the same a second time."""
        if self._token is None or not _same(token, self._token):
            return None
        self._token = None
        return self._session

    def knows(self, session: str) -> bool:
        """Whether this is the session, and the token for it was shown."""
        return self._token is None and _same(session, self._session)


def guarded(app: ASGIApp, admission: Admission) -> ASGIApp:
    """The app behind the gate."""

    async def gate(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        answer = _at_the_door(Request(scope), admission)
        send, begun = _labelled(send)
        if answer is not None:
            await answer(scope, receive, send)
            return
        try:
            await app(scope, receive, send)
        except Exception as error:  # its text may hold anything: only the kind and the place are told
            place = traceback.extract_tb(error.__traceback__)[-1]
            _log.error("%s at %s:%d", type(error).__name__, Path(place.filename).name, place.lineno or 0)
            if not begun:
                await failed()(scope, receive, send)

    return gate


def _at_the_door(request: Request, admission: Admission) -> Response | None:
    """The answer to whoever is not let in, or came to show a token; None for those who may pass."""
    host = request.headers.getlist("host")
    if len(host) != 1 or host[0] not in admission.hosts:
        what = "This is not the address of the console."
        return _turned_away(request, 421, what, f"Open http://127.0.0.1:{admission.port}/ instead.")
    if not _from_us(request, host[0]):
        return _turned_away(
            request,
            403,
            "Another web page tried to use the console.",
            "Nothing was done. If it was you, type the address into the browser.",
        )
    if request.url.path == OPEN:
        return _open(request, admission)
    looks = request.method in READS and request.url.path in LOOKS
    if not looks and not any(admission.knows(value) for value in _cookies(request, admission.cookie)):
        return _turned_away(
            request,
            401,
            "This browser has no session with the console.",
            f"Open the address that `sedml console` printed. If it has been used already, {_AGAIN}",
        )
    return None


def _from_us(request: Request, host: str) -> bool:
    headers, reads = request.headers, request.method in READS
    origins = headers.getlist("origin")
    if (origins or not reads) and origins != [f"http://{host}"]:
        return False
    site = headers.get("sec-fetch-site", "same-origin")
    if request.url.path == OPEN:
        # A link or a file may lead here: it is the token that counts. But never into a frame or a script.
        as_page = (headers.get("sec-fetch-mode", "navigate"), headers.get("sec-fetch-dest", "document"))
        return reads and as_page == ("navigate", "document")
    return site == "same-origin" or (site == "none" and reads)


def _open(request: Request, admission: Admission) -> Response:
    session = admission.trade(request.query_params.get("token", "")) if request.method == "GET" else None
    if session is None:
        what = "This address is wrong, or has been used: it lets one browser in, once."
        return _turned_away(request, 403, what, f"For a new one, {_AGAIN}")
    # Not by status 303: a browser sends no strict cookie along a redirection that began at a link or a file.
    onwards = '<meta http-equiv="refresh" content="0;url=/">'
    answer = _page('<p><a href="/">Open the console</a></p>', onwards)
    answer.set_cookie(admission.cookie, session, path="/", httponly=True, samesite="strict")
    return answer


def _turned_away(request: Request, status: int, what: str, do: str) -> Response:
    if request.url.path.startswith("/api/"):
        return refused(status, what, do)
    answer = _page(f"<h1>{escape(what)}</h1><p>{_with_code(do)}</p>")
    answer.status_code = HTTPStatus(status)
    return answer


def _page(body: str, head: str = "") -> Response:
    head = (
        '<meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">'
        f"{head}<title>SEDML console</title>"
    )
    brand = '<div class="brand"><img src="/static/icon.svg" alt="" width="22" height="22"> SEDML</div>'
    body = f'<header class="alone">{brand}</header><main><section class="card">{body}</section></main>'
    return HTMLResponse(f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>')


def _with_code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _cookies(request: Request, name: str) -> list[str]:
    """All values of a cookie: whoever else runs on this machine may have set one of the same name."""
    found = []
    for header in request.headers.getlist("cookie"):
        for pair in header.split(";"):
            try:
                jar = SimpleCookie(pair.strip())
            except CookieError:
                continue
            if name in jar:
                found.append(jar[name].value)
    return found


def _labelled(send: Send) -> tuple[Send, list[bool]]:
    """Sending with the headers that all answers have; the list is empty until something was sent."""
    begun: list[bool] = []
    ours = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    names = {name for name, _ in ours}

    async def send_labelled(message: Message) -> None:
        if message["type"] == "http.response.start":
            begun.append(True)
            others = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
            message = {**message, "headers": [*others, *ours]}
        await send(message)

    return send_labelled, begun


def _same(given: str, right: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())
