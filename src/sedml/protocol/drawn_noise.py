"""A server's part of the noise of a block: g_i for every count."""

from __future__ import annotations

from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.privacy.noise import draw
from sedml.protocol.task import Task


def draw_noise(task: Task, samples: int, seed: Seed | None = None) -> Array:
    """One server's g_i ~ N_Z(0, sigma^2 / 2), int[N, Q]: new numbers every time; a test gives a seed."""
    return draw(task.sigma, seed or Seed.random(), "g_i", (task.classes, samples))
