"""What `sedml up` lays out so that its servers can be tried at once: samples, teachers' predictions, the commands."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np

_SAMPLES, _CLASSES = 60, 3
_MISTAKES = 0.1
_EACH_ON_A_LINE = 3
_GOES_ON = " \\"  # a command, on the next line


def lay_out(folder: Path, votes: int = 1) -> list[str]:
    """Files for a trial in `trial/` beside the kits, made up and always the same; the names of the teachers.

    With several votes, a teacher's predictions have a row for each of its parts.
    """
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
        wrong = rng.random((votes, _SAMPLES)) < _MISTAKES
        predictions = np.where(wrong, rng.integers(_CLASSES, size=(votes, _SAMPLES)), truth)
        np.save(place / f"{name}.npy", predictions if votes > 1 else predictions[0])
    return teachers


def trial_commands(folder: Path, teachers: list[str], votes: int = 1) -> list[str]:
    """The commands from a job to its labels, for a fresh shell, in at most 80 columns as far as the folders allow."""
    ballots = [f"sedml vote --kit {name} --predictions trial/{name}.npy" for name in teachers]
    if len(teachers) > _EACH_ON_A_LINE:
        ballots = ["for kit in teacher-*; do", "  sedml vote --kit $kit --predictions trial/$kit.npy", "done"]
    many = [f"  --unit patient --votes {votes}" + _GOES_ON] if votes > 1 else []
    return [
        *_environment(),
        f"cd {shlex.quote(str(folder.resolve()))}",
        "sedml job create --kit requester-1 --data trial/samples.npy" + _GOES_ON,
        f"  --classes {_CLASSES} --threshold 0.6 --epsilon {1 if votes > 1 else 5} --delta 1e-5" + _GOES_ON,
        *many,
        f"  --min-teachers {len(teachers)} --deadline 1h",
        *ballots,
        "sedml job run --kit requester-1 --out labels.npy",
    ]


def _environment() -> list[str]:
    """What makes a shell that was just opened find `sedml`: where this one is installed."""
    programs = Path(sys.executable).absolute().parent
    if (programs / "activate").exists():
        return [f". {shlex.quote(str(programs / 'activate'))}"]
    return [f"export PATH={shlex.quote(str(programs))}:$PATH"] if (programs / "sedml").exists() else []
