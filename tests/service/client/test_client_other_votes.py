"""Teachers with an earlier vote on record, or half of one: what could not count is not sent, and they are told why."""

import re

import numpy as np
import pandas as pd
import pytest

from sedml.errors import ConflictError, InputError, JobStateError, UnreachableError
from sedml.service.client.teacher import _fill_in
from sedml.service.kits import ClientKit
from support.client_parties import VOTES, Job, Parties
from support.wire import Fail, Meanwhile, altered

OTHER, THIRD = (VOTES + 1) % 3, (VOTES + 2) % 3


def sent(deployed):
    """Ballots that went to each server."""
    return [len(server.bodies("PUT .*/ballot")) for server in deployed.servers]


def leave_half(parties, deployed, job, votes, missing):
    """A vote that arrives at one server only: at S1, which gets its half first, or from another client at S0."""
    if missing == "s0":
        deployed.s0.fault("PUT .*/ballot", Fail.REFUSE, times=4)
        with pytest.raises(UnreachableError, match=r"S0 did not take the ballot.* S1 has its half"):
            parties.teacher(1, "vote", job, votes)
    else:
        kit = ClientKit.load(parties.kits / "teacher-001")
        ballot = _fill_in(kit.secret, kit.name, deployed.s0.status(job).terms, np.atleast_2d(votes))
        deployed.s0.take_ballot(job, kit.name, ballot)


@pytest.mark.parametrize("shape", ["series", "columns"])
def test_a_frame_that_names_the_samples_is_not_taken_by_position(parties, deployed, tmp_path, shape):
    names = [f"img-{number}" for number in range(50)]
    np.savez(tmp_path / "named.npz", x=np.zeros((50, 2), np.float32), ids=np.array(names))
    job = parties.create(tmp_path / "named.npz").id
    votes = pd.Series(VOTES, index=names)
    as_frame = {"series": lambda one: one, "columns": lambda one: one.to_frame().T}[shape]
    with pytest.raises(InputError, match="not all of them in their order"):
        parties.teacher(1, "vote", job, as_frame(votes.sample(frac=1, random_state=1)))
    with pytest.raises(InputError, match="not all of them in their order"):
        parties.teacher(1, "vote", job, as_frame(votes.rename({"img-7": "img-9999"})))
    assert parties.teacher(1, "vote", job, as_frame(votes)).complete
    assert parties.teacher(2, "vote", job, as_frame(votes.reset_index(drop=True))).complete


def test_an_earlier_vote_that_both_servers_have_stands(both_ways, deployed, data_file):
    job = both_ways.create(data_file).id
    first = both_ways.teacher(1, "vote", job, OTHER)
    with pytest.raises(ConflictError, match="on record at both servers") as caught:
        both_ways.teacher(1, "vote", job, VOTES)
    assert re.search("counts.* stands.* [Nn]othing was sent", caught.value.do)
    assert sent(deployed) == [1, 1]
    assert both_ways.teacher(1, "receipt", job) == first


@pytest.mark.parametrize(("has", "lacks"), [("s0", "s1"), ("s1", "s0")])
def test_half_of_an_earlier_vote_is_completed_by_the_same_votes_and_by_no_others(
    parties, deployed, data_file, has, lacks
):
    job = Job(parties, data_file, teachers=0)
    leave_half(parties, deployed, job.id, OTHER, lacks)
    at_s0, at_s1 = sent(deployed)
    with pytest.raises(ConflictError) as caught:
        parties.teacher(1, "vote", job.id, VOTES)
    assert f"Half of an earlier vote of yours, with other predictions, is on record at {has.upper()}." in str(
        caught.value
    )
    assert re.search("those predictions again to complete it.* Nothing was sent", caught.value.do)
    assert sent(deployed) == [at_s0, at_s1]
    assert deployed.s0.status(job.id).votes + deployed.s1.status(job.id).votes == 1
    assert parties.teacher(1, "vote", job.id, OTHER).complete
    for number in (2, 3):
        parties.teacher(number, "vote", job.id, VOTES)
    labels = parties.requester("run", job.id).labels
    assert labels.tolist() == deployed.expected(job.id, np.array([OTHER, VOTES, VOTES])).tolist()


@pytest.mark.parametrize("lacks", ["s0", "s1"])
def test_the_same_vote_at_one_server_only_is_completed_with_the_same_bytes(both_ways, deployed, data_file, lacks):
    job = both_ways.create(data_file).id
    leave_half(both_ways, deployed, job, VOTES, lacks)
    assert not both_ways.teacher(1, "receipt", job).complete
    assert both_ways.teacher(1, "vote", job, VOTES).complete
    for server in deployed.servers:
        assert len(set(server.bodies("PUT .*/ballot"))) == 1
        assert server.status(job).votes == 1


