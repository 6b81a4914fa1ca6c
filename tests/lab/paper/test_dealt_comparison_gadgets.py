"""The paper's comparison and multiplication on dealt randomness, against plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.paper.correlations import corrections_size
from sedml.lab.paper.gadgets.multiply import Triple, multiply
from sedml.lab.paper.gadgets.scmp import plan_scmp, scmp
from sedml.lab.sharing import plane_bytes
from sedml.mpc.ring import Ring
from support.dealt import join_bits, run_pair
from support.harness import join_ring, numbers, split_ring

keys = st.integers(0, 2**32 - 1)
in_use = st.integers(1, 21)
spare = st.integers(0, 19)


def signed_values(width: int, shape: tuple[int, ...], key: int, low: int | None = None) -> np.ndarray:
    """Numbers over the whole range, a third of them at its ends and around zero."""
    rng = numbers(key)
    low, high = -(1 << width - 1) if low is None else low, (1 << width - 1) - 1
    values = rng.integers(low, high, shape, np.int64, endpoint=True)
    edges = np.clip(np.array([low, low + 1, -2, -1, 0, 1, high - 1, high]), low, high)
    return np.where(rng.random(shape) < 1 / 3, rng.choice(edges, shape), values)


def shares_with_edges(values: np.ndarray, width: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of which some are zero or all ones, so that carries run over the whole width or not at all."""
    share0, share1 = split_ring(values, width, key)
    rng, ones = numbers(key), share0.dtype.type((1 << width) - 1)
    pick = rng.integers(0, 6, values.shape)
    share0 = np.where(pick == 0, 0, np.where(pick == 1, ones, share0)).astype(share0.dtype)
    share1 = (values.astype(share0.dtype) - share0) & ones
    return share0, share1


@pytest.mark.parametrize("width", range(2, 65))
@given(samples=in_use, extra=spare, rows=st.integers(1, 3), key=keys)
@settings(max_examples=4)
def test_the_papers_comparison_finds_the_sign_at_every_width(width, samples, extra, rows, key):
    f = signed_values(width, (rows, samples), key)
    shares = shares_with_edges(f, width, key)
    plan = plan_scmp("scmp", rows, samples + extra, width)
    run = run_pair(plan, lambda p: scmp(p, "scmp", shares[p.role], width))
    assert (join_bits(run, samples) == (f < 0)).all()
    assert run.rounds == 1 + (width - 2).bit_length()
    # A leaf opens a bit and is dealt one; a node 3 and 2, but the lowest of each level 2 and 1.
    nodes, lowest = width - 2, (width - 2).bit_length()
    assert run.payload == (width - 1 + 3 * nodes - lowest) * rows * plane_bytes(samples)
    assert corrections_size(plan) == (width - 1 + 2 * nodes - lowest) * rows * plane_bytes(samples + extra)


@given(width=st.integers(1, 64), samples=in_use, extra=spare, key=keys)
@settings(max_examples=30)
def test_products(width, samples, extra, key):
    ring = Ring(width)
    x, y = (ring.reduce(numbers(key + i).integers(0, 2**63, samples)) for i in (0, 1))
    shares = [split_ring(value, width, key + i) for i, value in enumerate((x, y))]
    run = run_pair(
        {"triple": Triple((samples + extra,), width)},
        lambda p: multiply(p, "triple", shares[0][p.role], shares[1][p.role], width),
    )
    assert (join_ring(run.shares, width) == (x * y & ring.mask)).all()
    assert run.rounds == 1
