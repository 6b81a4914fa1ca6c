"""Who comes in: the first browser that shows the token, from our own page and under our own name, and nobody else."""

from __future__ import annotations

import base64
import json
import logging

import anyio
import pytest
from starlette.responses import Response
from starlette.routing import Route

from sedml.console import gate
from sedml.console.gate import HEADERS, LOOKS, READS, Admission
from sedml.console.listening import _listener
from sedml.console.session import opened_session
from sedml.errors import InputError
from support.console_client import PORT, ROUTES, Visitor, visiting

CHANGING = [route for route in ROUTES if route[1] not in READS]
STRANGERS = [
    "http://evil.example",
    "http://127.0.0.1:8000",
    f"https://127.0.0.1:{PORT}",
    f"http://localhost:{PORT}",
    "null",
]
KITS = {"requester": "requester-1", "teacher": "teacher-001", "operator": "operator-s0"}


@pytest.fixture
def visitor(kits):
    with visiting(kits / "requester-1") as found:
        yield found


@pytest.fixture
def stranger(kits):
    with opened_session(kits / "requester-1") as session:
        yield Visitor(session)


def test_every_role_has_something_that_changes_something():
    assert {role for role, *_ in CHANGING} == set(KITS)
    assert ("operator", "DELETE", "/api/accounts/teacher-001") in CHANGING


def test_the_address_lets_a_browser_in_and_its_token_is_then_gone(stranger):
    token = stranger.admission.address.partition("token=")[2]
    assert len(base64.urlsafe_b64decode(token + "=")) == 32
    answer = stranger.open().answers[-1]
    cookie = answer.headers["set-cookie"]
    name, _, value = stranger.cookie.partition("=")
    assert name == f"sedml-console-{PORT}"
    assert len(base64.urlsafe_b64decode(value + "=")) == 32
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert "url=/" in answer.text
    assert token not in answer.text
    assert value not in answer.text
    assert stranger.ask("GET", "/").status_code == 200
    assert stranger.ask("GET", "/api/who").json()["name"] == "requester-1"

    again = stranger.ask("GET", f"/open?token={token}", {"Cookie": None})
    assert again.status_code == 403
    assert "set-cookie" not in again.headers
    assert "start it again" in again.text


@pytest.mark.parametrize("token", ["", "wrong", "é", "0" * 43])
def test_a_wrong_token_opens_nothing_and_spoils_nothing(stranger, token):
    answer = stranger.ask("GET", f"/open?token={token}")
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "start it again" in answer.text
    assert stranger.open().ask("GET", "/").status_code == 200


def test_only_looking_at_the_address_does_not_use_it_up(stranger):
    address = stranger.admission.address.removeprefix(stranger.origin)
    assert stranger.ask("HEAD", address).status_code == 403
    assert stranger.open().ask("GET", "/").status_code == 200


def test_the_address_may_come_from_a_link_or_a_file_but_not_into_a_frame_or_a_script(stranger):
    address = stranger.admission.address.removeprefix(stranger.origin)
    for mode, destination in (("navigate", "iframe"), ("no-cors", "script"), ("cors", "empty")):
        sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": destination}
        assert stranger.ask("GET", address, sent).status_code == 403
    sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert stranger.ask("GET", address, sent).status_code == 200


@pytest.mark.parametrize(("role", "method", "path"), [route for route in ROUTES if route[2] not in LOOKS])
def test_nothing_is_had_without_the_session(kits, role, method, path):
    with opened_session(kits / KITS[role]) as session:
        visitor = Visitor(session)
        assert visitor.ask(method, path).status_code == 401
        before = f"sedml-console-{PORT}={visitor.admission._session}"
        # Nor with one that was never given to anybody.
        assert visitor.ask(method, path, {"Cookie": before}).status_code == 401
        visitor.open()
        for cookie in (
            None,
            f"sedml-console-{PORT}=",
            f"sedml-console-{PORT}=wrong",
            visitor.cookie.replace("40000", "40001"),
        ):
            assert visitor.ask(method, path, {"Cookie": cookie}).status_code == 401


