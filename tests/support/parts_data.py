"""Records of patients who do not exist, to be split into parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["ids_by_part", "patients", "write_csv"]


def patients(records: int = 1200, units: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    """Ids, two features with a meaning and a class; so many units that no part of five is small by any key."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, records)
    return {
        "pid": np.array([f"PAT{k:05d}" for k in rng.integers(0, units, records)]),
        "age": (40 + 20 * y + rng.normal(0, 4, records)).round(1),
        "ward": np.where(rng.random(records) < 0.2, "", np.where(y == 1, "east", "west")),
        "y": y,
    }


def write_csv(path: Path, columns: dict[str, np.ndarray], delimiter: str = ",") -> Path:
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    lines = [delimiter.join(columns), *(delimiter.join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def ids_by_part(folder: Path) -> list[list[str]]:
    """The ids in each of the CSV files of a folder, records in their order."""
    files = sorted(folder.glob("part-*.csv"))
    return [[line.split(",")[0] for line in file.read_text("utf-8").splitlines()[1:]] for file in files]
