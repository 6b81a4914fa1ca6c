"""A block of the protocol in one thread: what the two servers and the requester come to, also if one server lies.

`plain` says in NumPy what the labels must be for whatever shares and noise the servers put in.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sedml.errors import CheatingError
from sedml.mpc.authenticated.outputs import Second
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.ot.trees import DEPTH, BaseOts
from sedml.mpc.prg import expand
from sedml.mpc.steps import Steps
from sedml.protocol import preparation
from sedml.protocol.block import answer
from sedml.protocol.labels import LabelShare, reveal
from sedml.protocol.preparation import Prepared, prepare
from sedml.protocol.server_session import Session
from sedml.protocol.task import Block, Task
from support.harness import fixed_seed, numbers
from support.lockstep import Lies, Patch, Played, play

__all__ = [
    "Case",
    "Outcome",
    "Plant",
    "case",
    "edges_of_noise",
    "fold",
    "plain",
    "quick",
    "quick_patches",
    "run",
    "sessions",
    "split_shares",
    "trusted_bases",
]

_NUMBERS = itertools.count(1)


def fold(total: np.ndarray, width: int) -> np.ndarray:
    """Numbers modulo 2^width: the upper half goes back down, so that neighbours stay neighbours on the circle."""
    return np.minimum(total, (1 << width) - 1 - total)


def plain(task: Task, shares: Sequence[np.ndarray], noises: Sequence[np.ndarray]) -> np.ndarray:
    """The labels of any shares uint[N, Q] and any noise int[N, Q], -1 for none."""
    width = task.widths.counts
    total = (shares[0].astype(np.int64) + shares[1].astype(np.int64)) % (1 << width)
    noisy = fold(total, width) + noises[0].astype(np.int64) + noises[1].astype(np.int64)
    best = noisy.max(axis=0)
    first = (noisy == best).argmax(axis=0)
    return np.where(best >= task.threshold, first, -1)


def split_shares(task: Task, counts: np.ndarray, key: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Two shares of counts int[N, Q]."""
    size = 1 << task.widths.counts
    one = numbers(key).integers(0, size, counts.shape)
    return one, (counts - one) % size


def edges_of_noise(task: Task) -> tuple[int, int]:
    """The lowest and the highest number that a server may put in as its noise."""
    half = 1 << (task.widths.noise - 1)
    return -half, half - 1


@dataclass(frozen=True)
class Case:
    """What two servers put in."""

    task: Task
    shares: tuple[np.ndarray, np.ndarray]
    noises: tuple[np.ndarray, np.ndarray]

    @property
    def labels(self) -> np.ndarray:
        return plain(self.task, self.shares, self.noises)

    def with_share(self, role: int, share: np.ndarray) -> Case:
        """One server puts in another share."""
        shares = list(self.shares)
        shares[role] = share
        return replace(self, shares=tuple(shares))

    def with_noise(self, role: int, noise: np.ndarray) -> Case:
        noises = list(self.noises)
        noises[role] = noise
        return replace(self, noises=tuple(noises))


def case(
    classes: int = 3, samples: int = 4, teachers: int = 5, threshold: int = 3, sigma: float = 1.0, key: int = 1
) -> Case:
    """Random counts with many a tie, and some noise."""
    task = Task(classes, samples, teachers, threshold, sigma, nonce="the same in every run")
    rng = numbers(key)
    counts = rng.integers(0, teachers, (classes, samples), endpoint=True)
    noises = tuple(rng.integers(-2, 3, (classes, samples)) for _ in (0, 1))
    return Case(task, split_shares(task, counts, key + 1), noises)


def trusted_bases(key: int, block: int) -> list[BaseOts]:
    """Both servers' base transfers of a block, as a trusted party would hand them out."""
    drawn = [expand(fixed_seed(2 * key + role), f"base {block}", 128 * 33) for role in (0, 1)]
    sent = [part[128:].reshape(128, 2, 16) for part in drawn]
    choices = [part[:128] & np.uint8(1) for part in drawn]
    for one in choices:
        one[DEPTH - 1] = 0  # the lowest bit of Delta is 1
    return [BaseOts(sent[i], choices[i], sent[1 - i][np.arange(128), choices[i]]) for i in (0, 1)]


def sessions(key: int = 1, blocks: Sequence[int] = (0, 1)) -> tuple[Session, Session]:
    """Both ends of a new connection for these blocks: the same for the same key."""
    made = {block: trusted_bases(key, block) for block in blocks}
    s0, s1 = (Session(role, {block: pair[role] for block, pair in made.items()}) for role in (0, 1))
    return s0, s1


@dataclass(frozen=True)
class Outcome:
    """How it ended."""

    by: str
    """Who noticed a lie: "S0", "S1", "requester", or "" for nobody."""
    why: str
    labels: np.ndarray | None
    prepared: Played
    answered: Played | None = None
    shares: list[LabelShare] = field(default_factory=list)

    @property
    def caught(self) -> bool:
        return bool(self.by)

    @property
    def said(self) -> tuple[list, list]:
        """All that each server said."""
        online = self.answered.said if self.answered else ([], [])
        return self.prepared.said[0] + online[0], self.prepared.said[1] + online[1]


