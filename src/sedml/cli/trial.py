"""What `sedml up` lays out so that its servers can be tried at once: samples, teachers' predictions, the commands."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np

__all__ = ["lay_out", "trial_commands"]

_SAMPLES, _CLASSES = 60, 3
_MISTAKES = 0.1
_EACH_ON_A_LINE = 3
_GOES_ON = " \\"  # a command, on the next line


def lay_out(folder: Path) -> list[str]:
    """Files for a trial in `trial/` beside the kits, made up and always the same; the names of the teachers."""
    place = folder / "trial"
    place.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    truth = rng.integers(_CLASSES, size=_SAMPLES)
    # Points around three centres; a teacher takes some of them for those of another class.
    angles = 2 * np.pi * truth / _CLASSES
    points = np.column_stack([np.cos(angles), np.sin(angles)]) + rng.normal(0, 0.2, (_SAMPLES, 2))
    np.save(place / "samples.npy", points.astype(np.float32))
    teachers = sorted(path.name for path in folder.glob("teacher-*") if path.is_dir())
    for name in teachers:
        wrong = rng.random(_SAMPLES) < _MISTAKES
        np.save(place / f"{name}.npy", np.where(wrong, rng.integers(_CLASSES, size=_SAMPLES), truth))
    return teachers


def trial_commands(folder: Path, teachers: list[str]) -> list[str]:
    """The commands from a job to its labels, for a shell, in at most 80 columns as far as the folder allows."""
    votes = [f"sedml vote --kit {name} --predictions trial/{name}.npy" for name in teachers]
    if len(teachers) > _EACH_ON_A_LINE:
        votes = ["for kit in teacher-*; do", "  sedml vote --kit $kit --predictions trial/$kit.npy", "done"]
    return [
        f"cd {shlex.quote(str(folder.resolve()))}",
        "sedml job create --kit requester-1 --data trial/samples.npy" + _GOES_ON,
        f"  --classes {_CLASSES} --threshold 0.6 --epsilon 5 --delta 1e-5" + _GOES_ON,
        f"  --min-teachers {len(teachers)} --deadline 1h",
        *votes,
        "sedml job run --kit requester-1 --out labels.npy",
    ]
