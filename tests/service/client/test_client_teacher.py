"""Voting: what is checked before, what is sent, and what is said when it did not arrive whole."""

import numpy as np
import pytest

from sedml.errors import (
    InputError,
    JobStateError,
    NotFoundError,
    PrivacyError,
    RateLimitedError,
    ServerError,
    TaskError,
    TermsMismatchError,
    UnreachableError,
)
from sedml.protocol.ballots import add_up, examine
from sedml.protocol.ballots.field import P
from sedml.service.client.samples import fingerprint
from sedml.service.messages import BALLOT_HEADER
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle
from support.client_parties import VOTES, Model
from support.deployment import terms_for
from support.wire import Fail, altered, busy, refuses


def names(server):
    return [seen.headers[BALLOT_HEADER] for seen in server.seen if BALLOT_HEADER in seen.headers]


def test_a_vote_is_acknowledged_by_both_servers(both_ways, deployed, data_file):
    job = both_ways.create(data_file).id
    receipt = both_ways.teacher(1, "vote", job, VOTES)
    assert receipt.complete
    assert (receipt.s0.server, receipt.s1.server) == ("s0", "s1")
    assert receipt == both_ways.teacher(1, "receipt", job)
    assert not both_ways.teacher(2, "receipt", job).complete
    seen = [server.bodies("PUT .*/ballot")[0] for server in deployed.servers]
    # The two halves together, and only they, are the votes.
    shape = deployed.s0.status(job).terms.ballot
    assert tuple(map(len, seen)) == shape.sizes
    kept = [examine(role, half, shape, bytes.fromhex(job), "teacher-001") for role, half in enumerate(seen)]
    assert kept[0].name.hex() == kept[1].name.hex() == receipt.s0.ballot
    shares = [add_up(role, one.pages, shape.page(0)).astype(np.int64) for role, one in enumerate(kept)]
    rows = np.eye(3, dtype=np.int64)[VOTES]
    assert np.array_equal((shares[0] + shares[1]) % P, rows)
    assert not any((share == rows).any() for share in shares)


def test_nothing_but_the_halves_and_a_keyed_name_goes_out(parties, deployed, data_file):
    job = parties.create(data_file).id
    start = [len(server.seen) for server in deployed.servers]
    parties.teacher(1, "vote", job, VOTES)
    look, ballot = f"GET /v1/jobs/{job}", f"PUT /v1/jobs/{job}/ballot"
    # With the first vote of a kit come the keys of the logs, which any of the two may show.
    for server, begun in zip(deployed.servers, start, strict=True):
        asked = [str(seen) for seen in server.seen[begun:]]
        assert [one for one in asked if one != "GET /v1/log/checkpoint"] == [look, ballot]
    # The same votes of another teacher have another name: nobody can find votes out by trying them.
    parties.teacher(2, "vote", job, VOTES)
    found = names(deployed.s0)[-2:]
    assert found[0] != found[1]
    assert names(deployed.s1)[-2:] == found


@pytest.mark.parametrize("server", ["s0", "s1"])
def test_an_answer_that_is_lost_costs_nothing_and_sends_the_same_bytes(parties, deployed, data_file, server):
    job = parties.create(data_file).id
    getattr(deployed, server).fault("PUT .*/ballot", Fail.LOSE, times=2)
    assert parties.teacher(1, "vote", job, VOTES).complete
    bodies = getattr(deployed, server).bodies("PUT .*/ballot")
    assert len(bodies) == 3
    assert len(set(bodies)) == 1


def test_voting_again_sends_the_same_bytes_and_is_the_same_vote(both_ways, deployed, data_file):
    job = both_ways.create(data_file).id
    first = both_ways.teacher(1, "vote", job, VOTES)
    assert both_ways.teacher(1, "vote", job, VOTES.tolist()) == first
    for server in deployed.servers:
        bodies = server.bodies("PUT .*/ballot")
        assert len(bodies) == 2
        assert bodies[0] == bodies[1]
    for server in deployed.servers:
        server.close(job)
    assert both_ways.teacher(1, "vote", job, VOTES) == first


