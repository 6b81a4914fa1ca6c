"""The compiled kernel beside the NumPy code: what tests of either compare them on, and how."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from sedml.mpc import prg
from sedml.mpc.authenticated import authenticated_bits, buckets, gates, leaky, masks
from sedml.mpc.ot import extension, hashing, transpose
from sedml.mpc.prg import expand
from sedml.protocol.ballots import field, proof
from support.harness import fixed_seed

MODULES = (
    *(extension, hashing, transpose, authenticated_bits, buckets, gates, leaky, masks),
    *(prg, field, proof),
)
fast = pytest.importorskip("sedml.mpc._kernel", reason="the kernel in C is not built", exc_type=ImportError)

both = pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
keys = st.integers(0, 2**32 - 20)


def bytes_of(key: int, *shape: int) -> np.ndarray:
    return expand(fixed_seed(key), "kernel", int(np.prod(shape))).reshape(shape)


def words_of(key: int, *shape: int) -> np.ndarray:
    return bytes_of(key, *shape[:-1], 8 * shape[-1]).view(np.uint64)


def on_both(play) -> tuple:
    """What `play` returns on the kernel and on NumPy."""
    found = []
    for which in (fast, None):
        with pytest.MonkeyPatch.context() as patch:
            use(patch, lambda which=which: which)
            found.append(play())
    return tuple(found)


def use(patch, which) -> None:
    """From now on what `which` returns is the kernel, or None for NumPy."""
    for module in MODULES:
        patch.setattr(module, "kernel", which)
