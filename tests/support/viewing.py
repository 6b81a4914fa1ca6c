"""What a server sees over many runs, and the tests that must find nothing in it.

A *view* maps each message a server gets to its bits over all runs, bool[runs, bits]. Everything that server knows
beforehand (its seed, its shares of the votes, its noise) and all votes are the same in every run; only the seed of
the *other* server differs. So whatever is left must be uniform and independent, bit by bit.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

SIGNIFICANT = 1e-6
"""Of every single test below. The seeds are fixed, so a test that passes goes on passing."""


class LeakError(AssertionError):
    """A view is not what random bits look like."""


def stack(runs) -> dict[str, np.ndarray]:
    """Lists of (step, bytes, or bool bits), one for each run -> the bits of each step over all runs."""
    names = [f"{number} {step}" for number, (step, _) in enumerate(runs[0])]
    columns = [np.stack([messages[i][1] for messages in runs]) for i in range(len(names))]
    bits = [column if column.dtype == np.bool_ else np.unpackbits(column, axis=1) for column in columns]
    return dict(zip(names, bits, strict=True))


def assert_uniform(view: dict[str, np.ndarray]) -> None:
    """Every bit of every message is a fair coin over the runs, and so are the bits of a message taken together."""
    for name, bits in view.items():
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
    signs = np.concatenate(list(view.values()), axis=1).astype(np.float32) * 2 - 1
    runs, size = signs.shape
    for start in range(0, size, 1024):
        together = np.abs(signs[:, start : start + 1024].T @ signs)
        together[np.arange(len(together)), np.arange(start, start + len(together))] = 0
        agree = (runs + together.max()) // 2
        _demand("all messages", "pairs", size * size * stats.binom.sf(agree - 1, runs, 0.5))


def _demand(name: str, what: str, *chances: float) -> None:
    if min(chances) < SIGNIFICANT:
        raise LeakError(f"{name}: {what} not random (p = {min(chances):.1e})")
