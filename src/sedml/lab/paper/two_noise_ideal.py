"""The ideal functionality in plain NumPy: what a trusted third party would answer.

The oracle of every test and benchmark: the secure protocols must give these labels, bit for bit, for the
same noise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.lab.paper.check_and_label_noise import Noise
from sedml.lab.paper.two_noise_task import Task
from sedml.mpc.ring import Array
from sedml.protocol.votes import NO_CONSENSUS


def consensus(counts: Array, threshold: int, g: Array) -> npt.NDArray[np.bool_]:
    """counts: int[N, Q], g: int[Q] -> whether max_i n_i + g >= T (Alg. 1 lines 5-14)."""
    reached: npt.NDArray[np.bool_] = counts.astype(np.int64).max(axis=0) + g >= threshold
    return reached


def labels(counts: Array, threshold: int, g: Array, g_i: Array) -> npt.NDArray[np.int64]:
    """g_i: int[N, Q] -> the first class of the highest noisy count, or -1 (Alg. 1 lines 15-33)."""
    noisy = counts.astype(np.int64) + g_i
    return np.where(consensus(counts, threshold, g), noisy.argmax(axis=0), NO_CONSENSUS)


def ideal_labels(task: Task, counts: Array, noises: tuple[Noise, Noise]) -> npt.NDArray[np.int64]:
    """The labels of a whole task on plain counts int[N, Q], for the very noise that the servers draw."""
    found = np.empty(task.samples, np.int64)
    for block in task.blocks:
        part = counts[:, block.start : block.stop]
        g: Array = np.add(*(noise.threshold(block.index, block.samples) for noise in noises))
        passed = consensus(part, task.threshold, g)
        answered = int(passed.sum())
        g_i = np.zeros(part.shape, np.int64)
        if answered:
            g_i[:, passed] = np.add(*(noise.label(block.index, task.classes, answered) for noise in noises))
        found[block.start : block.stop] = labels(part, task.threshold, g, g_i)
    return found
