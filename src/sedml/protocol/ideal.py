"""The ideal functionality in plain NumPy: what a trusted third party would answer.

The oracle of every test and benchmark: the secure protocol must give these labels, bit for bit, for the same noise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.mpc.ring import Array
from sedml.protocol.task import Task
from sedml.protocol.votes import NO_CONSENSUS


def labels(counts: Array, threshold: int, noise: Array) -> npt.NDArray[np.int64]:
    """counts, noise: int[N, Q] -> the first class of the highest noisy count if that is at least T, else -1."""
    noisy = counts.astype(np.int64) + noise
    return np.where(noisy.max(axis=0) >= threshold, noisy.argmax(axis=0), NO_CONSENSUS)


def ideal_labels(task: Task, counts: Array, noises: tuple[Array, Array]) -> npt.NDArray[np.int64]:
    """The labels of counts int[N, Q], with both servers' parts of the noise, int[N, Q] each."""
    return labels(counts, task.threshold, noises[0].astype(np.int64) + noises[1])
