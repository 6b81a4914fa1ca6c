"""Entries of a log are for good, in the store and in memory: nobody gets to add as many as it likes.

A teacher changes its limit again and again; somebody without an account comes from one address after the other.
"""

from __future__ import annotations

import pytest

from sedml.service.kits import ClientKit, new_token, token_hash
from sedml.service.server.http import App
from sedml.service.server.http.limits import Limits
from sedml.service.server.storage import log_rows
from support.http_drive import ask_raw, pieces
from support.stage import deployed, kits, provisioned, stage

__all__ = ["deployed", "kits", "provisioned", "stage"]


def entries(node) -> int:
    with node.store.read() as connection:
        newest = log_rows.newest(connection)
    return newest[0] + 1


@pytest.fixture
def node(deployed):
    return deployed.servers[0].node


def test_a_teacher_that_changes_its_limit_all_the_time_is_made_to_wait(node, kits):
    app, before = App(node), entries(node)
    headers = {
        "Authorization": f"Bearer {ClientKit.load(kits / 'teacher-001').servers['s0'].token}",
        "Content-Type": "application/json",
    }
    found = []
    for number in range(60):
        body = b'{"limit": %d}' % (50 + number % 2)
        found.append(ask_raw(app, "PUT", "/v1/budget/own", headers, pieces(body)))
    assert {one.status for one in found} == {200, 429}
    assert 1 < entries(node) - before <= 20
    assert int(found[-1].headers["retry-after"]) > 60


def test_an_account_that_replaces_its_token_all_the_time_is_made_to_wait(node, kits):
    app, before = App(node), entries(node)
    token = ClientKit.load(kits / "teacher-002").servers["s0"].token
    found = []
    for _ in range(60):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        fresh = new_token()
        found.append(
            ask_raw(app, "PUT", "/v1/token", headers, pieces(b'{"token_hash": "%s"}' % token_hash(fresh).encode()))
        )
        token = fresh if found[-1].status == 200 else token
    assert [one.status for one in found] == [200] * 20 + [429] * 40
    assert 20 <= entries(node) - before < 45, "and refusals are not all put on record"


def test_strangers_of_many_addresses_add_few_entries_together(node):
    app, before = App(node), entries(node)
    for number in range(300):
        host = f"2001:db8:0:{number:x}::1"
        assert ask_raw(app, "GET", "/v1/jobs", {"Authorization": "Bearer sedml_guess"}, host=host).status == 401
    assert 100 < entries(node) - before <= 210


def test_a_requester_that_creates_and_deletes_all_the_time_is_made_to_wait(node):
    limits = Limits.of(node.settings)
    waits = [limits.jobs.take("requester-1") for _ in range(300)]
    assert not any(waits[:200])
    assert all(waits[201:])
    assert not limits.jobs.take("requester-2")
