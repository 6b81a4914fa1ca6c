"""A server's part of the noise: g for the threshold check, g_i for the counts (Alg. 1 lines 12 and 20)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sedml.lab.paper.two_noise_task import Task
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.privacy.noise import noise_table, sample, server_sigma


class Noise(Protocol):
    """Where a server takes its noise from; a test hands in fixed numbers."""

    def threshold(self, block: int, samples: int) -> Array:
        """g: int[Q], this server's part, added to the highest count."""

    def label(self, block: int, classes: int, samples: int) -> Array:
        """g_i: int[N, A], this server's part, added to the counts of the samples that passed."""


@dataclass(frozen=True)
class DrawnNoise:
    """Discrete Gaussian noise from this server's own secret seed, addressed by block."""

    task: Task
    seed: Seed = field(repr=False)

    def threshold(self, block: int, samples: int) -> Array:
        """g ~ N_Z(0, sigma1^2), this server's part."""
        return self._draw(self.task.sigma1, f"{block}/g", (samples,))

    def label(self, block: int, classes: int, samples: int) -> Array:
        """g_i ~ N_Z(0, sigma2^2), this server's part."""
        return self._draw(self.task.sigma2, f"{block}/g_i", (classes, samples))

    def _draw(self, sigma: float, label: str, shape: tuple[int, ...]) -> Array:
        return sample(noise_table(server_sigma(sigma)), self.seed.child(self.task.id.hex()), label, shape)


class NoNoise:
    """None at all."""

    def threshold(self, _block: int, samples: int) -> Array:
        """g = 0."""
        return np.zeros(samples, np.int32)

    def label(self, _block: int, classes: int, samples: int) -> Array:
        """g_i = 0."""
        return np.zeros((classes, samples), np.int32)


def fresh_noise(task: Task) -> tuple[DrawnNoise, DrawnNoise]:
    """Noise of S0 and of S1, each from a new seed, for whoever plays both."""
    return DrawnNoise(task, Seed.random()), DrawnNoise(task, Seed.random())
