"""Clients are tested against two servers in memory (`fake_servers`), and over TLS on loopback."""

from __future__ import annotations

import numpy as np
import pytest

from support.client_parties import Job, Parties
from support.fake_servers import deployed, kits, provisioned, small_blocks

__all__ = ["deployed", "kits", "provisioned", "small_blocks"]


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
    return Job(parties, data_file)
