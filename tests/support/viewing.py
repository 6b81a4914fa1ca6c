"""What a server sees over many runs, and the tests that must find nothing in it.

A *view* maps each message a server gets to its bits over all runs, bool[runs, bits]. Everything that server knows
beforehand (its seed, its shares of the votes, its noise) and all votes are the same in every run; only the seed of
the *other* server differs. So whatever is left must be uniform and independent, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sedml.lab.semi_honest.two_noise_task import Task
from sedml.protocol.votes import histogram
from support.harness import numbers

TOLD = "threshold/all/t"
"""The consensus bit, the only value that the two servers may learn: who learned it first tells the other."""
TOLD_BY_EVALUATOR = "garbled/t"
"""The same of garbled circuits: whoever evaluated them tells the other."""

SIGNIFICANT = 1e-6
"""Of every single test below. The seeds are fixed, so a test that passes goes on passing."""


SAMPLES, TEACHERS = 16, 4
"""Of `scattered` votes eight samples pass, so that no message has padding bits."""


def unanimous_first() -> np.ndarray:
    """All agree on class 0 in the first half; nobody votes in the second."""
    votes = np.full((TEACHERS, SAMPLES), -1)
    votes[:, : SAMPLES // 2] = 0
    return votes


def scattered(classes: int) -> np.ndarray:
    """Three of four agree, on changing classes, in every other sample; elsewhere the teachers are split."""
    votes = np.empty((TEACHERS, SAMPLES), np.int64)
    for sample in range(SAMPLES):
        one, other = sample % classes, (sample + 1) % classes
        votes[:, sample] = [one, one, one, other] if sample % 2 else [one, one, other, -1]
    return numbers(4).permuted(votes, axis=0)


class LeakError(AssertionError):
    """A view is not what random bits look like."""


@dataclass(frozen=True)
class Scene:
    """A job of one block with fixed shares and no noise."""

    task: Task
    votes: np.ndarray
    plant: Callable | None = None

    @property
    def counts(self) -> np.ndarray:
        return histogram(self.votes, self.task.classes)


def stack(runs) -> dict[str, np.ndarray]:
    """Lists of (step, bytes, or bool bits), one for each run -> the bits of each step over all runs."""
    names = [f"{number} {step}" for number, (step, _) in enumerate(runs[0])]
    columns = [np.stack([messages[i][1] for messages in runs]) for i in range(len(names))]
    bits = [column if column.dtype == np.bool_ else np.unpackbits(column, axis=1) for column in columns]
    return dict(zip(names, bits, strict=True))


def secret_part(view: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: bits for name, bits in view.items() if name.split(" ", 1)[1] not in (TOLD, TOLD_BY_EVALUATOR)}


def assert_uniform(view: dict[str, np.ndarray]) -> None:
    """Every bit of every message is a fair coin over the runs, and so are the bits of a message taken together."""
    for name, bits in secret_part(view).items():
        runs, size = bits.shape
        ones = bits.sum(axis=0, dtype=np.int64)
        # The most lopsided bit; as many chances as there are bits.
        lopsided = np.maximum(ones, runs - ones).max()
        _demand(name, "bit", 2 * size * stats.binom.sf(lopsided - 1, runs, 0.5))
        # All bits together, position by position.
        score = ((2 * ones - runs) ** 2 / runs).sum()
        _demand(name, "positions", stats.chi2.sf(score, size), stats.chi2.cdf(score, size))
        # The values of nibbles, whatever their position.
        nibbles = bits.reshape(runs, -1, 4) @ np.array([8, 4, 2, 1])
        _demand(name, "nibbles", stats.chisquare(np.bincount(nibbles.ravel(), minlength=16)).pvalue)


def assert_uncorrelated(view: dict[str, np.ndarray]) -> None:
    """No two bits of all messages together agree, or differ, in more runs than chance explains."""
    signs = np.concatenate(list(secret_part(view).values()), axis=1).astype(np.float32) * 2 - 1
    runs, size = signs.shape
    for start in range(0, size, 1024):
        together = np.abs(signs[:, start : start + 1024].T @ signs)
        together[np.arange(len(together)), np.arange(start, start + len(together))] = 0
        agree = (runs + together.max()) // 2
        _demand("all messages", "pairs", size * size * stats.binom.sf(agree - 1, runs, 0.5))


def _demand(name: str, what: str, *chances: float) -> None:
    if min(chances) < SIGNIFICANT:
        raise LeakError(f"{name}: {what} not random (p = {min(chances):.1e})")
