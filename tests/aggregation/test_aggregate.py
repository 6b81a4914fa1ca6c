"""`sedml.aggregate`: what goes in, what comes out, that the noise is there, and that nothing is left half-done."""

from __future__ import annotations

import itertools
import math
import queue

import numpy as np
import pytest
from scipy import stats

from sedml import aggregate
from sedml.aggregation import both_servers
from sedml.errors import (
    FrameMismatchError,
    InputError,
    PeerGoneError,
    PredictionsError,
    SedmlError,
    TaskError,
)
from sedml.lab.semi_honest.block import PHASES, recipes, run_block
from sedml.lab.semi_honest.party import Party
from sedml.lab.semi_honest.recipe import MadeRandomness
from sedml.mpc.channel import MemoryChannel, memory_pair
from sedml.mpc.prg import Seed
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.labels import LabelShare
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from support.harness import (
    TIMEOUT,
    AuditedParty,
    Tap,
    fixed_noises,
    fixed_seed,
    loaders_of,
    numbers,
    run_whole_job,
    tls_pair,
    zero_parts,
)
from support.made import run_made

pytestmark = pytest.mark.usefixtures("one_set_up")

QUIET = {"sigma1": 0.1, "sigma2": 0.1}  # the chance of any noise at all is below 10^-40
PREDICTIONS = [[0, 1, 2, 2, -1], [0, 1, 2, 1, -1], [0, 1, 0, 0, -1]]
LABELS = [0, 1, 2, -1, -1]
protocols = pytest.mark.parametrize("protocol", ["fused", "garbled"])


@pytest.fixture
def repeatable(monkeypatch):
    """Every fresh seed is the next of a fixed row of seeds."""
    row = itertools.count(10_000)
    monkeypatch.setattr(Seed, "random", lambda: fixed_seed(next(row)))


@protocols
def test_labels_are_the_consensus_or_minus_one(protocol):
    result = aggregate(PREDICTIONS, classes=3, threshold=2, protocol=protocol, **QUIET)
    assert result.labels.dtype == np.int64
    assert result.labels.shape == (5,)
    assert result.labels.tolist() == LABELS
    assert result.answered == 3


@protocols
def test_stats_say_what_the_job_cost(protocol):
    result = aggregate(PREDICTIONS, classes=3, threshold=2, protocol=protocol, **QUIET)
    stats_ = result.stats
    assert set(stats_.phases) == set(PHASES)
    assert set(stats_.ring_bits) == {"threshold", "label", "counts"}
    assert stats_.rounds == sum(cost.rounds for cost in stats_.phases.values()) > 0
    assert stats_.server_bytes == sum(cost.bytes for cost in stats_.phases.values()) > 0
    assert stats_.seconds == pytest.approx(sum(cost.seconds for cost in stats_.phases.values()))
    assert stats_.offline.seconds > 0
    assert stats_.teacher_bytes == result.task.ballot.sizes
    assert stats_.phases["count"].rounds == 0
    assert (stats_.phases["threshold"].rounds > 0) == (protocol == "fused")
    assert stats_.phases["label"].rounds > 0
    assert result.task.protocol == protocol
    assert result.task.teachers == 3
    assert result.task.samples == 5


def test_bytes_between_the_servers_are_those_of_both_directions():
    task, loaders, noises = small_job()
    taps = tuple(Tap(channel) for channel in memory_pair(task.id))
    stats_ = run_whole_job(task, loaders, noises, channels=taps).stats
    header = 64
    assert stats_.rounds + stats_.offline.rounds == taps[0].rounds
    assert stats_.server_bytes + stats_.offline.bytes == 2 * (taps[0].payload + header * taps[0].rounds)


def test_progress_is_told_after_every_block(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 0)
    seen = []
    aggregate(np.zeros((2, 20), int), classes=2, threshold=2, progress=lambda _, *at: seen.append(at), **QUIET)
    assert seen == [(8, 20), (16, 20), (20, 20)]


# The noise is there, and as large as asked for.


@pytest.mark.filterwarnings("ignore:The threshold of 60 votes")
@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("above", [-20, 0, 10, 30])
def test_the_consensus_rate_is_that_of_the_asked_noise(above):
    # Everybody agrees, so the count is `above` votes over the threshold: half of the samples pass at zero.
    samples, sigma = 4000, 20.0
    result = aggregate(np.ones((40, samples), np.int8), classes=2, threshold=40 - above, sigma1=sigma, sigma2=0.1)
    rate = stats.norm.cdf((above + 0.5) / sigma)
    assert abs(result.answered / samples - rate) < 4.5 * math.sqrt(rate * (1 - rate) / samples)
    assert set(np.unique(result.labels)) == {-1, 1}


