"""Commands of a deployment are tested on the real applications of both servers (`real_apps`)."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from support.client_parties import VOTES
from support.stage import deployed, kits, provisioned, small_blocks, stage

__all__ = ["deployed", "kits", "provisioned", "small_blocks", "stage"]


@pytest.fixture
def here(kits, deployed, tmp_path, monkeypatch):
    """A folder with data, predictions and a model, kits/ beside them, and servers for them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEDML_KIT", raising=False)
    samples = np.column_stack([VOTES, np.zeros(50)]).astype(np.float32)
    np.savez("public.npz", x=samples)
    np.save("preds.npy", VOTES)
    joblib.dump(KNeighborsClassifier(1).fit(samples, VOTES), "model.joblib")
    return tmp_path
