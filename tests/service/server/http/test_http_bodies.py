"""Bodies: of the announced size or refused, cut off as soon as they are too long, and never half stored."""

from __future__ import annotations

import itertools
import json
import stat
import threading
import time
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sedml.errors import RateLimitedError, StoreError
from sedml.service.server.http import bodies, guard
from sedml.service.server.http.app import App
from sedml.service.server.http.limits import Room
from sedml.service.terms import Terms
from support.http_drive import GONE, SILENCE, ask_raw, pieces
from support.http_fake import BALLOT, BALLOT_NAME, JOB, TERMS, bearer, settings

BALLOT_PATH = f"/v1/jobs/{JOB}/ballot"
DATA_PATH = f"/v1/jobs/{JOB}/data"
BALLOT_HEADERS = bearer("teacher-1") | {"Sedml-Ballot": BALLOT_NAME}
SIZE = TERMS.data_bytes


@pytest.fixture(autouse=True)
def job(core):
    core.terms[JOB] = TERMS


@pytest.fixture
def hasty(core, tmp_path):
    """A server with very little patience."""
    return App(core.node(settings(tmp_path, body_timeout=0.05)))


def put_ballot(app, messages, length=None):
    headers = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
    return ask_raw(app, "PUT", BALLOT_PATH, BALLOT_HEADERS | headers, messages)


def put_data(app, messages, length=None):
    headers = {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
    return ask_raw(app, "PUT", DATA_PATH, bearer("requester-1") | headers, messages)


def code(answer):
    return answer.status, json.loads(answer.body)["type"].removeprefix("urn:sedml:")


def left_over(app):
    return list(app.web.node.incoming.iterdir())


@pytest.mark.parametrize("length", [BALLOT, None])
@hypothesis_settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, BALLOT), max_size=6))
def test_a_body_in_any_pieces_is_the_same_body(app, core, length, cuts):
    core.stored.clear()
    body = bytes(i % 251 for i in range(BALLOT))
    edges = [0, *sorted(cuts), BALLOT]
    parts = [body[a:b] for a, b in itertools.pairwise(edges)]
    answer = put_ballot(app, pieces(*parts), length)
    assert answer.status == 201
    assert "connection" not in answer.headers
    assert core.stored["ballot", JOB, "teacher-1"] == BALLOT_NAME.encode() + body


@pytest.mark.parametrize("put", [put_ballot, put_data])
def test_a_body_that_is_announced_too_long_is_not_read(app, core, put):
    answer = put(app, pieces(b"x" * 1_000_000), 1_000_000)
    assert code(answer) == (413, "body-too-large")
    assert answer.pieces_read == 0
    assert answer.headers["connection"] == "close"
    assert not core.stored
    assert not left_over(app)


@pytest.mark.parametrize(("put", "size"), [(put_ballot, BALLOT), (put_data, SIZE)])
def test_a_body_that_grows_too_long_is_cut_off(app, core, put, size):
    endless = ({"type": "http.request", "body": b"x" * 1000, "more_body": True} for _ in itertools.count())
    answer = put(app, endless)
    assert code(answer) == (413, "body-too-large")
    assert answer.pieces_read == size // 1000 + 1
    assert answer.headers["connection"] == "close"
    assert not core.stored
    assert not left_over(app)


@pytest.mark.parametrize(("put", "size"), [(put_ballot, BALLOT), (put_data, SIZE)])
@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_short(app, core, put, size, announced):
    answer = put(app, pieces(b"x" * (size - 1)), size - 1 if announced else None)
    assert code(answer) == (400, "body-truncated")
    assert answer.pieces_read == (0 if announced and put is put_data else 1)
    assert not core.stored
    assert not left_over(app)


@pytest.mark.parametrize(("put", "size"), [(put_ballot, BALLOT), (put_data, SIZE)])
@pytest.mark.parametrize("come", [0, 1, 100])
def test_a_client_that_leaves(app, core, log, put, size, come):
    part = [{"type": "http.request", "body": b"x" * come, "more_body": True}]
    answer = put(app, [*part, GONE], size)
    assert answer.status is None
    assert not core.stored
    assert not left_over(app)
    assert [(entry["event"], entry["status"]) for entry in log] == [("request", 499)]


