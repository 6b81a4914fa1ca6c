"""Label shares: their bytes, their size, and what two of them open to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import CheatingError, ShareError
from sedml.mpc.authenticated.outputs import PADDING, mac_digest
from sedml.protocol.labels import LabelShare, from_bytes, output_count, reveal, share_size, to_bytes
from sedml.protocol.task import Task
from support.harness import numbers


def dealt(task: Task, samples: int, labels: np.ndarray, key: int = 1) -> tuple[LabelShare, LabelShare]:
    """Shares of labels int[Q], -1 for none, as a trusted party would hand them out."""
    rng, half, width = numbers(key), -(-samples // 2), task.index_width
    wide = np.concatenate([labels, np.full(2 * half - samples, -1)])
    planes = np.stack([wide >= 0, *(((wide >> bit) & 1) * (wide >= 0) for bit in range(width))])
    value = planes.reshape(1 + width, 2, half).transpose(1, 0, 2).reshape(-1).astype(np.uint8)
    count = value.size
    own = rng.integers(0, 2, (2, count + PADDING), np.uint8)
    keys = rng.integers(0, 2**64, own.shape, np.uint64)
    deltas = rng.integers(0, 2**64, 2, np.uint64)
    public = value ^ own[0, :count] ^ own[1, :count]
    macs = [keys[1 - i] ^ own[i] * deltas[1 - i] for i in (0, 1)]
    return tuple(LabelShare(public, own[i], mac_digest("share", macs[i]), keys[i], deltas[i]) for i in (0, 1))


sizes = {"classes": st.integers(2, 300), "samples": st.integers(1, 40), "key": st.integers(0, 2**32 - 1)}


@given(**sizes)
@settings(max_examples=40)
def test_two_shares_open_to_the_labels_also_as_bytes(classes, samples, key):
    task = Task(classes, samples, 3, 2, 1.0)
    labels = numbers(key).integers(-1, classes, samples)
    shares = dealt(task, samples, labels, key)
    assert (reveal(task, samples, *shares) == labels).all()
    documents = [to_bytes(task, share) for share in shares]
    assert {len(document) for document in documents} == {share_size(task, samples)}
    again = [from_bytes(task, samples, document) for document in documents]
    assert (reveal(task, samples, *again) == labels).all()
    assert [to_bytes(task, share) for share in again] == documents
    assert again[0].delta == shares[0].delta


@given(**sizes)
@settings(max_examples=20)
def test_the_size_follows_from_classes_and_samples_alone(classes, samples, key):
    rng = numbers(key)
    tasks = [
        Task(classes, samples, int(rng.integers(1, 1000)), int(rng.integers(1, 900)), float(rng.integers(1, 90)))
        for _ in range(2)
    ]
    assert share_size(tasks[0], samples) == share_size(tasks[1], samples)
    bits = output_count(tasks[0], samples)
    assert bits == (samples + samples % 2) * (1 + (classes - 1).bit_length())
    assert share_size(tasks[0], samples) == -(-bits // 8) + -(-(bits + 64) // 8) + 32 + 8 * (bits + 64) + 8


@given(**sizes, data=st.data())
@settings(max_examples=30)
def test_bytes_of_another_size_are_refused(classes, samples, key, data):
    task = Task(classes, samples, 3, 2, 1.0)
    document = to_bytes(task, dealt(task, samples, np.zeros(samples, int), key)[0])
    size = data.draw(st.integers(0, 2 * len(document)).filter(lambda size: size != len(document)))
    with pytest.raises(ShareError, match="wrong size"):
        from_bytes(task, samples, (document * 2)[:size])


@given(**sizes, data=st.data())
@settings(max_examples=60)
def test_any_change_of_a_byte_is_refused_or_changes_no_label(classes, samples, key, data):
    """Only bits that pad a byte may be anything."""
    task = Task(classes, samples, 3, 2, 1.0)
    labels = numbers(key).integers(-1, classes, samples)
    documents = [bytearray(to_bytes(task, share)) for share in dealt(task, samples, labels, key)]
    document = documents[data.draw(st.integers(0, 1))]
    document[data.draw(st.integers(0, len(document) - 1))] ^= data.draw(st.integers(1, 255))
    shares = [from_bytes(task, samples, bytes(one)) for one in documents]
    try:
        assert (reveal(task, samples, *shares) == labels).all()
    except CheatingError as error:
        assert error.ends_job
        assert error.do


def test_a_class_that_does_not_exist_is_none():
    """No server can make one, unless both do."""
    task = Task(3, 4, 3, 2, 1.0)
    shares = dealt(task, 4, np.array([3, 2, 3, -1]))
    assert reveal(task, 4, *shares).tolist() == [-1, 2, -1, -1]


def test_the_refusal_names_nobody_and_nothing():
    task = Task(3, 4, 3, 2, 1.0)
    said = set()
    for labels in ([0, 0, 0, 0], [-1, 2, 1, -1]):
        one, other = dealt(task, 4, np.array(labels))
        for wrong in (replace(one, delta=one.delta + np.uint64(1)), replace(one, public=1 - one.public)):
            for pair in ((wrong, other), (other, wrong)):
                with pytest.raises(CheatingError) as refused:
                    reveal(task, 4, *pair)
                said.add(str(refused.value))
    assert len(said) == 1


def test_a_share_shows_no_secret():
    share = dealt(Task(3, 4, 3, 2, 1.0), 4, np.zeros(4, int))[0]
    assert repr(share) == "LabelShare()"
