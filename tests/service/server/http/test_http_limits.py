"""How often anybody may call: counted by account with a good token, by address without one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import StoreError
from sedml.service.server.http.app import App
from sedml.service.server.http.limits import Buckets, Processor
from sedml.service.server.link.unidentified import source_of
from support.http_drive import ask_raw
from support.http_fake import JOB, TERMS, bearer, settings


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def busy(core, tmp_path, clock):
    """A server with tight limits, and time that stands still."""
    config = settings(
        tmp_path, processor_share=0.5, processor_burst=2, anonymous_rate_per_second=1, anonymous_rate_burst=3
    )
    app = App(core.node(config))
    limits = app.web.limits
    for buckets in (limits.processor, limits.addresses, limits.audited):
        buckets.clock = clock
    return app


def get(app, path, headers=None, **options):
    answer = ask_raw(app, "GET", path, headers or {}, **options)
    code = json.loads(answer.body).get("type", "") if answer.status >= 400 else ""
    return answer.status, code.removeprefix("urn:sedml:"), answer.headers.get("retry-after")


@given(
    steps=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 8)), max_size=30),
    rate=st.floats(0.1, 10),
    burst=st.integers(1, 10),
)
def test_never_more_than_burst_and_rate(steps, rate, burst):
    clock = Clock()
    buckets = Buckets(rate, burst, clock=clock)
    granted, start = 0, clock.now
    for pause, asked in steps:
        clock.now += pause
        for _ in range(asked):
            wait = buckets.take("somebody")
            granted += not wait
            if wait:
                # Waiting as told is enough.
                trial = Buckets(rate, burst, clock=lambda later=clock.now + wait + 1e-6: later)
                trial._levels.update(buckets._levels)
                assert trial.take("somebody") == 0
        assert granted <= burst + rate * (clock.now - start) + 1e-6


def test_buckets_do_not_grow_without_bound(clock):
    buckets = Buckets(1, 2, most=10, clock=clock)
    buckets.take("first")
    buckets.take("first")
    for number in range(100):
        buckets.take(str(number))
        assert buckets.take("first") > 0, "whoever keeps asking stays limited"
        assert len(buckets) <= 10


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("2001:db8:0:0:ffff::1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
    ],
)
def test_what_counts_as_one_address(host, source):
    assert source_of(host) == source


def test_an_account_has_a_share_of_a_processor(busy, core, clock, monkeypatch):
    """Whatever it asks for, and however often, it is what it costs that counts."""
    monkeypatch.setattr("sedml.service.server.http.routes._HELD_BACK", 0.01)
    used = iter(range(0, 1000, 3))
    monkeypatch.setattr("sedml.service.server.http.request_info.thread_time", lambda: next(used))
    assert get(busy, "/v1/jobs", bearer("teacher-1"))[0] == 200  # 3 s, of which 2 were there
    assert get(busy, "/v1/jobs", bearer("teacher-1")) == (429, "rate-limited", "3")
    assert core.calls["listing_page"] == 1
    assert get(busy, "/v1/jobs", bearer("teacher-2"))[0] == 200
    clock.now += 2.1
    assert get(busy, "/v1/jobs", bearer("teacher-1"))[0] == 200
    assert get(busy, "/v1/jobs", bearer("teacher-1"))[0] == 429


@given(
    costs=st.lists(st.tuples(st.floats(0, 5), st.floats(0, 3)), min_size=1, max_size=40),
    share=st.floats(0.05, 2),
    burst=st.floats(0.1, 5),
)
def test_nobody_gets_more_than_burst_and_share(costs, share, burst):
    """But for the last thing that it was let in for; and it never has to wait for longer than half a minute."""
    clock = Clock()
    processor, start, used = Processor(share, burst, clock), clock.now, 0.0
    for pause, cost in costs:
        clock.now += pause
        if processor.wait("one"):
            assert processor.wait("one") <= 30.0 + 1e-6
            continue
        assert used <= burst + share * (clock.now - start) + 1e-6 or cost / share > 30
        used += min(cost, 30.0 * share)
        processor.charge("one", cost)
        assert not processor.wait("other")


def test_an_account_has_so_many_requests_under_way(core, tmp_path):
    app = App(core.node(settings(tmp_path, max_requests_per_account=2)))
    places = app.web.limits.requests
    for path, status in (("/v1/jobs", 200), ("/v1/accounts", 403), (f"/v1/jobs/{JOB}", 404)):
        for _ in range(3):
            assert get(app, path, bearer("teacher-1"))[0] == status, "each gives its place back, however it ends"
    assert places.enter("teacher-1")
    assert places.enter("teacher-1")
    for _ in range(3):
        assert get(app, "/v1/jobs", bearer("teacher-1")) == (429, "rate-limited", "1")
    assert get(app, "/v1/jobs", bearer("teacher-2"))[0] == 200
    places.leave("teacher-1")
    assert get(app, "/v1/jobs", bearer("teacher-1"))[0] == 200


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/jobs", {}, 401),
        ("/v1/jobs", {"Authorization": "Bearer sedml_guess"}, 401),
        ("/nowhere", {}, 404),
        ("/v1/jobs/%2e", {}, 404),
        ("/healthz", {}, 200),
        ("/readyz", {}, 200),
        ("/openapi.json", {}, 200),
    ],
)
def test_strangers_have_a_rate_by_address(busy, clock, path, headers, status):
    for _ in range(3):
        assert get(busy, path, headers)[0] == status
    assert get(busy, path, headers) == (429, "rate-limited", "1")
    # It takes nothing from those with a good token at the same address, nor from other addresses.
    assert get(busy, "/v1/jobs", bearer("teacher-1"))[0] == 200
    assert get(busy, path, headers, host="192.0.2.2")[0] == status
    clock.now += 1
    assert get(busy, path, headers)[0] == status


def test_the_errors_of_an_account_are_not_put_on_its_address(busy):
    for _ in range(4):
        assert get(busy, "/v1/accounts", bearer("teacher-1"))[0] == 403
    for _ in range(3):
        assert get(busy, "/nowhere")[0] == 404


def test_no_header_says_where_a_request_comes_from(busy):
    for number in range(3):
        get(busy, "/nowhere", {"X-Forwarded-For": f"192.0.2.{number}", "Forwarded": f"for=192.0.2.{number}"})
    assert get(busy, "/nowhere", {"X-Forwarded-For": "192.0.2.99"})[0] == 429


def test_refused_tokens_go_into_the_log(busy, core):
    get(busy, "/v1/jobs", {"Authorization": "Bearer sedml_guess"})
    get(busy, f"/v1/jobs/{JOB}", bearer("teacher-9"))
    get(busy, "/v1/jobs")
    assert core.audited == [
        ("address 192.0.2.1", "access", "GET /v1/jobs", "invalid-token"),
        ("address 192.0.2.1", "access", "GET /v1/jobs/{job}", "revoked"),
    ]


def test_a_flood_does_not_fill_the_log(core, tmp_path, clock):
    app = App(core.node(settings(tmp_path)))
    app.web.limits.audited.clock = clock
    core.terms[JOB] = TERMS
    for _ in range(60):
        assert get(app, "/v1/jobs", {"Authorization": "Bearer sedml_guess"})[0] == 401
        assert get(app, "/v1/accounts", bearer("teacher-1"))[0] == 403
    assert len(core.audited) == 40
    clock.now += 5
    get(app, "/v1/accounts", bearer("teacher-1"))
    assert len(core.audited) == 41


def test_a_log_that_fails_changes_no_answer(busy, monkeypatch, log):
    def fail(*_):
        raise StoreError("The disk is full.", "Make room.")

    monkeypatch.setattr("sedml.service.server.public_log.record", fail)
    assert get(busy, "/v1/accounts", bearer("teacher-1"))[0] == 403
    assert {"event": "audit failed", "error": "StoreError", "log_level": "error"} in log
