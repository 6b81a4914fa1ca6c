"""Clients are tested on the real applications of both servers (`real_apps`), and over TLS on loopback."""

from __future__ import annotations

import numpy as np
import pytest

from support.client_parties import Job, Parties
from support.stage import deployed, kits, provisioned, small_blocks, stage

__all__ = ["deployed", "kits", "provisioned", "small_blocks", "stage"]


@pytest.fixture
def data_file(tmp_path):
    """Fifty samples of two numbers, the class of each in the first: 0, 1, 2, 0, 1, ..."""
    path = tmp_path / "public.npz"
    samples = np.column_stack([np.arange(50) % 3, np.arange(50)]).astype(np.float32)
    np.savez(path, x=samples, names=np.arange(50))
    return path


@pytest.fixture(params=["blocking", "async"])
def both_ways(request, kits):
    return Parties(kits, request.param == "blocking")


@pytest.fixture
def parties(kits):
    return Parties(kits, False)


@pytest.fixture
def job(parties, deployed, data_file):
    """A job with four votes in."""
    return deployed.prepared("voted", lambda: Job(parties, data_file))
