"""Two processes a server, killed while votes come in and while a job runs: that costs nothing but another try.

Real processes on real stores: workers that share an address, on SQLite, and replicas behind a balancer, on PostgreSQL.
Whatever was killed when, every vote that was acknowledged counts, the labels are those of the ideal functionality, and
each ledger was charged once. `SEDML_TEST_SEED` plays one again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from support.live_servers import Live, make_kits, on_postgres, settings_of
from support.replicated import Replicas, Workers, killing, leader
from support.server_process import until
from support.tiers import thorough

TEACHERS, SAMPLES = 8, 64
SETTINGS = {"lease": "1s", "link_timeout": "2s", "replicated": True}


@pytest.fixture
def rng() -> random.Random:
    seed = os.environ.get("SEDML_TEST_SEED", str(random.SystemRandom().randrange(10**6)))
    print(f"SEDML_TEST_SEED={seed}")  # noqa: T201 - shown if the test fails
    return random.Random(seed)


@pytest.fixture(params=["workers on sqlite", pytest.param("replicas on postgresql", marks=thorough)])
def live(request: pytest.FixtureRequest, tmp_path: Path, rng: random.Random) -> Iterator[Live]:
    settings = settings_of(**SETTINGS)
    if request.param == "workers on sqlite":
        kind = Workers
    else:
        kind, settings = (
            Replicas,
            on_postgres(settings, request.getfixturevalue("postgres"), f"replicas_{rng.randrange(10**9)}"),
        )
    kits = make_kits(tmp_path / "kits", settings, teachers=TEACHERS, requesters=1)
    made = Live(kits, small_blocks=True)
    made.s0, made.s1 = made.servers = (kind(kits / "s0"), kind(kits / "s1"))
    try:
        made.start()
        yield made
        for server in made.servers:
            server.stop()
        made.check_logs()
    finally:
        for server in made.servers:
            if isinstance(server, Replicas):
                server.close()
            elif server.running:
                server.kill()


@thorough
def test_whoever_is_killed_every_vote_counts_and_the_labels_are_right(live, rng):
    votes = np.array([[rng.randrange(-1, 3) for _ in range(SAMPLES)] for _ in range(TEACHERS)])
    terms = live.create(SAMPLES, min_teachers=TEACHERS)
    with killing(live, rng, 3, 0.3):
        live.vote(terms.id, votes)

    def all_in():
        with suppress(OSError):  # who was killed last may still be starting
            return all(live.status(terms.id, server)["votes"] == TEACHERS for server in live.servers)
        return False

    until(all_in, "all votes are there", 0.05)
    with killing(live, rng, 4, 1.5):
        labels = live.finish(terms.id)
    live.check_labels(terms, votes, labels)
    live.check_charged_once(terms)


@thorough
@pytest.mark.parametrize("live", ["replicas on postgresql"], indirect=True)  # for its time; the other tries both
def test_another_takes_the_place_of_whoever_drives_a_job_and_goes_on_with_it(live, rng):
    votes = np.array([[rng.randrange(-1, 3) for _ in range(SAMPLES)] for _ in range(TEACHERS)])
    terms = live.create(SAMPLES, min_teachers=TEACHERS)
    live.vote(terms.id, votes)
    drove = {server: leader(server) for server in live.servers}
    with ThreadPoolExecutor() as pool:
        result = pool.submit(live.finish, terms.id)
        for server, wanted in zip(rng.sample(live.servers, 2), (rng.randrange(3), 3 + rng.randrange(3)), strict=True):

            def far_enough(server=server, wanted=wanted):
                status = live.status(terms.id, server)
                return status["state"] != "open" and status["blocks_done"] >= wanted

            until(far_enough, f"{wanted} blocks", 0.002)
            assert not result.done()
            server.kill_leader()
        labels = result.result()
    # A job may end without whoever was killed last; its lease runs out all the same.
    until(lambda: all(leader(server) != drove[server] for server in live.servers), "others that drive")
    live.check_labels(terms, votes, labels)
    live.check_charged_once(terms)
