"""A folder of models, one a part: what its `manifest.json` says, and the models themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sedml.errors import FileFormatError, InputError
from sedml.files.digest import size_and_sha256
from sedml.files.formats import reason
from sedml.parts.part_manifest import Parts, Sealed, read_manifest
from sedml.privacy.unit import MAX_VOTES
from sedml.protocol.votes import ABSTAIN

_SUFFIXES = (".joblib", ".pkl", ".onnx", ".pt2")


class Abstaining:
    """The model of a part that has too little to learn from."""

    def predict(self, samples: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
        """No vote on any sample."""
        return np.full(len(samples), ABSTAIN, np.int64)


class ModelFile(BaseModel):
    """One model: its file, and what the part that it was trained on has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[^/\\]+$")]
    sha256: str
    counts: dict[str, int]
    """Records of each class in this part."""
    abstains: str = ""
    """Why the model abstains from every vote; empty if it does not."""


class ModelSet(Sealed):
    """What was trained on a set of parts."""

    parts: Parts
    label: str
    model: str
    models: tuple[ModelFile, ...]


@dataclass(frozen=True, eq=False)
class PartModels:
    """Models to vote with, one a part."""

    models: tuple[object, ...] = field(repr=False)
    parts: Parts | None = None
    """What they were trained on; None for models that come without a manifest."""
    counts: tuple[dict[str, int], ...] | None = field(default=None, repr=False)
    """Records of each class in each part."""


def load_models(folder: str | os.PathLike[str], load: Callable[[Path], object]) -> PartModels:
    """The models that `sedml train` made, or any others: then one file a model, and nothing is known of their parts.

    `load` reads the model in a file; that of a joblib file runs its code. A file that is not as it was made is refused.
    """
    folder = Path(folder)
    known = read_manifest(folder, ModelSet)
    if known is None:
        return PartModels(tuple(load(path) for path in _files(folder)))
    for model in known.models:
        try:
            same = size_and_sha256(folder / model.name)[1] == model.sha256
        except OSError as error:
            raise FileFormatError(f"{folder / model.name} cannot be read ({reason(error)}).", _AGAIN) from None
        if not same:
            raise FileFormatError(f"{folder / model.name} is not as it was made.", _AGAIN)
    return PartModels(
        tuple(load(folder / model.name) for model in known.models),
        known.parts,
        tuple(model.counts for model in known.models),
    )


_AGAIN = "Train the models again with `sedml train`."


def _files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES) if folder.is_dir() else []
    if not 1 <= len(found) <= MAX_VOTES:
        what = f"{folder} is not a folder of 1 to {MAX_VOTES} models."
        raise InputError(what, f"Give one that `sedml train` made, or one with a {', '.join(_SUFFIXES)} file a part.")
    return found
