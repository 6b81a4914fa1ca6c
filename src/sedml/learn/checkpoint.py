"""Checkpoints of a training: whole or not there, and never of another training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sedml.errors import FileFormatError, InputError
from sedml.files import replacing

__all__ = ["load_checkpoint", "save_checkpoint"]


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
