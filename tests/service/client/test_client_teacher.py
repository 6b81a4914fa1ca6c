"""Voting: what is checked before, what is sent, and what is said when it did not arrive whole."""

import httpx2
import numpy as np
import pytest

from sedml.errors import (
    ConflictError,
    FileFormatError,
    InputError,
    JobStateError,
    NotFoundError,
    PredictionsError,
    PrivacyError,
    RateLimitedError,
    ServerError,
    TaskError,
    TermsMismatchError,
    UnreachableError,
)
from sedml.mpc.bits import unpack
from sedml.protocol.ballots import index_shares
from sedml.service.client.predicting import one_row
from sedml.service.client.samples import fingerprint
from sedml.service.messages import SUBMISSION_HEADER
from sedml.service.problems import problem_of
from sedml.service.states import JobState
from sedml.service.terms import Terms, task_of
from support.fake_servers import busy

VOTES = np.arange(50) % 3


class Model:
    """Knows the class from the first column."""

    def __init__(self, **answers) -> None:
        self.batches = []
        self.answers = answers

    def predict(self, samples):
        self.batches.append(len(samples))
        return samples[:, 0]


def submissions(server):
    return [seen.headers[SUBMISSION_HEADER] for seen in server.seen if SUBMISSION_HEADER in seen.headers]


def test_a_vote_is_acknowledged_by_both_servers(both_ways, deployed, data_file):
    job = both_ways.create(data_file).id
    receipt = both_ways.teacher(1, "vote", job, VOTES)
    assert receipt.complete
    assert (receipt.s0.server, receipt.s1.server) == ("s0", "s1")
    assert receipt == both_ways.teacher(1, "receipt", job)
    assert not both_ways.teacher(2, "receipt", job).complete
    seen = [server.jobs[job].ballots["teacher-001"][1] for server in deployed.servers]
    assert len(seen[0]) == 32
    # The two halves together, and only they, are the votes.
    task = task_of(deployed.s0.jobs[job].terms, 1, "")
    block = next(task.blocks)
    shares = [index_shares(role, [half], task, block) for role, half in enumerate(seen)]
    assert ((shares[0] + shares[1]) % 4 == VOTES).all()
    assert not np.array_equal(unpack(np.frombuffer(seen[1], np.uint8), 2, 50), VOTES)


def test_nothing_but_the_halves_and_a_keyed_name_goes_out(parties, deployed, data_file):
    job = parties.create(data_file).id
    start = [len(server.seen) for server in deployed.servers]
    parties.teacher(1, "vote", job, VOTES)
    for server, begun in zip(deployed.servers, start, strict=True):
        assert [str(seen) for seen in server.seen[begun:]] == [f"GET /v1/jobs/{job}", f"PUT /v1/jobs/{job}/ballot"]
    # The same votes of another teacher have another name: nobody can find votes out by trying them.
    parties.teacher(2, "vote", job, VOTES)
    names = submissions(deployed.s0)[-2:]
    assert names[0] != names[1]
    assert submissions(deployed.s1)[-2:] == names


@pytest.mark.parametrize("server", ["s0", "s1"])
def test_an_answer_that_is_lost_costs_nothing_and_sends_the_same_bytes(parties, deployed, data_file, server):
    job = parties.create(data_file).id
    getattr(deployed, server).fault("PUT .*/ballot", "lose", times=2)
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
    for other in deployed.servers:
        other.jobs[job].state = JobState.CLOSED
    assert both_ways.teacher(1, "vote", job, VOTES) == first


def test_other_votes_make_another_ballot_altogether(parties, deployed, data_file):
    jobs = [parties.create(data_file).id for _ in range(2)]
    for job in jobs:
        parties.teacher(1, "vote", job, VOTES)
    changed = VOTES.copy()
    changed[7] = 2
    with pytest.raises(ConflictError):
        parties.teacher(1, "vote", jobs[0], changed)
    for server in deployed.servers:
        assert len(set(server.bodies("PUT .*/ballot"))) == 3


