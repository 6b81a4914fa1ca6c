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
from sedml.aggregation.both_servers import PHASES, ballot_loaders, cast_all, run_job
from sedml.errors import FrameMismatchError, InputError, PredictionsError, SedmlError, TaskError
from sedml.mpc.channel import MemoryChannel, memory_pair
from sedml.mpc.prg import Seed
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.task import Task
from support.harness import TIMEOUT, Tap, fixed_seed, numbers, tls_pair
from support.open_base_ots import open_base_ots

QUIET = {"sigma": 0.1}  # the chance of any noise at all is below 10^-40
PREDICTIONS = [[0, 1, 2, 2, -1], [0, 1, 2, 1, -1], [0, 1, 0, 0, -1]]
LABELS = [0, 1, 2, -1, -1]


@pytest.fixture(autouse=True)
def quick_set_up(monkeypatch):
    """It takes longer than small jobs do, and has tests of its own."""
    monkeypatch.setattr("sedml.mpc.ot.fresh_deltas.base_ots", open_base_ots)


@pytest.fixture
def small_blocks(monkeypatch):
    """Of 8 samples."""
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 1)


@pytest.fixture
def repeatable(monkeypatch):
    """Every fresh seed is the next of a fixed row of seeds."""
    row = itertools.count(10_000)
    monkeypatch.setattr(Seed, "random", lambda: fixed_seed(next(row)))


def test_labels_are_the_consensus_or_minus_one():
    result = aggregate(PREDICTIONS, classes=3, threshold=2, **QUIET)
    assert result.labels.dtype == np.int64
    assert result.labels.shape == (5,)
    assert result.labels.tolist() == LABELS
    assert result.answered == 3


def test_stats_say_what_the_job_cost():
    result = aggregate(PREDICTIONS, classes=3, threshold=2, **QUIET)
    cost = result.stats
    assert tuple(cost.phases) == PHASES
    assert cost.rounds == sum(phase.rounds for phase in cost.phases.values())
    assert cost.server_bytes == sum(phase.bytes for phase in cost.phases.values())
    assert cost.seconds == pytest.approx(sum(phase.seconds for phase in cost.phases.values()))
    assert all(phase.rounds > 0 and phase.bytes > 0 and phase.seconds > 0 for phase in cost.phases.values())
    assert cost.teacher_bytes == result.task.ballot.sizes
    assert (result.task.teachers, result.task.samples) == (3, 5)


def test_bytes_between_the_servers_are_those_of_both_directions():
    task, loaders, noises = small_job()
    taps = tuple(Tap(channel) for channel in memory_pair(task.id))
    _, cost = run_job(task, loaders, noises, channels=taps)
    header = 64
    assert cost.rounds == taps[0].rounds
    assert cost.server_bytes == sum(tap.payload + header * tap.rounds for tap in taps)


@pytest.mark.usefixtures("small_blocks")
def test_progress_is_told_after_every_block():
    seen = []
    aggregate(np.zeros((2, 20), int), classes=2, threshold=2, progress=lambda _, *at: seen.append(at), **QUIET)
    assert seen == [(8, 20), (16, 20), (20, 20)]


# The noise is there, and as large as asked for.


@pytest.mark.filterwarnings("ignore:The threshold of 60 votes")
@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("above", [-20, 0, 10])
def test_the_consensus_rate_is_that_of_the_asked_noise(above):
    # Everybody agrees, so one count is `above` votes over the threshold, and the other 40 - above below it.
    samples, sigma = 1500, 20.0
    result = aggregate(np.ones((40, samples), np.int8), classes=2, threshold=40 - above, sigma=sigma)
    rate = 1 - stats.norm.cdf((-above - 0.5) / sigma) * stats.norm.cdf((40 - above - 0.5) / sigma)
    assert abs(result.answered / samples - rate) < 4.5 * math.sqrt(rate * (1 - rate) / samples)


def test_two_runs_draw_different_noise():
    votes = np.ones((40, 200), np.int8)
    runs = [aggregate(votes, classes=2, threshold=40, sigma=20.0).labels for _ in range(2)]
    assert (runs[0] != runs[1]).any()


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
        ({"sigma": 0.0}, TaskError),
        ({"sigma": -1.0}, TaskError),
        ({"sigma": math.nan}, TaskError),
        ({"sigma": math.inf}, TaskError),
        ({"sigma": None}, TaskError),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_is_done(monkeypatch, change, error):
    def never(*_args, **_options):
        raise AssertionError("went ahead with bad input")

    for name in ("cast", "memory_pair", "prepare", "answer"):
        monkeypatch.setattr(both_servers, name, never)
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


def small_job():
    task = Task(3, 24, 4, 2, 0.1)
    loaders = ballot_loaders(task, cast_all(task, numbers(2).integers(0, 3, (4, 24))))
    return task, loaders, (draw_noise(task, 24, fixed_seed(1)), draw_noise(task, 24, fixed_seed(2)))


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
        run_job(task, (broken, loaders[1]) if role == 0 else (loaders[0], broken), noises, channels=channels)
    for channel in channels:
        with pytest.raises(SedmlError):
            channel.exchange(0, "after", [])


@pytest.mark.parametrize("transport", ["memory", "tls"])
@pytest.mark.parametrize("after", [0, 1, 4, 9])
def test_a_peer_that_hangs_up_in_any_round_is_noticed_at_once(credentials, transport, after):
    task, loaders, noises = small_job()

    class HangsUp(Tap):
        def exchange(self, block, step, arrays):
            if self.rounds == after:
                self.close()
                raise TroubleError
            return super().exchange(block, step, arrays)

    ends = links(transport, task, credentials)
    with pytest.raises(TroubleError):
        run_job(task, loaders, noises, channels=(ends[0], HangsUp(ends[1])))


def test_servers_at_different_tasks_get_an_error_and_no_garbage():
    task, loaders, noises = small_job()
    other = Task(3, 24, 4, 2, 0.1)
    forth, back = queue.SimpleQueue(), queue.SimpleQueue()
    channels = MemoryChannel(task.id, back, forth), MemoryChannel(other.id, forth, back)
    with pytest.raises(FrameMismatchError, match="task"):
        run_job(task, loaders, noises, channels=channels)


@pytest.mark.usefixtures("small_blocks")
def test_progress_that_raises_stops_the_job_and_closes_the_link():
    task, loaders, noises = small_job()
    channels = memory_pair(task.id)

    def stop(*_):
        raise TroubleError("stop")

    with pytest.raises(TroubleError, match="stop"):
        run_job(task, loaders, noises, channels=channels, progress=stop)
    with pytest.raises(SedmlError):
        channels[0].exchange(0, "after", [])
