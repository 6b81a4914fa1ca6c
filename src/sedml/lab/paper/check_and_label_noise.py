"""A server's part of the noise: g for the threshold check, g_i for the counts (Alg. 1 lines 12 and 20)."""

from __future__ import annotations

from dataclasses import dataclass, field

from sedml.lab.paper.two_noise_task import Task
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.privacy.noise import noise_table, sample, server_sigma


@dataclass(frozen=True)
class Noise:
    """Discrete Gaussian noise from this server's own secret seed, addressed by block."""

    task: Task
    seed: Seed = field(repr=False)

    def threshold(self, block: int, samples: int) -> Array:
        """g ~ N_Z(0, sigma1^2): int[Q], this server's part, added to the highest count."""
        return self._draw(self.task.sigma1, f"{block}/g", (samples,))

    def label(self, block: int, classes: int, samples: int) -> Array:
        """g_i ~ N_Z(0, sigma2^2): int[N, A], this server's part, added to the counts of the samples that passed."""
        return self._draw(self.task.sigma2, f"{block}/g_i", (classes, samples))

    def _draw(self, sigma: float, label: str, shape: tuple[int, ...]) -> Array:
        return sample(noise_table(server_sigma(sigma)), self.seed.child(self.task.id.hex()), label, shape)


def fresh_noise(task: Task) -> tuple[Noise, Noise]:
    """Noise of S0 and of S1, each from a new seed, for whoever plays both."""
    return Noise(task, Seed.random()), Noise(task, Seed.random())
