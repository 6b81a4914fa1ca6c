"""Attacks on the logs: real clients call two real servers, one of which does what it likes with its own."""

from __future__ import annotations

import numpy as np
import pytest

from support.client_parties import Parties
from support.stage import deployed, kits, provisioned, stage

__all__ = ["deployed", "kits", "provisioned", "stage"]


@pytest.fixture
def parties(kits, deployed):
    return Parties(kits, True)


@pytest.fixture
def data_file(tmp_path):
    path = tmp_path / "public.npz"
    np.savez(path, x=np.column_stack([np.arange(50) % 3, np.arange(50)]).astype(np.float32))
    return path