def test_halves_of_two_different_votes_are_not_said_to_become_one(parties, deployed, data_file):
    """Two machines of one teacher at once: whatever it votes now, the halves will never fit."""
    job = parties.create(data_file).id
    leave_half(parties, deployed, job, OTHER, "s1")
    # The second machine has looked before that.
    deployed.s0.fault("GET /v1/jobs/", altered(ballot=None))
    with pytest.raises(ConflictError, match="S1 has its half"):
        parties.teacher(1, "vote", job, THIRD)
    at_s0, at_s1 = sent(deployed)
    for votes in (VOTES, OTHER, THIRD):
        with pytest.raises(ConflictError, match="Halves of two different votes") as caught:
            parties.teacher(1, "vote", job, votes)
        assert "to complete it" not in caught.value.do
    assert sent(deployed) == [at_s0, at_s1]
    assert not parties.teacher(1, "receipt", job).complete


def test_half_a_vote_cannot_be_completed_once_the_other_server_is_closed(parties, deployed, data_file):
    job = parties.create(data_file).id
    leave_half(parties, deployed, job, VOTES, "s1")
    before = sent(deployed)
    deployed.linked = False
    for server in deployed.servers:
        server.close(job)
    with pytest.raises(JobStateError, match="closed at S1"):
        parties.teacher(1, "vote", job, VOTES)
    assert sent(deployed) == before


# ---- What happens while a ballot is on its way -------------------------------------------------------


def test_another_vote_that_was_faster_at_both_servers_counts(kits, parties, deployed, data_file):
    job = parties.create(data_file).id
    elsewhere = Parties(kits, True)
    deployed.s1.fault("PUT .*/ballot", Meanwhile(lambda: elsewhere.teacher(1, "vote", job, OTHER)))
    with pytest.raises(ConflictError, match="on record at both servers") as caught:
        parties.teacher(1, "vote", job, VOTES)
    assert re.search("counts.* stands.* [Tt]his one was not taken", caught.value.do)
    assert elsewhere.teacher(1, "vote", job, OTHER).complete


def test_of_two_votes_at_once_one_counts_whichever_server_is_slow(kits, parties, deployed, data_file):
    """Before S0 gets its half of the first vote, another one is cast: S1 has taken the first, so that is the one."""
    job = parties.create(data_file).id
    elsewhere = Parties(kits, True)

    def vote_too():
        with pytest.raises(ConflictError, match="on record at S1"):
            elsewhere.teacher(1, "vote", job, OTHER)

    deployed.s0.fault("PUT .*/ballot", Meanwhile(vote_too))
    assert parties.teacher(1, "vote", job, VOTES).complete
    assert sent(deployed) == [1, 1]


def test_another_vote_that_was_faster_at_s1_can_still_be_completed(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s1.fault("PUT .*/ballot", Meanwhile(lambda: deployed.s1.take_ballot(job, "teacher-001")))
    with pytest.raises(ConflictError, match=r"Half of an earlier vote .* at S1") as caught:
        parties.teacher(1, "vote", job, VOTES)
    assert "to complete it. This one was not taken" in caught.value.do
    assert sent(deployed) == [0, 1]


def test_another_vote_that_was_faster_at_s0_leaves_none_that_counts(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s0.fault("PUT .*/ballot", Meanwhile(lambda: deployed.s0.take_ballot(job, "teacher-001")))
    with pytest.raises(ConflictError) as caught:
        parties.teacher(1, "vote", job, VOTES)
    assert "S0 did not take the ballot" in caught.value.what
    assert "S1 has its half" in caught.value.what
    assert "does not count unless both servers have the same ballot" in caught.value.do
    assert not parties.teacher(1, "receipt", job).complete


def test_a_server_that_cannot_be_reached_leaves_no_half_at_the_other(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s1.fault("PUT .*/ballot", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError, match="S0 was sent nothing"):
        parties.teacher(1, "vote", job, VOTES)
    assert [server.status(job).votes for server in deployed.servers] == [0, 0]
    assert parties.teacher(1, "vote", job, VOTES).complete


def test_a_ballot_that_arrives_at_one_server_after_the_vote_is_not_counted(parties, deployed, data_file):
    job = Job(parties, data_file, teachers=3)
    deployed.s0.fault("PUT .*/ballot", Meanwhile(lambda: deployed.s0.close(job.id)))
    with pytest.raises(JobStateError, match="S0 did not take the ballot") as caught:
        parties.teacher(4, "vote", job.id, OTHER)
    assert "S1 has its half" in caught.value.what
    result = parties.requester("run", job.id)
    assert (result.job.teachers, result.job.votes) == (3, (3, 4))
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()


def test_a_vote_that_ended_at_s1_on_the_way_there_leaves_no_half(parties, deployed, data_file):
    job = Job(parties, data_file, teachers=3)
    deployed.s1.fault("PUT .*/ballot", Meanwhile(lambda: deployed.s1.close(job.id)))
    with pytest.raises(JobStateError, match=r"S1 did not take the ballot.* closed.* S0 was sent nothing"):
        parties.teacher(4, "vote", job.id, OTHER)
    assert parties.requester("run", job.id).job.votes == (3, 3)