def test_a_conflict_says_that_the_vote_does_not_count(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s1.jobs[job].ballots["teacher-001"] = ("0" * 32, b"other")
    with pytest.raises(ConflictError) as caught:
        parties.teacher(1, "vote", job, VOTES)
    assert "S1 did not take the ballot" in caught.value.what
    assert "S0 has its half" in caught.value.what
    assert "does not count unless both servers have the same submission" in caught.value.do


def test_other_votes_than_those_on_record_change_nothing_and_the_earlier_ones_count(parties, deployed, data_file):
    job = parties.create(data_file).id
    first = parties.teacher(1, "vote", job, VOTES)
    with pytest.raises(ConflictError, match="earlier vote") as caught:
        parties.teacher(1, "vote", job, VOTES[::-1])
    assert "That one counts" in caught.value.do
    assert parties.teacher(1, "receipt", job) == first


def test_a_server_that_stays_away_is_named_and_a_repetition_heals_it(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s0.fault("PUT .*/ballot", "refuse", times=4)
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
    problem = problem_of(RateLimitedError("Too many requests.", "Wait."))
    deployed.s0.fault("PUT .*/ballot", httpx2.Response(429, content=problem.model_dump_json()), times=9)
    with pytest.raises(RateLimitedError, match="Too many requests"):
        parties.teacher(1, "vote", job, VOTES)
    assert len(deployed.s0.bodies("PUT .*/ballot")) == 4


def test_terms_that_differ_between_the_servers_are_refused(parties, deployed, data_file):
    job = parties.create(data_file).id
    terms = deployed.s1.jobs[job].terms
    deployed.s1.jobs[job].terms = terms.model_copy(update={"sigma1": terms.sigma1 * 2})
    with pytest.raises(TermsMismatchError, match="S1"):
        parties.teacher(1, "vote", job, VOTES)
    assert not any(server.bodies("PUT .*/ballot") for server in deployed.servers)


def test_terms_under_another_id_are_refused_though_both_servers_agree(parties, deployed, data_file):
    job = parties.create(data_file).id
    for server in deployed.servers:
        terms = server.jobs[job].terms
        server.jobs[job].terms = terms.model_copy(update={"epsilon": 1.0})
    with pytest.raises(TermsMismatchError, match="S0"):
        parties.teacher(1, "vote", job, VOTES)


def test_a_job_that_costs_too_much_is_refused_before_anything_is_sent(parties, deployed, data_file):
    job = parties.create(data_file).id
    with pytest.raises(PrivacyError, match=r"30 .*more than 2"):
        parties.teacher(1, "vote", job, VOTES, max_epsilon=2.0)
    assert parties.teacher(1, "vote", job, VOTES, max_epsilon=30.0).complete


def test_a_teacher_reckons_for_itself_what_a_job_costs(parties, deployed, data_file):
    """Both servers and the requester together cannot sell noise that is too small."""
    size, digest = fingerprint(data_file)
    terms = Terms(
        requester="requester-1",
        classes=3,
        samples=50,
        threshold="0.5",
        sigma1=1.0,
        sigma2=1.0,
        epsilon=1.0,
        delta=1e-5,
        min_teachers=3,
        deadline=4_000_000_000,
        data_bytes=size,
        data_sha256=digest,
    )
    parties.create(data_file)
    for server in deployed.servers:
        job = next(iter(server.jobs.values()))
        job.terms = terms
        server.jobs[terms.id] = job
    with pytest.raises(TaskError, match="promise"):
        parties.teacher(1, "vote", terms.id, VOTES)


def test_a_job_that_is_closed_at_one_server_gets_no_half_vote(parties, deployed, data_file):
    job = parties.create(data_file).id
    deployed.s1.jobs[job].state = JobState.CLOSED
    with pytest.raises(JobStateError, match="closed at S1"):
        parties.teacher(1, "vote", job, VOTES)
    assert not deployed.s0.bodies("PUT .*/ballot")


def test_a_wrong_acknowledgement_is_noticed(parties, deployed, data_file):
    job = parties.create(data_file).id

    def other(response):
        return httpx2.Response(200, content=response.content.replace(b"teacher-001", b"teacher-002"))

    deployed.s1.fault("PUT .*/ballot", other)
    with pytest.raises(ServerError, match="another ballot"):
        parties.teacher(1, "vote", job, VOTES)


def test_a_teacher_without_a_vote_or_with_two_is_told_so(parties, deployed, data_file):
    with pytest.raises(InputError):
        parties.teacher(1, "vote", "0" * 32)
    with pytest.raises(InputError):
        parties.teacher(1, "vote", "0" * 32, VOTES, model=Model())
    with pytest.raises(InputError, match="no job's id"):
        parties.teacher(1, "vote", "nonsense", VOTES)
    with pytest.raises(NotFoundError):
        parties.teacher(1, "vote", "0" * 32, VOTES)


# ---- Models and predictions --------------------------------------------------------------------------


def test_a_model_is_shown_the_samples_of_the_job_in_batches(both_ways, deployed, data_file, monkeypatch):
    monkeypatch.setattr("sedml.service.client.predicting._BATCH", 20)
    job = both_ways.create(data_file).id
    model, told = Model(), []
    both_ways.teacher(1, "vote", job, model=model, progress=lambda *step: told.append(step))
    assert model.batches == [20, 20, 10]
    assert ("predicting", 40, 50) in told
    assert told[-1] == ("predicting", 50, 50)
    ballot = deployed.s1.jobs[job].ballots["teacher-001"]
    both_ways.teacher(1, "vote", job, VOTES)
    assert deployed.s1.jobs[job].ballots["teacher-001"] == ballot


def test_data_at_hand_are_not_downloaded_but_checked(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    parties.teacher(1, "vote", job, model=Model(), data=data_file)
    parties.teacher(2, "vote", job, model=Model(), data=np.column_stack([VOTES, VOTES]))
    assert not any(server.bodies("GET .*/data") for server in deployed.servers)
    other = tmp_path / "other.npy"
    np.save(other, np.zeros((50, 2)))
    with pytest.raises(FileFormatError, match="not the data of this job"):
        parties.teacher(3, "vote", job, model=Model(), data=other)
    with pytest.raises(PredictionsError, match="49 samples"):
        parties.teacher(3, "vote", job, model=Model(), data=np.zeros((49, 2)))


def test_a_model_with_probabilities_only_votes_for_its_own_classes(parties, deployed, data_file):
    class Scores:
        classes_ = np.array([0, 2])

        def predict_proba(self, samples):
            return np.column_stack([samples[:, 0] != 2, samples[:, 0] == 2])

    job = parties.create(data_file).id
    parties.teacher(1, "vote", job, model=Scores())
    by_model = deployed.s1.jobs[job].ballots["teacher-001"]
    parties.teacher(1, "vote", job, np.where(VOTES == 2, 2, 0))
    assert deployed.s1.jobs[job].ballots["teacher-001"] == by_model


class Broken:
    def predict(self, samples):
        raise RuntimeError("secret 17")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Broken(), "fails on samples 0 to 49"),
        (type("Short", (), {"predict": lambda _, x: x[1:, 0]})(), "shape"),
        (object(), "can predict nothing"),
        (type("Far", (), {"predict": lambda _, x: x[:, 1]})(), "out of range"),
    ],
    ids=["fails", "too few", "no model", "out of range"],
)
def test_a_model_that_does_not_fit_is_explained(parties, deployed, data_file, model, text):
    job = parties.create(data_file).id
    with pytest.raises(PredictionsError, match=text) as caught:
        parties.teacher(1, "vote", job, model=model)
    assert "17" not in str(caught.value)
    assert not any(server.bodies("PUT .*/ballot") for server in deployed.servers)


