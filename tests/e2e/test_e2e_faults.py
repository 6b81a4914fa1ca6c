"""Servers that are killed, and a link that is cut: no acknowledged vote is lost, nothing is charged twice."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import numpy as np
import pytest
import sqlalchemy as sa

from sedml.errors import SedmlError, UnreachableError
from sedml.service.client import AsyncTeacher
from sedml.service.server.storage.tables import ballots
from sedml.service.terms import Terms
from support.cut_link import Wire
from support.live_servers import Live, deployed, on_postgres, settings_of
from support.postgres_server import Postgres
from support.server_process import Server, free_ports, until

TEACHERS, SAMPLES, BLOCKS = 6, 128, 16


Faulty = tuple[Live, Wire]


def faulty_servers(kits: Path, change: Callable[[dict], dict] = lambda settings: settings) -> Iterator[Faulty]:
    """Two servers with a wire of ours between them, whose jobs have blocks of 8 samples."""
    wire_port = free_ports(1)[0]
    settings = settings_of(link_timeout="2s")
    settings["s1"]["link_port"] = wire_port
    for live in deployed(kits, change(settings), small_blocks=True):
        wire = Wire(wire_port, live.s0.kit.link_port)
        try:
            yield live, wire
        finally:
            wire.close()


@pytest.fixture(scope="module")
def on_sqlite(place: Path) -> Iterator[Faulty]:
    yield from faulty_servers(place / "faulty-sqlite")


@pytest.fixture(scope="module")
def on_postgresql(place: Path, postgres: Postgres) -> Iterator[Faulty]:
    yield from faulty_servers(place / "faulty-postgresql", lambda values: on_postgres(values, postgres, "faults"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the requester too, who fetches the labels of each."""
    monkeypatch.setattr("sedml.protocol.task._BLOCK_TRANSFERS", 8)


@pytest.fixture
def rng() -> random.Random:
    seed = os.environ.get("SEDML_TEST_SEED", str(random.SystemRandom().randrange(10**6)))
    print(f"SEDML_TEST_SEED={seed}")  # noqa: T201 - shown if the test fails
    return random.Random(seed)


@pytest.mark.parametrize(("database", "victims"), [("sqlite", (0, 1, 0)), ("postgresql", (1, None, 1))])
def test_killed_while_votes_come_in_while_the_servers_agree_and_while_it_runs(request, rng, database, victims):
    live, _ = request.getfixturevalue(f"on_{database}")
    voting, agreeing, running = (None if role is None else live.servers[role] for role in victims)
    votes = np.array([[rng.randrange(-1, 3) for _ in range(SAMPLES)] for _ in range(TEACHERS)])
    terms = live.create(SAMPLES, min_teachers=1)

    acknowledged = vote_while_killed(live, terms, votes, voting, rng.uniform(0.0, 0.2))
    voting.restart()
    for number in set(range(1, TEACHERS + 1)) - acknowledged:
        if rng.random() < 0.7:  # the others do not come back
            live.vote(terms.id, votes[number - 1 : number], first=number)
            acknowledged.add(number)

    with ThreadPoolExecutor() as pool:
        result = pool.submit(finish_whatever_happens, live, terms)
        if agreeing is not None:
            until(lambda: live.status(terms.id, agreeing)["state"] != "open", "the vote is closed", 0.002)
            time.sleep(rng.uniform(0.0, 0.3))  # on the roster, or on what their randomness comes from
            agreeing.kill()
            agreeing.restart()
        wanted = rng.randrange(1, BLOCKS - 4)
        until(
            lambda: result.done() or live.status(terms.id, running)["blocks_done"] >= wanted, f"{wanted} blocks", 0.002
        )
        running.kill()
        assert not result.done()
        running.restart()
        labels = result.result()

    seated = who_counts(live, terms)
    assert acknowledged <= set(seated)
    live.check_labels(terms, votes[[number - 1 for number in seated]], labels)
    live.check_charged_once(terms, labels)
    live.check_logs()


def vote_while_killed(live: Live, terms: Terms, votes: np.ndarray, victim: Server, delay: float) -> set[int]:
    """All vote at once and try only once; which of them were told that their vote counts."""
    acknowledged: set[int] = set()

    async def vote(number: int, row: np.ndarray) -> None:
        try:
            receipt = await AsyncTeacher(live.kits / f"teacher-{number:03}", patience=0).vote(terms.id, row)
        except SedmlError:
            return
        if receipt.complete:
            acknowledged.add(number)

    async def all_of_them() -> None:
        async with anyio.create_task_group() as group:
            for number, row in enumerate(votes, 1):
                group.start_soon(vote, number, row)

    timer = threading.Timer(delay, victim.kill)
    timer.start()
    anyio.run(all_of_them)
    timer.join()
    return acknowledged


def finish_whatever_happens(live: Live, terms: Terms) -> np.ndarray:
    """The requester starts it again whenever a server is not there, and it goes on from where it was."""
    while True:
        try:
            return live.finish(terms.id, patience=0)
        except UnreachableError:
            time.sleep(0.05)


def who_counts(live: Live, terms: Terms) -> list[int]:
    """The numbers of the teachers on the roster, by seat; the same at both servers."""
    query = sa.select(ballots.c.teacher).where(ballots.c.job == terms.id, ballots.c.seat.is_not(None))
    found = []
    with live.stores() as nodes:
        for node in nodes:
            with node.store.read() as connection:
                names = connection.execute(query.order_by(ballots.c.seat)).scalars().all()
            found.append([int(name.removeprefix("teacher-")) for name in names])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("how", ["cut", "stop_up"])
def test_a_link_that_is_cut_or_goes_silent_stops_a_job_and_does_not_end_it(on_sqlite, rng, how):
    live, wire = on_sqlite
    votes = np.array([[rng.randrange(-1, 3) for _ in range(SAMPLES)] for _ in range(TEACHERS)])
    terms, other = live.create(SAMPLES), live.create(SAMPLES)
    live.vote(terms.id, votes)
    with ThreadPoolExecutor() as pool:
        result = pool.submit(live.finish, terms.id)
        until(lambda: live.status(terms.id, live.s1)["blocks_done"] >= 2, "two blocks", 0.002)
        try:
            getattr(wire, how)()
            for server in live.servers:
                status = until(lambda server=server: stopped(live, terms, server), "the servers notice")
                assert status["state"] == "running"
                assert status["problem"]["type"] in {"urn:sedml:peer-gone", "urn:sedml:peer-timeout"}
            done = [live.status(terms.id, server)["blocks_done"] for server in live.servers]
            assert max(done) < BLOCKS
            # Whoever does not need the link is served as before.
            live.vote(other.id, votes)
            assert [live.status(terms.id, server)["blocks_done"] for server in live.servers] == done
            assert not result.done()
        finally:
            wire.mend()
        labels = result.result()
    live.check_labels(terms, votes, labels)
    live.check_charged_once(terms, labels)
    for server in live.servers:
        assert live.status(terms.id, server)["problem"] is None
    live.check_logs()


def stopped(live: Live, terms: Terms, server: Server):
    status = live.status(terms.id, server)
    return status if status["problem"] is not None else None