@pytest.mark.parametrize(("put", "size"), [(put_ballot, BALLOT), (put_data, SIZE)])
def test_a_client_that_stalls(hasty, core, put, size):
    part = [{"type": "http.request", "body": b"x" * 100, "more_body": True}]
    answer = put(hasty, [*part, SILENCE], size)
    assert code(answer) == (408, "request-timeout")
    assert answer.headers["connection"] == "close"
    assert not core.stored
    assert not left_over(hasty)


@pytest.mark.parametrize("size", [200_000, 60_000_000])
def test_a_client_that_trickles(hasty, core, monkeypatch, size):
    """How long its body would be does not buy it time."""
    # Each piece is progress, and costs far more than the microsecond that it is worth: only the least rate ends this.
    monkeypatch.setattr(bodies, "_LEAST_RATE", 1e6)
    core.terms[JOB] = TERMS.model_copy(update={"data_bytes": size})
    trickle = ({"type": "http.request", "body": b"x", "more_body": True} for _ in itertools.count())
    answer = put_data(hasty, trickle)
    assert code(answer) == (408, "request-timeout")
    assert 0 < answer.pieces_read < 200_000
    assert not left_over(hasty)


def test_a_slow_document(hasty):
    headers = bearer("operator-s0") | {"Content-Type": "application/json", "Content-Length": "100"}
    part = [{"type": "http.request", "body": b"{", "more_body": True}]
    answer = ask_raw(hasty, "PUT", "/v1/accounts/teacher-3", headers, [*part, SILENCE])
    assert code(answer) == (408, "request-timeout")


@pytest.mark.parametrize("announced", [True, False])
def test_documents_have_a_limit_too(app, announced):
    length = {"Content-Length": "70000"} if announced else {"Transfer-Encoding": "chunked"}
    headers = bearer("operator-s0") | length
    answer = ask_raw(app, "PUT", "/v1/accounts/teacher-3", headers, pieces(*([b" " * 1000] * 70)))
    assert code(answer) == (413, "body-too-large")
    assert answer.pieces_read == (0 if announced else 66)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("PUT", BALLOT_PATH, {}, 401),
        ("PUT", BALLOT_PATH, bearer("requester-1") | {"Sedml-Ballot": BALLOT_NAME}, 403),
        ("PUT", f"/v1/jobs/{'0' * 32}/data", bearer("requester-1"), 404),
        ("PUT", "/v1/accounts/teacher-3", {}, 401),
        ("GET", "/healthz", {}, 200),
        ("POST", "/nowhere", {}, 404),
    ],
)
def test_nothing_is_read_of_what_is_not_wanted(app, method, path, headers, status):
    answer = ask_raw(app, method, path, headers | {"Content-Length": "1000000"}, pieces(b"x" * 1000))
    assert (answer.status, answer.pieces_read) == (status, 0)
    assert answer.headers["connection"] == "close"


def test_a_small_rest_is_dropped_so_that_the_connection_lasts(app):
    refused = ask_raw(app, "PUT", BALLOT_PATH, {"Content-Length": "300"}, pieces(b"x" * 100, b"x" * 200))
    assert (refused.status, refused.pieces_read) == (401, 2)
    assert "connection" not in refused.headers
    part = {"type": "http.request", "body": b"x", "more_body": True}
    for rest, read in (([part, SILENCE], 1), ([part, GONE], 2)):
        late = ask_raw(app, "PUT", BALLOT_PATH, {"Content-Length": "300"}, rest)
        assert (late.status, late.pieces_read, late.headers["connection"]) == (401, read, "close")
    asking = ask_raw(app, "PUT", BALLOT_PATH, {"Content-Length": "300", "Expect": "100-continue"}, pieces(b"x" * 300))
    assert (asking.status, asking.pieces_read, asking.headers["connection"]) == (401, 0, "close")


def test_a_connection_with_a_large_rest_is_not_closed_at_once(app, monkeypatch):
    """Or the client's system might drop the answer."""
    monkeypatch.setattr(guard, "_LINGER", 0.3)
    start = time.monotonic()
    answer = ask_raw(app, "PUT", BALLOT_PATH, {"Content-Length": "1000000"}, pieces(b"x" * 1000))
    assert time.monotonic() - start > 0.3
    assert answer.status == 401
    assert json.loads(answer.body_parts[0])["status"] == 401, "all of the answer goes out before the wait"
    assert answer.body_parts[1:] == [b""]


