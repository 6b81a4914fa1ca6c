"""The terms of a task: checked, hashed, and the rings and blocks that follow from them."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import InputError, RingError, SedmlError, TaskError
from sedml.mpc.ring import Ring
from sedml.privacy.noise import total_bound
from sedml.protocol import task as task_module
from sedml.protocol.ballots import PAGE
from sedml.protocol.task import Task, Widths, ring_widths
from support.harness import signed

TERMS = {"classes": 10, "samples": 100, "teachers": 20, "threshold": 12, "sigma1": 4.0, "sigma2": 2.0}


def right_sign(value: int, width: int) -> bool:
    """Whether the sign bit of `value` in a ring of this width is that of the number itself."""
    return ((value % 2**width) >> (width - 1) == 1) == (value < 0)


def check_widths(teachers: int, threshold: int, bound1: int, bound2: int) -> None:
    widths = ring_widths(teachers, threshold, bound1, bound2, most=64)
    # A count may be one vote short: the lowest is -1.
    lowest, highest = -1 - bound1 - threshold, teachers + bound1 - threshold
    apart = teachers + 1 + 2 * bound2
    assert right_sign(lowest, widths.threshold)
    assert right_sign(highest, widths.threshold)
    assert right_sign(apart, widths.label)
    assert right_sign(-apart, widths.label)
    assert widths.counts == max(widths.threshold, widths.label)
    # One bit less gets one of the ends wrong, but for a lowest number of exactly -2^(w-2), which would still fit.
    narrower = widths.threshold - 1
    assert not (right_sign(lowest, narrower) and right_sign(highest, narrower)) or lowest == -(2 ** (narrower - 1))
    assert not right_sign(apart, widths.label - 1)


def test_rings_are_wide_enough_and_no_wider_for_every_small_task():
    for teachers in range(1, 10):
        for threshold in range(1, 4 * teachers + 1):
            for bound in range(10):
                check_widths(teachers, threshold, bound, 9 - bound)


@given(st.integers(1, 2**40), st.data())
def test_rings_are_wide_enough_and_no_wider_for_large_tasks(teachers, data):
    threshold = data.draw(st.integers(1, 4 * teachers))
    bounds = data.draw(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)))
    check_widths(teachers, threshold, *bounds)


@given(st.integers(1, 60), st.data())
@settings(max_examples=50)
def test_no_number_between_the_extremes_overflows_either(teachers, data):
    threshold = data.draw(st.integers(1, 4 * teachers))
    bound1, bound2 = data.draw(st.tuples(st.integers(0, 60), st.integers(0, 60)))
    widths = ring_widths(teachers, threshold, bound1, bound2)
    for values, width in (
        (np.arange(-1 - bound1 - threshold, teachers + bound1 - threshold + 1), widths.threshold),
        (np.arange(-teachers - 1 - 2 * bound2, teachers + 2 * bound2 + 2), widths.label),
    ):
        ring = Ring(width)
        assert (signed(ring, ring.reduce(values)) == values).all()


def test_a_task_uses_the_bounds_of_its_own_noise():
    task = Task(**TERMS)
    assert task.widths == ring_widths(20, 12, total_bound(4.0), total_bound(2.0))


@pytest.mark.parametrize("terms", [(2**23, 1, 0, 0), (1, 2**23, 0, 0), (1, 1, 2**23, 0), (1, 1, 0, 2**22)])
def test_numbers_that_fit_no_ring_are_refused(terms):
    with pytest.raises(RingError, match="25 bits, more than 24"):
        ring_widths(*terms)


def test_a_task_that_fits_no_ring_is_refused():
    with pytest.raises(RingError, match="25 bits, more than 24"):
        Task(**TERMS | {"teachers": 2**23})


def test_the_widest_ring_still_fits():
    assert ring_widths(2**22, 1, 0, 0) == Widths(23, 24, 24)
    assert ring_widths(2**62, 1, 0, 0, most=64) == Widths(63, 64, 64)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("classes", bad) for bad in (1, 0, -3, 2.0, "10", None, True)],
        *[("samples", bad) for bad in (0, -1, 1.5, None)],
        *[("teachers", bad) for bad in (0, -1, 2.5, None)],
        *[("threshold", bad) for bad in (0, -1, 0.6, None, True)],
        *[("sigma1", bad) for bad in (0, 0.0, -1.0, math.nan, math.inf, "4", None, True)],
        *[("sigma2", bad) for bad in (0, 0.0, -1.0, math.nan, math.inf, "4", None, 1e300)],
        *[("protocol", bad) for bad in ("Fused", "", None, "ideal", "paper")],
    ],
)
def test_a_term_that_makes_no_sense_is_refused(name, value):
    with pytest.raises(TaskError) as caught:
        Task(**TERMS | {name: value})
    assert isinstance(caught.value, InputError | SedmlError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.what
    assert caught.value.do


def test_the_id_is_the_hash_of_all_terms():
    task = Task(**TERMS)
    assert len(task.id) == 16
    assert replace(task).id == task.id
    assert Task(**asdict(task)).id == task.id
    changes = {
        "classes": 11,
        "samples": 101,
        "teachers": 21,
        "threshold": 13,
        "sigma1": 4.5,
        "sigma2": 2.5,
        "protocol": "garbled",
        "nonce": "00",
    }
    ids = {replace(task, **{name: value}).id for name, value in changes.items()}
    assert len(ids | {task.id}) == len(changes) + 1


def test_two_jobs_of_the_same_terms_are_two_tasks():
    assert Task(**TERMS).id != Task(**TERMS).id


def test_the_terms_cannot_be_changed_afterwards():
    task = Task(**TERMS)
    with pytest.raises(AttributeError):
        task.threshold = 1


@given(
    samples=st.integers(1, 20_000),
    teachers=st.integers(1, 5000),
    classes=st.integers(2, 300),
    transfers=st.integers(1, 1 << 20),
)
@settings(max_examples=80)
def test_blocks_follow_each_other_without_gaps_and_fill_whole_pages(samples, teachers, classes, transfers):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "_BLOCK_TRANSFERS", transfers)
        task = Task(classes, samples, teachers, 1, 1.0, 1.0)
        blocks, most = list(task.blocks), task.block_samples
    assert [block.index for block in blocks] == list(range(len(blocks)))
    assert blocks[0].start == 0
    assert blocks[-1].stop == samples
    assert all(one.stop == other.start for one, other in pairwise(blocks))
    assert all(block.samples == block.stop - block.start > 0 for block in blocks)
    assert all(block.start // PAGE == (block.stop - 1) // PAGE for block in blocks)  # each is on one page of a ballot
    assert all(block.samples == most for block in blocks[:-1])
    assert most in [1 << bit for bit in range(3, 13)]
    assert all(block.samples <= max(8, transfers // classes) for block in blocks)
