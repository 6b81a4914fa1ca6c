"""Labels and their divergences by definition: no tables of the accountant, no shortcuts."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np

__all__ = ["at_most", "divergence", "fold", "histograms", "hockey_stick", "law", "neighbours", "outcome_law", "passes"]


@lru_cache
def law(part_sigma: float, parts: int) -> np.ndarray:
    """P[g = -n], ..., P[g = n]; two parts by convolution."""
    reach = math.ceil(30 * part_sigma) + 30
    z = np.arange(-reach, reach + 1)
    one = np.exp(-(z**2) / (2 * part_sigma**2))
    one /= one.sum()
    return one if parts == 1 else np.convolve(one, one)


def at_most(noise: np.ndarray, z: np.ndarray) -> np.ndarray:
    middle = noise.size // 2
    return np.concatenate([[0.0], noise.cumsum()])[np.clip(z + middle + 1, 0, noise.size)]


def outcome_law(counts: tuple[int, ...], noise: np.ndarray, threshold: int | None = None) -> np.ndarray:
    """P[label = i], ties to the smallest class, and P[none] for a threshold: two independent ways to all outcomes."""
    middle = noise.size // 2
    lowest = min(counts) - middle if threshold is None else threshold
    x = np.arange(lowest, middle + max(counts) + 1)
    chances = []
    for i, own in enumerate(counts):
        place = x - own + middle
        term = np.where((place >= 0) & (place < noise.size), noise[np.clip(place, 0, noise.size - 1)], 0.0)
        for k, other in enumerate(counts):
            if k != i:
                term = term * at_most(noise, x - other - (k < i))
        chances.append(term.sum())
    if threshold is not None:
        chances.append(np.prod([at_most(noise, np.array(threshold - 1 - own)) for own in counts]))
    return np.array(chances)


def passes(highest: int, threshold: int, noise: np.ndarray) -> float:
    return float(at_most(noise, np.array(highest - threshold)))  # P[g >= T - n*], by symmetry


def terms_of(p: np.ndarray, q: np.ndarray, order: float) -> np.ndarray:
    """p^α q^(1-α)."""
    return np.exp(order * np.log(p) + (1 - order) * np.log(q))


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    seen = (p > 1e-250) & (q > 1e-250)
    p, q = p[seen], q[seen]
    return math.log(float(terms_of(p, q, order).sum())) / (order - 1)


def neighbours(counts: tuple[int, ...]):
    """Votes moved, added and withdrawn."""
    for j in range(len(counts)):
        more = list(counts)
        more[j] += 1
        yield tuple(more)
        for i in range(len(counts)):
            if i != j and counts[i]:
                moved = list(more)
                moved[i] -= 1
                yield tuple(moved)


def histograms(classes: int, teachers: int):
    for counts in itertools.product(range(teachers + 1), repeat=classes):
        if sum(counts) <= teachers:
            yield counts


def fold(number: int, bits: int) -> int:
    """The circuit's: all bits flipped where the sign bit is set."""
    number %= 1 << bits
    return (1 << bits) - 1 - number if number >> (bits - 1) else number


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
