"""The list of jobs: what it says is what is on record, page by page, and it costs next to nothing to ask again."""

from __future__ import annotations

import random
from contextlib import contextmanager

import anyio
import numpy as np
import pytest
import sqlalchemy as sa

from sedml.errors import NotFoundError, ServerError
from sedml.service.client.async_client import listed
from sedml.service.messages import JobList, JobStatus
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle, listing
from sedml.service.server.live.written_jobs import WrittenJobs
from support.deployment import REQUESTER, closed_job, make_ballot, open_job, publish, terms_for
from support.http_fake import JOB, TERMS, TIME

OPERATOR, TEACHER = Caller("operator-s0", "operator"), Caller("teacher", "teacher")


@pytest.fixture
def server_settings():
    return {"max_open_jobs_per_requester": 100}


def page(node, caller=TEACHER, after="") -> JobList:
    return JobList.model_validate_json(listing.page(node, caller, after))


@contextmanager
def statements(node):
    """Those that the store is asked in the block."""
    asked = []
    engine = node.store._database._engine

    def note(connection, cursor, statement, *_):
        asked.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    yield asked
    sa.event.remove(engine, "before_cursor_execute", note)


def test_a_second_look_is_one_query_whatever_there_is(deployed):
    node = deployed.nodes[0]
    for _ in range(20):
        publish(node, terms_for(8))
    first = listing.page(node, TEACHER)
    with statements(node) as asked:
        assert listing.page(node, TEACHER) == first
    assert len([one for one in asked if one.startswith("SELECT")]) == 1


def test_every_change_shows_at_once(deployed):
    node = deployed.nodes[0]

    def check() -> None:
        for caller in (REQUESTER, OPERATOR):
            [shown] = page(node, caller).jobs
            assert shown == lifecycle.status(node, caller, shown.id).model_copy(update={"budget": None})

    terms = open_job(deployed)
    check()
    make_ballot("ben", np.zeros(8, np.int16), terms, random.Random(3)).send(node, terms.id)
    assert page(node).jobs[0].votes == 2
    check()
    with node.store.write() as connection:  # as another replica does
        connection.execute(sa.text("UPDATE sedml_store_jobs SET votes = 3"))
    assert page(node).jobs[0].votes == 3
    for other in deployed.nodes:
        lifecycle.close(other, REQUESTER, terms.id)
    assert page(node).jobs == []
    check()
    lifecycle.delete(node, REQUESTER, terms.id)
    check()


def test_a_job_that_is_done_says_so(deployed):
    terms = closed_job(deployed)
    assert page(deployed.nodes[0], REQUESTER).jobs[0].blocks_done == 0
    deployed.meet(terms.id)
    assert page(deployed.nodes[0], REQUESTER).jobs[0].blocks_done == 1


def test_pages_have_every_job_once(deployed, monkeypatch):
    """Also those of the same moment: the clock stands still here."""
    node = deployed.nodes[0]
    made = set()
    for number in range(7):
        deployed.later(seconds=number == 3)
        terms = terms_for(8)
        publish(node, terms)
        made.add(terms.id)
    monkeypatch.setattr(listing, "PAGE", 2)
    monkeypatch.setattr(listing, "_LISTS", {role: query.limit(None).limit(3) for role, query in listing._LISTS.items()})
    monkeypatch.setattr(
        listing, "_LISTS_ON", {role: query.limit(None).limit(3) for role, query in listing._LISTS_ON.items()}
    )
    for caller in (TEACHER, REQUESTER, OPERATOR):
        seen, found = [], page(node, caller)
        while found.more:
            seen += found.jobs
            found = page(node, caller, seen[-1].id)
        seen += found.jobs
        assert len(seen) == 7
        assert {status.id for status in seen} == made
        assert seen == sorted(seen, key=lambda status: status.created_at, reverse=True)
    with pytest.raises(NotFoundError):
        page(node, Caller("requester-2", "requester"), made.pop())


def test_what_is_kept_is_bounded():
    kept = WrittenJobs(most=100)
    for number in range(10):
        kept.keep(str(number), 1, bytes(30))
        kept.keep(str(number), 2, bytes(30))
    assert [number for number in range(10) if kept.get(str(number), 2)] == [7, 8, 9]
    assert kept.get("9", 1) is None


class _Server:
    """One that lists as it likes."""

    name = "s0"
    received = 0

    def __init__(self, *pages: JobList) -> None:
        self.pages, self.asked = pages, []

    async def get(self, path: str, _: type) -> JobList:
        self.asked.append(path)
        return self.pages[min(len(self.asked), len(self.pages)) - 1]


def status(job: str) -> JobStatus:
    return JobStatus(id=job, server="s0", state="open", terms=TERMS, votes=0, created_at=TIME, expires_at=TIME)


def test_clients_follow_the_pages_and_not_for_ever():
    first, second = status(JOB), status("ab" * 16)
    server = _Server(JobList(jobs=[first], more=True), JobList(jobs=[second]))
    assert list(anyio.run(listed, server)) == [first.id, second.id]
    assert server.asked == ["/v1/jobs?after=", f"/v1/jobs?after={first.id}"]
    for endless in (JobList(jobs=[first], more=True), JobList(jobs=[], more=True)):
        with pytest.raises(ServerError, match="without end"):
            anyio.run(listed, _Server(endless))
