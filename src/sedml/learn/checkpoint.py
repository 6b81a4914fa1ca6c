"""Checkpoints of a training: whole or not there, and never of another training.

One file has all models in the middle of their training. Where models are trained apart, in tasks of a cluster, those
that are done have a file for each task: `NAME.0-16` has the first sixteen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sedml.errors import FileFormatError, InputError
from sedml.files import replacing

__all__ = ["Parts", "load_checkpoint", "save_checkpoint"]


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """An interruption leaves the old checkpoint or the new one, never half of one."""
    with replacing(path) as stream:
        torch.save(state, stream)


def load_checkpoint(path: Path, fingerprint: str, device: torch.device) -> dict[str, Any] | None:
    """The state in the file, None if there is no file; a checkpoint of another training is refused."""
    if not path.exists():
        return None
    start_over = "Remove the file to start over."
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        found = state["fingerprint"]
    except Exception as error:  # torch raises half a dozen kinds for a damaged file
        raise FileFormatError(f"{path} is not a whole checkpoint ({type(error).__name__}).", start_over) from None
    if found != fingerprint:
        raise InputError(f"{path} is a checkpoint of other data, settings or another seed.", start_over)
    return dict(state)


@dataclass(frozen=True)
class Parts:
    """Models that are done, by their numbers, beside the path of a checkpoint; without a path none are kept."""

    path: Path | None
    fingerprint: str

    def load(self) -> dict[range, dict[str, torch.Tensor]]:
        """Those that are there."""
        found = {}
        for file, models in self._files().items():
            if (state := load_checkpoint(file, self.fingerprint, torch.device("cpu"))) is not None:
                found[models] = state["parameters"]
        return found

    def save(self, models: range, parameters: dict[str, torch.Tensor]) -> None:
        """Keep some more."""
        if self.path is not None:
            file = self.path.with_name(f"{self.path.name}.{models.start}-{models.stop}")
            save_checkpoint(file, {"fingerprint": self.fingerprint, "parameters": parameters})

    def remove(self) -> None:
        """All are done."""
        for file in self._files():
            file.unlink(missing_ok=True)

    def _files(self) -> dict[Path, range]:
        if self.path is None or not self.path.parent.is_dir():
            return {}
        named = re.compile(re.escape(self.path.name) + r"\.(\d+)-(\d+)")
        found = ((one, named.fullmatch(one.name)) for one in self.path.parent.iterdir())
        return {one: range(int(match[1]), int(match[2])) for one, match in found if match}
