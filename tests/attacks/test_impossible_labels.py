"""A server shifts its label shares, so that some labels open to classes that do not exist, and watches the requester.

If the requester complained, asked again or did anything else than with labels that are right, the server would learn
which labels the shift has made impossible, and so the labels.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.protocol.labels import LabelShare, from_bytes, label_ring, reveal, to_bytes
from sedml.protocol.task import Task
from support.client_parties import Job, Parties
from support.stage import deployed, kits, provisioned, stage
from support.wire import changed

__all__ = ["deployed", "kits", "provisioned", "stage"]


@pytest.fixture
def parties(kits):
    return Parties(kits, False)


def test_the_requester_does_the_same_whatever_class_is_shifted_by_whatever(parties, deployed):
    job = Job(parties, np.arange(50, dtype=np.float32))
    labels = parties.requester("run", job.id).labels
    task = deployed.task(job.id)
    assert set(labels) == {-1, 0, 1, 2}
    watched = {}
    for server in deployed.servers:
        for label in range(task.classes):
            for shift in range(label_ring(task).mask + 1):
                sample = int(np.flatnonzero(labels == label)[0])
                for one in deployed.servers:
                    one.calm()
                server.fault("GET .*/labels/0", changed(shifting(task, sample, shift)), times=2)
                found = parties.requester("labels", job.id)
                assert np.array_equal(found, parties.requester("run", job.id).labels)
                opened = (label + shift) & label_ring(task).mask
                assert found[sample] == (opened if opened < task.classes else -1)
                assert np.array_equal(np.delete(found, sample), np.delete(labels, sample))
                watched[server.name, label, shift] = [[*map(request, one.seen)] for one in deployed.servers]
    first, *others = watched.values()
    assert all(requests == first for requests in others)


def shifting(task: Task, sample: int, shift: int):
    """The label share of a block, with another share of the label of this sample."""

    def change(document: bytes) -> bytes:
        share = from_bytes(task, task.samples, document)
        labels = share.labels.copy()
        labels[share.consensus[:sample].sum()] += shift
        return to_bytes(task, LabelShare(share.consensus, labels & label_ring(task).mask))

    return change


def request(seen) -> tuple[str, bytes, list[tuple[str, str]]]:
    return str(seen), seen.body, seen.headers.multi_items()


@given(data=st.data(), classes=st.integers(2, 300))
def test_a_shifted_label_is_a_class_or_none(data, classes):
    task = Task(classes=classes, samples=8, teachers=5, threshold=3, sigma=4.0)
    ring, size = label_ring(task), 1 << label_ring(task).width
    eight = {"min_size": 8, "max_size": 8}
    labels = data.draw(st.lists(st.integers(0, classes - 1), **eight))
    shifts = data.draw(st.lists(st.integers(-classes, classes) | st.integers(0, size - 1), **eight))
    halves = data.draw(st.lists(st.integers(0, size - 1), **eight))
    others = [(label + shift - half) % size for label, shift, half in zip(labels, shifts, halves, strict=True)]
    every = np.ones(8, np.bool_)
    found = reveal(task, *(LabelShare(every, np.array(one, ring.dtype)) for one in (halves, others)))
    opened = [(label + shift) % size for label, shift in zip(labels, shifts, strict=True)]
    assert found.tolist() == [one if one < classes else -1 for one in opened]
