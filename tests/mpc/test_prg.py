"""Seeds and the pseudo-random streams expanded from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sedml.errors import ShareError
from sedml.mpc.prg import SEED_BYTES, Seed, expand
from support.harness import fixed_seed

RECOGNISABLE = b"recognisable-secret-bytes-here!!"


@pytest.mark.parametrize(
    ("seed", "label", "offset", "stream"),
    [
        (1, "a", 0, "583f7533f640b235"),
        (1, "a", 13, "636e2d914379bed4"),
        (1, "b", 0, "8b4ee97c512993e1"),
        (2, "a", 0, "13b9afaa1e641845"),
    ],
)
def test_streams_are_those_that_other_versions_expand(seed, label, offset, stream):
    # A change here makes ballots and corrections of older versions unreadable.
    assert expand(fixed_seed(seed), label, 8, offset=offset).tobytes().hex() == stream


def test_children_are_those_that_other_versions_derive():
    child = "5e70ba7035986041d7d4cce60ab0df51e1b1af48520a2fbcddf5e178a84bd41c"
    assert fixed_seed(1).child("x").key.hex() == child


@given(start=st.integers(0, 5000), size=st.integers(0, 300))
def test_a_part_of_a_stream_is_found_by_its_offset_alone(start, size):
    whole = expand(fixed_seed(3), "offset", 5300)
    part = expand(fixed_seed(3), "offset", size, offset=start)
    assert part.dtype == np.uint8
    assert part.size == size
    assert (part == whole[start : start + size]).all()


def test_an_offset_beyond_four_gigabytes_does_not_come_round_again():
    near, far = (expand(fixed_seed(3), "far", 64, offset=offset) for offset in (0, 16 << 32))
    assert (near != far).any()


def test_streams_are_writable_and_not_shared():
    first = expand(fixed_seed(1), "a", 32)
    first[:] = 0
    assert expand(fixed_seed(1), "a", 32).any()


@given(
    one=st.tuples(st.integers(0, 9), st.text(max_size=6)),
    other=st.tuples(st.integers(0, 9), st.text(max_size=6)),
)
@settings(max_examples=60)
def test_streams_agree_exactly_if_seed_and_label_agree(one, other):
    streams = [expand(fixed_seed(seed), label, 32).tobytes() for seed, label in (one, other)]
    assert (streams[0] == streams[1]) == (one == other)
    children = [fixed_seed(seed).child(label).key for seed, label in (one, other)]
    assert (children[0] == children[1]) == (one == other)
    assert children[0] != streams[1]


def test_streams_of_neighbouring_labels_and_seeds_are_uncorrelated():
    labels = [f"{block}/{name}" for block in range(4) for name in ("masks", "derived")]
    streams = [expand(fixed_seed(seed), label, 1 << 12) for seed in (1, 2) for label in labels]
    streams += [expand(fixed_seed(1).child(label), labels[0], 1 << 12) for label in labels]
    signs = np.unpackbits(np.stack(streams), axis=1).astype(np.float64) * 2 - 1
    scores = signs @ signs.T / np.sqrt(signs.shape[1])
    np.fill_diagonal(scores, 0)
    assert np.abs(scores).max() < 5


def test_bytes_of_a_stream_are_uniform():
    observed = np.bincount(expand(fixed_seed(9), "uniform", 1 << 18), minlength=256)
    assert 1e-4 < stats.chisquare(observed).pvalue < 1 - 1e-4


def test_a_seed_shows_none_of_its_bytes():
    seed = Seed(RECOGNISABLE)
    for shown in (repr(seed), str(seed), f"{seed}", repr([seed]), repr({"seed": seed})):
        assert "recognisable" not in shown
        assert RECOGNISABLE.hex() not in shown


def test_fresh_seeds_differ():
    assert len({Seed.random().key for _ in range(64)}) == 64
    assert len(Seed.random().key) == SEED_BYTES


@pytest.mark.parametrize("size", [0, 16, 31, 33, 64])
def test_a_seed_of_another_size_is_refused_without_showing_it(size):
    key = (RECOGNISABLE * 2)[:size]
    with pytest.raises(ShareError, match="exactly 32 bytes") as caught:
        Seed(key)
    assert "recognisable" not in str(caught.value)
