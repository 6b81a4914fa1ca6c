"""How large a run is: the paper's sizes and beyond, or the same items at a small size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sedml import Progress, silent
from sedml.lab.bench.server_pair import Transport
from sedml.lab.reproduce import published
from sedml.lab.reproduce.students import STUDENT_SEEDS, STUDENT_STEPS

__all__ = ["FULL", "QUICK", "Scale", "Settings"]


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
    student_steps: int = STUDENT_STEPS
    student_seeds: int = STUDENT_SEEDS
    key_bits: tuple[int, ...] = (1024, 2048)
    baseline_samples: int = 20
    """How many samples the homomorphic baseline runs on; its cost of 1,000 is scaled from them."""
    peer_samples: tuple[int, ...] = (1000, 10_000)
    peer_repeat: int = 5
    growth: Mapping[str, Sequence[float]] = field(
        default_factory=lambda: {
            "samples": (1000, 4000, 16_000, 64_000, 256_000, 1_000_000),
            "classes": (2, 4, 10, 20, 50, 100, 300, 1000),
            "teachers": (10, 50, 250, 1000, 4000, 16_000),
            "latency": (0.0, 5.0, 10.0, 20.0, 50.0),
        }
    )
    """By what grows; the latency is one way, in milliseconds."""


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
    key_bits=(1024,),
    baseline_samples=3,
    peer_samples=(200,),
    peer_repeat=1,
    growth={"samples": (1000, 16_000), "classes": (2, 50), "teachers": (10, 500), "latency": (0.0, 5.0)},
)
"""Every item at a small size, to see that all of it works: its figures are not results."""


@dataclass(frozen=True)
class Settings:
    """What a run was asked for. Of all this only the scale shows in the results."""

    out: Path
    scale: Scale = FULL
    data_dir: Path | None = None
    device: str = "auto"
    students: Path | None = None
    """Accuracies of students trained elsewhere on this run's label files."""
    progress: Progress = field(default=silent, repr=False)

    @property
    def labels(self) -> Path:
        """Where label files go, for students trained here or elsewhere."""
        return self.out / "labels"
