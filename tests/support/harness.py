"""Runs gadgets and blocks as two threads and keeps a record of everything the two servers exchanged.

Nothing here is random: seeds are made of fixed bytes, so a failure comes back on the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sedml.aggregation.both_servers import Stats, ballot_loaders, run_job
from sedml.mpc.channel import accept, connect, listen
from sedml.lab.semi_honest.party import Party
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Ring
from sedml.mpc.sharing import Additive, Field
from sedml.privacy.noise import noise_table, server_sigma
from sedml.protocol import ideal
from sedml.protocol.ballots import cast
from sedml.protocol.labels import reveal
from sedml.protocol.task import Block, Task
from sedml.protocol.votes import NO_CONSENSUS, histogram

TASK_ID = bytes(range(16))
TIMEOUT = 120.0


def fixed_seed(number: int) -> Seed:
    """Seed number so-and-so, always the same."""
    return Seed(number.to_bytes(32, "little"))


def numbers(key: int) -> np.random.Generator:
    """Inputs of a test; never used as shares' randomness by the package itself."""
    return np.random.default_rng(key)


class Tap:
    """A channel that notes, step by step, what was sent and received."""

    def __init__(self, channel) -> None:
        self.channel = channel
        self.steps: list[tuple[int, str]] = []
        self.sent: list[np.ndarray] = []
        self.received: list[np.ndarray] = []

    @property
    def traffic(self):
        return self.channel.traffic

    def exchange(self, block: int, step: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        sent = _flat(arrays)
        theirs = self.channel.exchange(block, step, arrays)
        self.steps.append((block, step))
        self.sent.append(sent)
        self.received.append(_flat(theirs))
        return theirs

    def close(self) -> None:
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def rounds(self) -> int:
        return len(self.steps)

    @property
    def payload(self) -> int:
        """Bytes sent, frame headers not counted."""
        return sum(part.size for part in self.sent)


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    parts = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
    return np.concatenate([np.empty(0, np.uint8), *parts])


@dataclass
class AuditedParty(Party):
    """A server that notes every value it opened, as (step, field, value)."""

    opened: list[tuple[str, Field, np.ndarray]] = field(default_factory=list)

    def open_(self, step: str, shared: Sequence[tuple[Field, np.ndarray]]) -> list[np.ndarray]:
        values = super().open_(step, shared)
        self.opened += [(step, layout, value.copy()) for (layout, _), value in zip(shared, values, strict=True)]
        return values


@dataclass
class Run:
    """Both servers' results of one run, and their records."""

    shares: tuple[Any, Any]
    parties: tuple[AuditedParty, AuditedParty]

    @property
    def taps(self) -> tuple[Tap, Tap]:
        return self.parties[0].channel, self.parties[1].channel

    @property
    def rounds(self) -> int:
        assert self.taps[0].steps == self.taps[1].steps
        return self.taps[0].rounds

    @property
    def payload(self) -> int:
        """Bytes each way; both servers always send the same amount."""
        assert self.taps[0].payload == self.taps[1].payload
        return self.taps[0].payload


def split(layout: Field, value: np.ndarray, key: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Two shares of a value, from a fixed seed."""
    share0 = layout.draw(expand(fixed_seed(key), "split", layout.drawn_bytes))
    return share0, layout.remainder(value, share0)


def split_ring(values: np.ndarray, width: int, key: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Two additive shares of integers, negative ones too."""
    layout = Additive(values.shape, width)
    return split(layout, layout.ring.reduce(values), key)


def join_ring(shares: tuple[np.ndarray, np.ndarray], width: int) -> np.ndarray:
    return Additive(shares[0].shape, width).combine(*shares)


@dataclass(frozen=True)
class FixedNoise:
    """Noise of one server that a test hands in: g int[Q] and g_i int[N, Q] for all samples of the job.

    The label noise of the samples that passed is asked for without saying which they are, so `consensus`
    must be the right answer; the job is then checked against it.
    """

    task: Task
    g: np.ndarray
    g_i: np.ndarray
    consensus: np.ndarray

    def threshold(self, block: int, samples: int) -> np.ndarray:
        part = self._block(block)
        assert samples == part.samples
        return self.g[part.start : part.stop]

    def label(self, block: int, classes: int, samples: int) -> np.ndarray:
        part = self._block(block)
        noise = self.g_i[:, part.start : part.stop]
        if self.task.protocol != "garbled":  # whose circuit finds a label for every sample
            noise = noise[:, self.consensus[part.start : part.stop]]
        assert noise.shape == (classes, samples)
        return noise

    def _block(self, index: int) -> Block:
        return next(block for block in self.task.blocks if block.index == index)


def fixed_noises(task: Task, counts: np.ndarray, parts) -> tuple[tuple[FixedNoise, FixedNoise], np.ndarray]:
    """parts: ((g, g_i) of S0, (g, g_i) of S1) -> both noise sources and the ideal labels."""
    (g0, h0), (g1, h1) = parts
    consensus = ideal.consensus(counts, task.threshold, g0 + g1)
    noises = FixedNoise(task, g0, h0, consensus), FixedNoise(task, g1, h1, consensus)
    return noises, ideal.labels(counts, task.threshold, g0 + g1, h0 + h1)


def zero_parts(classes: int, samples: int):
    """No noise at all."""
    g, g_i = np.zeros(samples, np.int64), np.zeros((classes, samples), np.int64)
    return (g, g_i), (g, g_i)


def bounds(sigma: float) -> tuple[int, int]:
    """The largest noise that S0 and S1 can each draw."""
    return (noise_table(server_sigma(sigma)).bound,) * 2


def loaders_of(task: Task, votes: np.ndarray):
    """Ballots of these votes."""
    return ballot_loaders(
        task,
        [
            cast(row[np.newaxis], task.ballot, task.id, str(k), fixed_seed(100 + k)).halves
            for k, row in enumerate(votes)
        ],
    )


class Job(NamedTuple):
    """A whole job, done."""

    task: Task
    labels: np.ndarray
    stats: Stats

    @property
    def answered(self) -> int:
        return int((self.labels != NO_CONSENSUS).sum())


def run_whole_job(task: Task, loaders, noises, **options) -> Job:
    """Every block of a task, both servers in this process."""
    return Job(task, *run_job(task, loaders, noises, **options))


def secure(task: Task, votes: np.ndarray, parts, *, channels=None) -> tuple[Job, np.ndarray]:
    """Run the whole job with the noise handed in; the result and what `ideal` says."""
    noises, want = fixed_noises(task, histogram(votes, task.classes), parts)
    return run_whole_job(task, loaders_of(task, votes), noises, channels=channels), want


def revealed(task: Task, run: Run) -> np.ndarray:
    return reveal(task, *run.shares)


def tls_pair(task_id: bytes, credentials):
    """Both ends of a TLS link over loopback."""
    with listen("127.0.0.1", 0) as listener, ThreadPoolExecutor(1) as thread:
        ours = thread.submit(accept, listener, task_id, credentials[0], timeout=TIMEOUT)
        theirs = connect(listener.getsockname(), task_id, credentials[1], timeout=TIMEOUT)
        return ours.result(), theirs


def signed(ring: Ring, values: np.ndarray) -> np.ndarray:
    """Ring elements as two's complement numbers in [-2^(width-1), 2^(width-1)): what sign tests mean by negative."""
    shift = 64 - ring.width
    return (values.astype(np.int64) << shift) >> shift
