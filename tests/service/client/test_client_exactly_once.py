"""Whatever gets lost, cut, refused, repeated or late between clients and servers: a job comes out as if nothing had.

Clients try again by themselves, and whoever started them starts them again. Afterwards there is one job at both
servers, every ballot counts exactly once, the labels are those of the ideal functionality, and the servers have run
the job once and charged both ledgers once.
"""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sedml.errors import UnreachableError
from support.client_parties import VOTES, Parties
from support.wire import Fail, busy

REQUESTS = {
    "limits": "GET /v1/server",
    "create": "PUT /v1/jobs/[0-9a-f]+$",
    "data": "PUT .*/data",
    "look": "GET /v1/jobs/[0-9a-f]+$",
    "ballot": "PUT .*/ballot",
    "close": "POST .*/close",
    "first labels": "GET .*/labels/0",
    "last labels": "GET .*/labels/2",
}
ROWS = np.array([VOTES[:20], VOTES[:20], VOTES[1:21]])
# Nearly all noise, so that it costs little and there are many jobs to a budget.
TERMS = {"sigma": 20.0, "epsilon": 20.0}

troubles = st.lists(
    st.tuples(st.sampled_from(["s0", "s1"]), st.sampled_from(list(REQUESTS)), st.sampled_from(Fail), st.integers(1, 5)),
    min_size=1,
    max_size=8,
)


class Play:
    """One job from its creation to its labels, by clients that do not give up."""

    def __init__(self, parties, deployed, samples) -> None:
        self.parties, self.deployed = parties, deployed
        before = set(deployed.s0.jobs) | set(deployed.s1.jobs)
        self.job = self.surely(lambda: parties.create(samples, **TERMS)).id
        assert set(deployed.s0.jobs) == set(deployed.s1.jobs) == before | {self.job}
        for number, row in enumerate(ROWS, 1):
            receipt = self.surely(lambda number=number, row=row: parties.teacher(number, "vote", self.job, row))
            assert receipt.complete
        self.labels = self.surely(lambda: parties.requester("run", self.job)).labels

    @staticmethod
    def surely(call):
        for _ in range(20):
            try:
                return call()
            except UnreachableError:
                continue
        raise AssertionError("it never came through")

    def check(self) -> None:
        # What is still under way arrives, and changes nothing.
        view = self.surely(lambda: self.parties.requester("status", self.job))
        assert view.votes == (3, 3)
        assert view.done
        assert self.labels.tolist() == self.deployed.expected(self.job, ROWS).tolist()
        assert self.surely(lambda: self.parties.requester("labels", self.job)).tolist() == self.labels.tolist()
        self.deployed.check_run_once(self.job)
        for server in self.deployed.servers:
            sent = defaultdict(set)
            for seen in server.seen:
                sent[str(seen), seen.headers["Authorization"]].add(seen.body)
            assert all(len(bodies) == 1 for bodies in sent.values()), "a repetition had other bytes"


@pytest.fixture
def samples(tmp_path):
    path = tmp_path / "twenty.npy"
    np.save(path, np.arange(20.0))
    return path


@settings(
    max_examples=settings.default.max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(trouble=troubles)
@example(trouble=[("s0", "close", Fail.LOSE, 5), ("s1", "close", Fail.LATE, 1)])
@example(trouble=[("s0", "data", Fail.CUT_BODY, 5), ("s1", "last labels", Fail.CUT_ANSWER, 5)])
def test_a_job_comes_out_the_same_whatever_goes_wrong_on_the_way(kits, deployed, samples, small_blocks, trouble):
    for server, request, how, times in trouble:
        getattr(deployed, server).fault(REQUESTS[request], how, times)
    try:
        Play(Parties(kits, False), deployed, samples).check()
    finally:
        for server in deployed.servers:
            server.calm()


@pytest.mark.parametrize("how", [*Fail, busy(503)], ids=[*Fail, "503"])
def test_every_request_may_fare_so_once(parties, deployed, samples, small_blocks, how):
    for server in deployed.servers:
        for pattern in REQUESTS.values():
            server.fault(pattern, how)
    Play(parties, deployed, samples).check()