def test_other_votes_make_another_ballot_altogether(parties, deployed, data_file):
    job, other = (parties.create(data_file).id for _ in range(2))
    deployed.s1.fault("PUT .*/ballot", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.teacher(1, "vote", job, VOTES)
    nearly = VOTES.copy()
    nearly[7] = 2
    parties.teacher(1, "vote", job, nearly)
    parties.teacher(1, "vote", other, VOTES)
    for server, ballots in zip(deployed.servers, (2, 3), strict=True):
        assert len(set(server.bodies("PUT .*/ballot"))) == len(set(names(server))) == ballots


def test_a_server_that_stays_away_is_named_and_a_repetition_heals_it(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s0.fault("PUT .*/ballot", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError) as caught:
        parties.teacher(1, "vote", job, VOTES)
    assert "S0 at https://s0.example:8440" in caught.value.what
    assert "S1 has its half" in caught.value.what
    assert parties.teacher(1, "vote", job, VOTES).complete
    assert len(set(deployed.s1.bodies("PUT .*/ballot"))) == 1


@pytest.mark.parametrize(("status", "after"), [(429, "3"), (429, None), (503, None), (502, None), (503, "soon")])
def test_a_busy_server_is_asked_again(parties, deployed, data_file, status, after):
    job = parties.create(data_file).id
    deployed.s0.fault("PUT .*/ballot", busy(status, after), times=3)
    assert parties.teacher(1, "vote", job, VOTES).complete
    assert len(deployed.s0.bodies("PUT .*/ballot")) == 4


def test_a_server_that_stays_busy_is_given_up(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s0.fault("PUT .*/ballot", refuses(RateLimitedError("Too many requests.", "Wait.")), times=9)
    with pytest.raises(RateLimitedError, match="Too many requests"):
        parties.teacher(1, "vote", job, VOTES)
    assert len(deployed.s0.bodies("PUT .*/ballot")) == 4


def test_terms_that_differ_between_the_servers_are_refused(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s1.fault("GET /v1/jobs/", altered(terms={"sigma": 99.0}))
    with pytest.raises(TermsMismatchError, match="S1"):
        parties.teacher(1, "vote", job, model=Model())
    assert not any(server.bodies("PUT .*/ballot") for server in deployed.servers)


def test_terms_under_another_id_are_refused_though_both_servers_agree(parties, deployed, data_file):
    job = parties.create(data_file).id
    for server in deployed.servers:
        server.fault("GET /v1/jobs/", altered(terms={"epsilon": 1.0}))
    with pytest.raises(TermsMismatchError, match="S0"):
        parties.teacher(1, "vote", job, VOTES)


def test_a_job_that_costs_too_much_is_refused_before_anything_is_sent(parties, deployed, data_file):
    job = parties.create(data_file).id
    with pytest.raises(PrivacyError, match=r"30 .*more than 2"):
        parties.teacher(1, "vote", job, VOTES, max_epsilon=2.0)
    assert parties.teacher(1, "vote", job, VOTES, max_epsilon=30.0).complete


def test_a_teacher_reckons_for_itself_what_a_job_costs(parties, deployed, data_file, monkeypatch):
    """Both servers and the requester together cannot sell noise that is too small."""
    size, digest = fingerprint(data_file)
    terms = terms_for(50, sigma=1.0, epsilon=1.0, min_teachers=3, data_bytes=size, data_sha256=digest)
    monkeypatch.setattr(lifecycle, "_check_new", lambda *_: None)
    for server in deployed.servers:
        lifecycle.create(server.node, Caller("requester-1", "requester"), terms.id, terms)
    with pytest.raises(TaskError, match="promise"):
        parties.teacher(1, "vote", terms.id, VOTES)


def test_a_job_that_is_closed_at_one_server_gets_no_half_vote(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s1.close(job)
    with pytest.raises(JobStateError, match=r"closed at S1.* Nothing was sent"):
        parties.teacher(1, "vote", job, model=Model())
    assert not any(server.bodies("PUT .*/ballot") for server in deployed.servers)
    with pytest.raises(JobStateError, match=r"closed at S1.* Nothing was sent"):
        parties.teacher(1, "vote", job, VOTES)
    assert not any(server.bodies("PUT .*/ballot") for server in deployed.servers)


def test_a_wrong_acknowledgement_is_noticed(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s1.fault("PUT .*/ballot", altered(teacher="teacher-002"))
    with pytest.raises(ServerError, match="S1 acknowledge"):
        parties.teacher(1, "vote", job, VOTES)


def test_a_teacher_without_a_vote_or_with_two_is_told_so(parties, deployed, data_file):
    with pytest.raises(InputError):
        parties.teacher(1, "vote", "0" * 32)
    with pytest.raises(InputError):
        parties.teacher(1, "vote", "0" * 32, VOTES, model=Model())
    with pytest.raises(InputError, match="'nonsense' is no"):
        parties.teacher(1, "vote", "nonsense", VOTES)
    with pytest.raises(NotFoundError):
        parties.teacher(1, "vote", "0" * 32, VOTES)