def test_whoever_is_not_let_in_sees_only_how_the_page_looks(stranger):
    assert {"/static/style.css", "/static/icon.svg"} == LOOKS
    for path in LOOKS:
        assert stranger.ask("GET", path).status_code == 200
        assert stranger.ask("POST", path).status_code == 401
        assert stranger.ask("GET", path, {"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert '<link rel="stylesheet" href="/static/style.css">' in stranger.ask("GET", "/").text


def test_a_cookie_of_somebody_else_does_not_keep_ours_out(visitor):
    name = f"sedml-console-{PORT}"
    assert visitor.ask("GET", "/", {"Cookie": f"{name}=other; a=b; {visitor.cookie}"}).status_code == 200


@pytest.mark.parametrize(("role", "method", "path"), ROUTES)
def test_another_name_for_this_machine_leads_nowhere(kits, role, method, path):
    with visiting(kits / KITS[role]) as visitor:
        for host in ("evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"0.0.0.0:{PORT}"):
            origin = None if method in READS else f"http://{host}"
            assert visitor.ask(method, path, {"Host": host, "Origin": origin}).status_code == 421


def test_localhost_is_a_name_of_ours(visitor):
    host = f"localhost:{PORT}"
    assert visitor.ask("GET", "/api/who", {"Host": host}).status_code == 200
    own, other = f"http://{host}", visitor.origin
    assert visitor.ask("PUT", "/api/samples", {"Host": host, "Origin": own}, b"").status_code == 422
    assert visitor.ask("PUT", "/api/samples", {"Host": host, "Origin": other}, b"").status_code == 403


@pytest.mark.parametrize(("role", "method", "path"), CHANGING)
def test_nobody_else_changes_anything(kits, role, method, path):
    with visiting(kits / KITS[role]) as visitor:
        for origin in (None, *STRANGERS):
            assert visitor.ask(method, path, {"Origin": origin}).status_code == 403
        for site in ("cross-site", "same-site", "none"):
            assert visitor.ask(method, path, {"Sec-Fetch-Site": site}).status_code == 403
        # The same as our page sends it gets past the gate; where it leads to is not of interest here.
        visitor.app = gate.guarded(Response("passed"), visitor.admission)
        assert visitor.ask(method, path).text == "passed"


@pytest.mark.parametrize(("role", "method", "path"), [route for route in ROUTES if route[1] in READS])
def test_nobody_else_reads_anything(kits, role, method, path):
    with visiting(kits / KITS[role]) as visitor:
        for origin in STRANGERS:
            assert visitor.ask(method, path, {"Origin": origin}).status_code == 403
        for site in ("cross-site", "same-site"):
            assert visitor.ask(method, path, {"Sec-Fetch-Site": site}).status_code == 403


def test_all_answers_have_the_headers_and_errors_too(visitor):
    policy = HEADERS["Content-Security-Policy"]
    for part in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ):
        assert part in policy
    assert "unsafe" not in policy
    for method, path, headers, content, status in (
        ("GET", "/", {}, None, 200),
        ("GET", "/static/main.js", {}, None, 200),
        ("GET", "/api/who", {}, None, 200),
        ("GET", "/open?token=x", {}, None, 403),
        ("GET", "/api/who", {"Cookie": None}, None, 401),
        ("GET", "/", {"Cookie": None}, None, 401),
        ("GET", "/", {"Host": "evil.example"}, None, 421),
        ("GET", "/nothing", {}, None, 404),
        ("GET", "/static/../app.py", {}, None, 404),
        ("POST", "/", {}, None, 405),
        ("POST", "/api/jobs", {}, b"{", 422),
        ("POST", "/api/jobs", {}, b" " * 70_000, 413),
        ("POST", "/api/jobs/" + "0" * 32 + "/run", {"Origin": "null"}, None, 403),
        ("GET", "/api/jobs/x", {}, None, 422),
        ("POST", "/api/plan", {}, b"{}", 422),
        ("GET", "/static/style.css", {"Cookie": None}, None, 200),
    ):
        answer = visitor.ask(method, path, headers, content)
        assert answer.status_code == status, (method, path, answer.text)
        for name, value in HEADERS.items():
            assert answer.headers.get_list(name) == [value], (path, name)
    assert "set-cookie" not in visitor.answers[-1].headers


def test_an_error_that_nobody_foresaw_tells_nothing(visitor, caplog):
    async def fail(request):
        raise RuntimeError("the token is hunter2")

    app = gate.guarded(Route("/api/fail", fail), visitor.admission)
    visitor.app = app
    with caplog.at_level(logging.DEBUG):
        answer = visitor.ask("GET", "/api/fail")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert "hunter2" not in answer.text + caplog.text
    assert "RuntimeError at test_gate.py:" in caplog.text


def test_there_are_no_websockets(visitor):
    sent = []

    async def call():
        async def send(message):
            sent.append(message)

        await visitor.app({"type": "websocket", "path": "/", "headers": []}, None, send)

    anyio.run(call)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_no_secret_shows_in_a_repr(visitor):
    shown = repr((visitor.admission, visitor.session, visitor.session.kit))
    for secret in (
        visitor.admission._session,
        visitor.session.kit.servers["s0"].token,
        visitor.session.kit.secret.hex(),
    ):
        assert secret not in shown
    fresh = Admission(1)
    assert fresh._token not in repr(fresh)


def test_refusals_of_calls_say_what_to_do(visitor):
    answer = visitor.ask("GET", "/api/who", {"Cookie": None})
    found = json.loads(answer.text)
    assert found["title"]
    assert "sedml console" in found["detail"]


def test_only_this_machine_can_connect():
    with _listener(0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(InputError, match=f"port {port}"), _listener(port):
            pass
