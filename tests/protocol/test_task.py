"""The terms of a task: checked, hashed, and the widths, blocks and buckets that follow from them."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import InputError, RingError, SedmlError, TaskError
from sedml.privacy.noise import noise_bits, noise_table, server_sigma
from sedml.protocol import task as task_module
from sedml.protocol.ballots import PAGE
from sedml.protocol.block_shape import Shape
from sedml.protocol.task import EXTRA_ATTEMPTS, Task

TERMS = {"classes": 10, "samples": 100, "teachers": 20, "threshold": 12, "sigma": 4.0}


@given(teachers=st.integers(1, 2**22), sigma=st.sampled_from([0.1, 1.0, 7.0, 40.0, 80.0]))
def test_rings_are_wide_enough_and_no_wider(teachers, sigma):
    """All counts lie below the fold, where the number after the last one is another; one short lies at its end."""
    widths = Task(10, 1, teachers, 1, sigma).widths
    assert teachers < 2 ** (widths.counts - 1) <= 2 * teachers
    assert widths.noise == noise_bits(sigma)
    highest = 2 * (2**widths.noise - 1) + 2 ** (widths.counts - 1) - 1
    assert 2 ** (widths.value - 1) <= highest + 1 < 2**widths.value


@pytest.mark.parametrize("sigma", [0.1, 0.7, 3.0, 40.0, 80.0])
def test_the_bits_of_noise_hold_all_that_a_server_draws(sigma):
    bound, half = noise_table(server_sigma(sigma)).bound, 1 << (Task(2, 1, 1, 1, sigma).widths.noise - 1)
    assert bound < half


def test_a_task_that_fits_no_ring_is_refused():
    assert Task(**TERMS | {"teachers": 2**23 - 1}).widths.counts == 24
    with pytest.raises(RingError, match="25 bits, more than 24"):
        Task(**TERMS | {"teachers": 2**23})


@given(
    samples=st.sampled_from([1, 8, 100, 1000, 4096, 100_000]), classes=st.integers(2, 40), teachers=st.integers(1, 5000)
)
@settings(max_examples=30)
def test_buckets_are_large_enough_for_all_attempts_of_the_job_together(samples, classes, teachers):
    task = Task(classes, samples, teachers, 1, 40.0)
    attempts, total = task.block_count + EXTRA_ATTEMPTS, 0.0
    for block in task.blocks:
        shape = Shape(task, block)
        size, ands = shape.size, shape.ands
        total = max(total, 2.0**-size * float(ands) ** -(size - 1))
        assert size == 2 or attempts * 2.0 ** -(size - 1) * float(ands) ** -(size - 2) > 2.0**-40  # no larger
    assert attempts * total <= 2.0**-40


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("classes", bad) for bad in (1, 0, -3, 2.0, "10", None, True)],
        *[("samples", bad) for bad in (0, -1, 1.5, None)],
        *[("teachers", bad) for bad in (0, -1, 2.5, None)],
        *[("threshold", bad) for bad in (0, -1, 0.6, None, True)],
        *[("sigma", bad) for bad in (0, 0.0, -1.0, math.nan, math.inf, "4", None, True, 1e300)],
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
        "sigma": 4.5,
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


@pytest.mark.parametrize(("samples", "blocks"), [(1000, 1), (1024, 1), (1025, 2), (100_000, 98)])
def test_a_thousand_samples_of_ten_classes_are_one_block(samples, blocks):
    assert Task(10, samples, 250, 150, 40.0).block_count == blocks


def test_whole_sigmas_are_the_same_terms():
    assert Task(**TERMS | {"sigma": 4}, nonce="1").id == Task(**TERMS, nonce="1").id


@given(
    samples=st.integers(1, 20_000),
    teachers=st.integers(1, 5000),
    classes=st.sampled_from([2, 3, 10, 33]),
    ands=st.integers(1, 1 << 20),
)
@settings(max_examples=40)
def test_blocks_follow_each_other_without_gaps_and_fill_whole_pages(samples, teachers, classes, ands):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "_BLOCK_ANDS", ands)
        task = Task(classes, samples, teachers, 1, 1.0)
        blocks, most = list(task.blocks), task.block_samples
    assert [block.index for block in blocks] == list(range(len(blocks)))
    assert blocks[0].start == 0
    assert blocks[-1].stop == samples
    assert all(one.stop == other.start for one, other in pairwise(blocks))
    assert all(block.samples == block.stop - block.start > 0 for block in blocks)
    assert all(block.start // PAGE == (block.stop - 1) // PAGE for block in blocks)  # each is on one page of a ballot
    assert all(block.samples == most for block in blocks[:-1])
    assert most in [1 << bit for bit in range(3, 13)]
    assert all(block.samples <= max(8, ands // task.ands) for block in blocks)