@pytest.mark.usefixtures("repeatable")
@protocols
def test_the_noise_on_the_counts_is_that_asked_for(protocol):
    # 30 votes against 10, each with noise of standard deviation 20: the difference has 20 √2.
    samples = 3000
    votes = np.repeat(np.array([0, 1])[:, np.newaxis], (30, 10), axis=0) * np.ones(samples, np.int8)
    result = aggregate(votes, classes=2, threshold=2, sigma1=0.1, sigma2=20.0, protocol=protocol)
    rate = stats.norm.cdf(20.5 / (20 * math.sqrt(2)))
    assert result.answered == samples
    assert abs((result.labels == 0).mean() - rate) < 4.5 * math.sqrt(rate * (1 - rate) / samples)


def test_two_runs_draw_different_noise():
    votes = np.ones((40, 500), np.int8)
    runs = [aggregate(votes, classes=2, threshold=40, sigma1=20.0, sigma2=1.0).labels for _ in range(2)]
    assert (runs[0] != runs[1]).any()


def test_noise_differs_by_block_server_task_and_kind():
    task, other = (Task(3, 50, 4, 2, 20.0, 20.0, nonce=nonce) for nonce in ("a", "b"))
    seed = fixed_seed(1)
    draws = [
        DrawnNoise(task, seed).threshold(0, 50),
        DrawnNoise(task, seed).threshold(1, 50),
        DrawnNoise(task, fixed_seed(2)).threshold(0, 50),
        DrawnNoise(other, seed).threshold(0, 50),
        DrawnNoise(task, seed).label(0, 1, 50)[0],
        DrawnNoise(task, seed).label(0, 2, 50)[1],
    ]
    for one, two in itertools.combinations(draws, 2):
        assert (one != two).any()
    assert (draws[0] == DrawnNoise(task, seed).threshold(0, 50)).all()


# Bad input.

GOOD = {"predictions": PREDICTIONS, "classes": 3, "threshold": 2, **QUIET}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"predictions": [0, 1, 2]}, PredictionsError),
        ({"predictions": np.zeros((2, 2, 2, 3))}, PredictionsError),
        ({"predictions": [[0, 1], [0]]}, PredictionsError),
        ({"predictions": np.zeros((3, 5, 4))}, PredictionsError),
        ({"predictions": np.zeros((3, 0))}, PredictionsError),
        ({"predictions": np.zeros((0, 5))}, PredictionsError),
        ({"predictions": []}, PredictionsError),
        ({"predictions": 7}, PredictionsError),
        ({"predictions": [["a"]]}, PredictionsError),
        ({"predictions": None}, PredictionsError),
        ({"predictions": [[0, 3]]}, PredictionsError),
        ({"predictions": [[0.5, 1]]}, PredictionsError),
        ({"predictions": [[math.nan, 1]]}, PredictionsError),
        ({"predictions": np.full((3, 5, 3), math.nan)}, PredictionsError),
        ({"predictions": np.full((3, 5, 3), math.inf)}, PredictionsError),
        ({"classes": 1}, TaskError),
        ({"classes": 0}, TaskError),
        ({"classes": -2}, TaskError),
        ({"classes": 2.5}, TaskError),
        ({"threshold": 0}, TaskError),
        ({"threshold": 0.0}, TaskError),
        ({"threshold": -0.5}, TaskError),
        ({"threshold": 13}, TaskError),
        ({"threshold": 2.5}, TaskError),
        ({"threshold": math.nan}, TaskError),
        ({"threshold": math.inf}, TaskError),
        ({"threshold": "most"}, TaskError),
        ({"sigma1": 0.0}, TaskError),
        ({"sigma1": -1.0}, TaskError),
        ({"sigma1": math.nan}, TaskError),
        ({"sigma2": 0.0}, TaskError),
        ({"sigma2": math.inf}, TaskError),
        ({"sigma2": None}, TaskError),
        ({"protocol": "fast"}, TaskError),
        ({"protocol": "paper"}, TaskError),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_is_done(monkeypatch, change, error):
    def never(*_args, **_options):
        raise AssertionError("went ahead with bad input")

    for module, name in (
        (both_servers, "cast"),
        (both_servers, "make"),
        (both_servers, "memory_pair"),
        (both_servers, "run_block"),
    ):
        monkeypatch.setattr(module, name, never)
    terms = GOOD | change
    with pytest.raises(error) as caught:
        aggregate(terms.pop("predictions"), **terms)
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, SedmlError)
    assert caught.value.what.endswith(".")
    assert caught.value.do.endswith(".")


# Things that go wrong on the way.


class TroubleError(Exception):
    """The real cause of a failure."""


def small_job(protocol="fused"):
    task = Task(3, 24, 4, 2, 0.1, 0.1, protocol)
    cast_votes = numbers(2).integers(0, 3, (4, 24))
    noises, _ = fixed_noises(task, histogram(cast_votes, 3), zero_parts(3, 24))
    return task, loaders_of(task, cast_votes), noises


def links(kind, task, credentials):
    return memory_pair(task.id, timeout=TIMEOUT) if kind == "memory" else tls_pair(task.id, credentials)


