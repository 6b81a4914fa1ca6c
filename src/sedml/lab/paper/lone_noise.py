"""The noise of a task of the lab: that of both servers, or all of it from S0, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sedml.lab.paper.lab_task import LabTask
from sedml.lab.semi_honest.check_and_label_noise import DrawnNoise, Noise
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.privacy.noise import noise_table, sample

__all__ = ["NoNoise", "lab_noise"]


def lab_noise(task: LabTask, role: int, seed: Seed | None = None) -> Noise:
    """A server's part, from its own seed."""
    own = seed or Seed.random()
    if task.noise == "both":
        return DrawnNoise(task, own)
    return _Whole(task, own) if role == 0 else NoNoise()


class _Whole(DrawnNoise):
    """All of the noise."""

    def _draw(self, sigma: float, label: str, shape: tuple[int, ...]) -> Array:
        return sample(noise_table(sigma), self.seed.child(self.task.id.hex()), label, shape)


@dataclass(frozen=True)
class NoNoise:
    """None at all."""

    def threshold(self, _block: int, samples: int) -> Array:
        """g = 0."""
        return np.zeros(samples, np.int32)

    def label(self, _block: int, classes: int, samples: int) -> Array:
        """g_i = 0."""
        return np.zeros((classes, samples), np.int32)
