"""Votes that were published with papers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def published_votes(data_dir: Path) -> Callable[[str], np.ndarray]:
    """Vote counts (samples, classes) of 250 teachers on 'mnist' or 'svhn', published with PATE 2018."""

    def load(name: str) -> np.ndarray:
        path = data_dir / "pate2018_votes" / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"pate2018_votes/{name}.npz is not at hand; set SEDML_DATA_DIR")
        with np.load(path) as file:
            return file["votes"]

    return load