@pytest.mark.parametrize("transport", ["memory", "tls"])
@pytest.mark.parametrize("role", [0, 1])
def test_a_server_that_cannot_read_its_shares_is_the_error_that_surfaces(credentials, transport, role):
    task, loaders, noises = small_job()

    def broken(_block):
        raise TroubleError("disk")

    channels = links(transport, task, credentials)
    with pytest.raises(TroubleError, match="disk"):
        run_whole_job(task, (broken, loaders[1]) if role == 0 else (loaders[0], broken), noises, channels=channels)
    for channel in channels:
        with pytest.raises(SedmlError):
            channel.exchange(0, "after", [])


class BrokenNoise:
    def __init__(self, inner, where):
        self.inner, self.where = inner, where

    def threshold(self, block, samples):
        if self.where == "threshold":
            raise TroubleError("noise")
        return self.inner.threshold(block, samples)

    def label(self, block, classes, samples):
        raise TroubleError("noise")


@pytest.mark.parametrize("where", ["threshold", "label"])
@pytest.mark.parametrize("role", [0, 1])
@protocols
def test_a_failure_in_the_middle_of_the_protocol_is_the_error_that_surfaces(protocol, role, where):
    task, loaders, noises = small_job(protocol)
    noises = list(noises)
    noises[role] = BrokenNoise(noises[role], where)
    with pytest.raises(TroubleError, match="noise"):
        run_whole_job(task, loaders, tuple(noises), channels=memory_pair(task.id, timeout=TIMEOUT))


@pytest.mark.parametrize("transport", ["memory", "tls"])
@pytest.mark.parametrize("after", [0, 1, 4, 7])
def test_a_peer_that_hangs_up_in_any_round_is_noticed_at_once(credentials, transport, after):
    task, loaders, noises = small_job()
    block = next(task.blocks)

    class HangsUp(Tap):
        def exchange(self, block, step, arrays):
            if self.rounds == after:
                self.close()
                raise TroubleError
            return super().exchange(block, step, arrays)

    ends = links(transport, task, credentials)

    def side(party: Party):
        party.channel = ends[0] if party.role == 0 else HangsUp(ends[1])
        wrong = PeerGoneError if party.role == 0 else TroubleError
        with pytest.raises(wrong):
            run_block(party, task, lambda: loaders[party.role](block), noises[party.role], fixed_seed(1))

    run_made(recipes(task, block.samples), side)
    for end in ends:
        end.close()


def test_servers_at_different_tasks_get_an_error_and_no_garbage():
    task, loaders, noises = small_job()
    other = Task(3, 24, 4, 2, 0.1, 0.1)
    forth, back = queue.SimpleQueue(), queue.SimpleQueue()
    channels = MemoryChannel(task.id, back, forth), MemoryChannel(other.id, forth, back)
    with pytest.raises(FrameMismatchError, match="task"):
        run_whole_job(task, loaders, noises, channels=channels)


def test_progress_that_raises_stops_the_job_and_closes_the_link(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 0)
    task, loaders, noises = small_job()
    channels = memory_pair(task.id)

    def stop(*_):
        raise TroubleError("stop")

    with pytest.raises(TroubleError, match="stop"):
        run_whole_job(task, loaders, noises, channels=channels, progress=stop)
    with pytest.raises(SedmlError):
        channels[0].exchange(0, "after", [])


# Secrets stay out of reprs, and so out of logs and tracebacks.

SECRET = b"recognisable-secret-bytes-here!!"


def assert_hidden(*objects):
    for thing in objects:
        for shown in (repr(thing), str(thing), f"{thing}", repr([thing])):
            assert "recognisable" not in shown
            assert SECRET.hex() not in shown
            assert str(list(SECRET))[1:-1] not in shown


def test_no_repr_shows_a_seed_a_share_or_noise():
    seed = Seed(SECRET)
    task = Task(3, 24, 4, 2, 0.1, 0.1)
    made = MadeRandomness(0, {"piece": {"r": np.frombuffer(SECRET, np.uint8)}})
    parties = (kind(0, memory_pair(task.id)[0], made) for kind in (Party, AuditedParty))
    assert_hidden(seed, DrawnNoise(task, seed), made, *parties)


def test_a_label_share_shows_who_passed_but_no_label():
    shares = np.frombuffer(SECRET, np.uint8)
    share = LabelShare(np.ones(len(SECRET), bool), shares)
    assert_hidden(share)
    assert str(SECRET[0]) not in repr(share)
    assert "True" in repr(share)


@pytest.mark.parametrize("role", [0, 1])
def test_a_party_in_the_middle_of_a_job_shows_no_share(role):
    task, loaders, noises = small_job()
    block = next(task.blocks)

    def side(party: Party) -> LabelShare:
        return run_block(party, task, lambda: loaders[party.role](block), noises[party.role], Seed(SECRET))

    run = run_made(recipes(task, block.samples), side)
    assert_hidden(run.parties[role], run.parties[role].correlations, run.shares[role], run.taps[role].channel)
    assert "array" not in repr(run.parties[role].correlations)