TERMS = Terms(
    requester="r",
    classes=3,
    samples=2,
    threshold="1",
    sigma1=1.0,
    sigma2=1.0,
    epsilon=1.0,
    delta=0.1,
    min_teachers=1,
    deadline=1,
    data_bytes=1,
    data_sha256="0" * 64,
)


@pytest.mark.parametrize(
    ("predictions", "samples"),
    [
        ([2, 0], 2),
        ([[2, 0]], 2),
        (np.array([2.0, 0.0]), 2),
        ([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]], 2),
        ([[[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]], 2),
        ([2], 1),
        ([[2]], 1),
        ([[0, 0, 1]], 1),
        ([[[0, 0, 1]]], 1),
    ],
)
def test_predictions_of_one_teacher_in_any_form(predictions, samples):
    terms = TERMS.model_copy(update={"samples": samples})
    assert one_row(predictions, terms).tolist() == [2, 0][:samples]


@pytest.mark.parametrize(
    "predictions",
    [
        [0],
        [0, 1, 2],
        [[0, 1], [0, 1], [0, 1]],
        [[0, 1], [1]],
        [[[0, 1, 0], [1, 0, 0]], [[0, 1, 0], [1, 0, 0]]],
        3,
        "ab",
        np.ma.array([1, 2], mask=[0, 1]),
        [7, 0],
    ],
)
def test_predictions_that_do_not_fit_are_refused_without_being_quoted(predictions):
    with pytest.raises(PredictionsError) as caught:
        one_row(predictions, TERMS)
    assert "7" not in str(caught.value)