def run(
    given: Case,
    *,
    ends: tuple[Session, Session] | None = None,
    number: int | None = None,
    keys: Sequence[int] | None = None,
    liar: int | None = None,
    lies: Lies | None = None,
    patches: Mapping[int, Sequence[Patch]] | None = None,
    prepared: Callable[[list[Prepared]], None] | None = None,
    shared: Callable[[LabelShare], LabelShare] | None = None,
) -> Outcome:
    """One block, to the requester's labels. `shared` is what the liar does to its share; `prepared` sees both stocks.

    A number of its own for every block, unless one is given: so streams and tweaks are new under the same trees.
    """
    task = given.task
    block = Block(next(_NUMBERS) if number is None else number, 0, task.samples)
    ends = ends or sessions(blocks=[block.index])
    options: dict[str, Any] = {"liar": liar, "lies": lies, "patches": patches}
    first = play(*(prepare(ends[i], task, block, given.noises[i]) for i in (0, 1)), keys=keys, **options)
    if error := _caught(first, liar):
        return Outcome(*error, None, first)
    if prepared is not None:
        prepared(first.results)
    later = None if keys is None else [key + 1_000_000 for key in keys]
    second = play(*(answer(first.results[i], task, given.shares[i]) for i in (0, 1)), keys=later, **options)
    if error := _caught(second, liar):
        return Outcome(*error, None, first, second)
    shares = list(second.results)
    if shared is not None:
        assert liar is not None
        shares[liar] = shared(shares[liar])
    try:
        return Outcome("", "", reveal(task, task.samples, *shares), first, second, shares)
    except CheatingError as error:
        return Outcome("requester", error.what, None, first, second, shares)


def _caught(played: Played, liar: int | None) -> tuple[str, str] | None:
    """Who noticed; any other error is one of the test or of the code."""
    for role, result in enumerate(played.results):
        if isinstance(result, CheatingError) and role != liar:
            return f"S{role}", result.what
        if isinstance(result, Exception):
            raise result
    return None


Plant = Callable[[np.ndarray], None]
"""Spoils the choices of one server's transfers, in place."""


@dataclass(frozen=True)
class _TrustedExtension:
    """In place of an `Extension`: transfers as a trusted party would hand them out; nothing is sent.

    What a server draws itself (choices, Delta, what it sends) follows from its own key.
    """

    role: int
    keys: tuple[int, int]
    name: str
    first: int = 0
    plants: Mapping[int, Plant] = field(default_factory=dict)
    sent: np.ndarray = field(default_factory=lambda: np.zeros(1))
    choices: np.ndarray = field(default_factory=lambda: np.zeros(1))
    """A base has these, to be overwritten."""

    def extend(self, count: int) -> Steps[Transfers]:
        n = -(-count // 128) * 128
        deltas, rows, choices = [], [], []
        for role, key in enumerate(self.keys):
            seed = fixed_seed(2 * key + role)
            deltas.append(expand(seed, f"delta {self.name.split(' of ')[0]}", 16).view(np.uint64))
            deltas[role][0] |= np.uint64(1)
            rows.append(expand(seed, f"rows {self.name}", 16 * n).view(np.uint64).reshape(n, 2))
            choices.append(expand(seed, f"choices {self.name}", n) & np.uint8(1))
            if role in self.plants:
                self.plants[role](choices[role])
        mine, theirs = self.role, 1 - self.role
        received = rows[theirs] ^ (choices[mine][:, np.newaxis] * deltas[theirs])
        return Transfers(self.first, choices[mine], received, rows[mine], deltas[mine])
        yield  # a part that has nothing to say

    def second(self, _base: Transfers, count: int) -> Steps[Second]:
        """In place of `second_bits`."""
        made = yield from self.extend(count)
        rows = (part[:count, 0].copy() for part in (made.received, made.sent))
        return Second(made.choices[:count], *rows, made.delta[0])


@dataclass
class _QuickSession(Session):
    keys: tuple[int, int] = (1, 1)
    plants: Mapping[int, Plant] = field(default_factory=dict)

    def begin(self, block: int) -> Any:
        return _TrustedExtension(self.role, self.keys, f"first of {block}", 0, self.plants)


def quick(keys: tuple[int, int] = (1, 1), plants: Mapping[int, Plant] | None = None) -> tuple[Any, Any]:
    """Sessions whose transfers a trusted party hands out: for many runs that are about something else."""
    s0, s1 = (_QuickSession(role, {}, keys=keys, plants=plants or {}) for role in (0, 1))
    return s0, s1


def quick_patches(
    number: int, keys: tuple[int, int] = (1, 1), plants: Mapping[int, Plant] | None = None
) -> dict[int, list[Patch]]:
    """The bits of the outputs as well, for the block of this number; each has a second Delta of its own."""
    made = [_TrustedExtension(role, keys, f"second {number}", 0, plants or {}) for role in (0, 1)]
    return {
        role: [
            (preparation, "second_bits", made[role].second),
            (preparation, "begin_extension", lambda base, _label, count: base.extend(count)),
        ]
        for role in (0, 1)
    }