def test_a_length_beyond_all_measure(app, core):
    answer = ask_raw(app, "PUT", BALLOT_PATH, BALLOT_HEADERS | {"Content-Length": "9" * 5000}, pieces(b"x" * 1000))
    assert code(answer) == (413, "body-too-large")
    assert not core.stored


def test_an_upload_is_a_private_file(app, core, monkeypatch):
    seen = []
    accept = core.public_data_accept

    def look(node, caller, job, file):
        seen.append((file.parent, stat.S_IMODE(file.stat().st_mode), file.stat().st_size))
        return accept(node, caller, job, file)

    monkeypatch.setattr("sedml.service.server.jobs.public_data.accept", look)
    assert put_data(app, pieces(b"x" * SIZE), SIZE).status == 201
    assert seen == [(app.web.node.incoming, 0o600, SIZE)]
    assert not left_over(app)


def test_an_upload_that_the_core_refuses_is_removed(app, core, monkeypatch):
    def refuse(*_):
        raise StoreError("No.", "Wait.")

    monkeypatch.setattr("sedml.service.server.jobs.public_data.accept", refuse)
    assert code(put_data(app, pieces(b"x" * SIZE), SIZE)) == (503, "store")
    assert not left_over(app)


def test_a_disk_that_is_full(app, core, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bodies, "_write_all", full)
    assert code(put_data(app, pieces(b"x" * SIZE), SIZE)) == (503, "store")
    assert not left_over(app)


def test_bodies_in_flight_have_a_limit(app, core):
    room = app.web.limits.memory
    with ExitStack() as others:
        for number in range(room.parts):
            others.enter_context(room.reserve(f"teacher-{number + 2}", room.limit // room.parts))
        answer = put_ballot(app, pieces(b"x" * BALLOT), None)
        assert code(answer) == (429, "rate-limited")
        assert int(answer.headers["retry-after"]) > 0
        assert answer.pieces_read == 0
    assert room.taken == 0
    assert put_ballot(app, pieces(b"x" * BALLOT), BALLOT).status == 201
    assert room.taken == 0


def test_one_account_takes_a_part_of_the_room_and_no_more():
    room = Room(40)
    with room.reserve("greedy", 1000), pytest.raises(RateLimitedError), room.reserve("greedy", 1):
        pass
    with room.reserve("greedy", 4), room.reserve("greedy", 6):
        assert room.taken == 10
        with pytest.raises(RateLimitedError), room.reserve("greedy", 1):
            pass
        with room.reserve("modest", 10):
            assert room.taken == 20
    assert room.taken == 0


def test_what_is_deleted_is_not_read_on(core, app, tmp_path):
    """Whoever reads slowly would else keep its room on the disk, for as long as it likes."""
    core.terms[JOB], core.data[JOB] = TERMS, tmp_path / "samples"
    core.data[JOB].write_bytes(bytes(SIZE))

    def client():
        yield from pieces(b"")
        core.data[JOB].unlink()  # after the first piece
        yield SILENCE

    answer = ask_raw(app, "GET", DATA_PATH, bearer("requester-1"), client())
    assert (answer.status, answer.complete) == (200, False)
    assert 0 < len(answer.body) < SIZE


@pytest.mark.parametrize(
    ("path", "who"),
    [
        (f"/v1/jobs/{JOB}", "teacher-1"),
        ("/v1/accounts/anna", "requester-1"),
        ("/v1/budget/own", "requester-1"),
        ("/v1/log/restored", "teacher-1"),
    ],
)
def test_a_document_is_read_only_for_whoever_may_send_it(app, path, who):
    answer = ask_raw(app, "PUT", path, bearer(who), pieces(b"no document"))
    assert code(answer) == (403, "forbidden")


def test_a_document_is_parsed_at_the_expense_of_whoever_sends_it(app, monkeypatch):
    charged, parsed_in, processor = [], [], app.web.limits.processor
    monkeypatch.setattr(type(processor), "charge", lambda _, who, seconds: charged.append((who, seconds)))

    def parse(_: bytes):
        parsed_in.append(threading.current_thread())
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        return TERMS

    monkeypatch.setattr(Terms, "model_validate_json", parse)
    ask_raw(app, "PUT", f"/v1/jobs/{JOB}", bearer("requester-1"), pieces(b"{}"))
    assert sum(seconds for who, seconds in charged if who == "requester-1") > 0.1
    assert parsed_in[0] is not threading.current_thread(), "nobody else waits for it"
