"""The ideal functionality in plain NumPy: what a trusted third party would answer.

The oracle of every test and benchmark: the secure protocols must give these labels, bit for bit, for the
same noise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.ring import Array

__all__ = ["NO_CONSENSUS", "consensus", "labels"]

NO_CONSENSUS = -1
"""The paper's ⊥, and scikit-learn's marker for an unlabelled sample."""


def consensus(counts: Array, threshold: int, g: Array) -> npt.NDArray[np.bool_]:
    """counts: int[N, Q], g: int[Q] -> whether max_i n_i + g >= T (Alg. 1 lines 5-14)."""
    reached: npt.NDArray[np.bool_] = counts.astype(np.int64).max(axis=0) + g >= threshold
    return reached


def labels(counts: Array, threshold: int, g: Array, g_i: Array) -> npt.NDArray[np.int64]:
    """g_i: int[N, Q] -> the first class of the highest noisy count, or -1 (Alg. 1 lines 15-33)."""
    noisy = counts.astype(np.int64) + g_i
    return np.where(consensus(counts, threshold, g), noisy.argmax(axis=0), NO_CONSENSUS)
