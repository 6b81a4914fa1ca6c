"""How large a run is: the paper's sizes and beyond, or the same items at a small size."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sedml import Progress, silent
from sedml.lab.bench.server_pair import Transport
from sedml.lab.reproduce import published


@dataclass(frozen=True)
class Scale:
    """The grids of all items; the defaults are the full run."""

    transport: Transport = "tcp"
    repeat: int = 11
    """Repetitions of a measurement of about 1,000 samples; larger ones get fewer."""
    samples: int = 1000
    teachers: int = published.TEACHERS
    sample_grid: tuple[int, ...] = (1000, 2000, 3000, 4000, 5000, 10_000, 100_000, 1_000_000)
    class_grid: tuple[int, ...] = (10, 20, 30, 40, 50, 100, 200, 500, 1000)
    accuracy_teachers: tuple[int, ...] = (50, 100, 150, 200, 250)
    accuracy_epsilons: tuple[float, ...] = published.ACCURACY_EPSILONS
    queries: int = published.THRESHOLD_QUERIES
    svhn_queries: int = 26_032
    thresholds: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    student_steps: int = 1000
    student_seeds: int = 3


FULL = Scale()

QUICK = Scale(
    repeat=3,
    sample_grid=(1000, 5000),
    class_grid=(10, 50),
    accuracy_teachers=(50, 250),
    accuracy_epsilons=(8.03,),
    queries=1000,
    svhn_queries=2000,
    thresholds=(0.3, 0.9),
    student_steps=10,
    student_seeds=1,
)
"""Every item at a small size, to see that all of it works: its figures are not results."""


@dataclass(frozen=True)
class Settings:
    """What a run was asked for. Of all this only the scale shows in the results."""

    out: Path
    scale: Scale = FULL
    data_dir: Path | None = None
    device: str = "auto"
    progress: Progress = field(default=silent, repr=False)