# ---- The data of a job -------------------------------------------------------------------------------


def test_the_samples_can_be_fetched_as_bytes_to_a_file_or_into_a_folder(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    content = data_file.read_bytes()
    assert parties.teacher(1, "fetch", job) == content
    to = tmp_path / "here"
    to.mkdir()
    assert parties.teacher(1, "fetch", job, to).read_bytes() == content
    assert [path.name for path in to.iterdir()] == [f"{job}.npz"]
    file = tmp_path / "samples.bin"
    assert parties.teacher(1, "fetch", job, file) == file
    assert file.read_bytes() == content


def _first(deployed):
    return next(server for server in deployed.servers if server.bodies("GET .*/data"))


def test_corrupted_data_are_fetched_from_the_other_server_and_never_used(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    content = data_file.read_bytes()
    for bad in (content[:-1] + b"x", content[:-1], content + b"x" * (1 << 20)):
        for server in deployed.servers:
            server.fault("GET .*/data", httpx2.Response(200, content=bad))
        with pytest.raises(ServerError, match="not those of the job's terms"):
            parties.teacher(1, "fetch", job, tmp_path / "samples.npz")
        assert not (tmp_path / "samples.npz").exists()
        assert not list(tmp_path.glob(".*.tmp"))
    first = _first(deployed)
    first.fault("GET .*/data", httpx2.Response(200, content=b"nonsense"))
    assert parties.teacher(1, "fetch", job) == content


def test_a_download_that_breaks_off_is_begun_again(parties, deployed, data_file):
    job = parties.create(data_file).id
    for server in deployed.servers:
        server.fault("GET .*/data", "lose", times=2)
    assert parties.teacher(1, "fetch", job) == data_file.read_bytes()


def test_a_place_that_cannot_be_written_is_explained(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    with pytest.raises(FileFormatError, match="cannot be written"):
        parties.teacher(1, "fetch", job, tmp_path / "nowhere" / "samples.npz")


def test_a_teacher_sees_the_open_jobs(parties, deployed, data_file):
    jobs = [parties.create(data_file, title=title).id for title in ("first", "second")]
    for server in deployed.servers:
        server.jobs[jobs[0]].created_at = server.jobs[jobs[0]].created_at.replace(year=2020)
    views = parties.teacher(1, "jobs")
    assert [view.terms.title for view in views] == ["second", "first"]
    assert parties.teacher(1, "status", jobs[0]).votes == (0, 0)
